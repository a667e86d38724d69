"""The table of docs/agents.md that says how each agent's failures end: `python -m tests.agents.failure_table` writes it.

Every cell comes from what a real agent printed: early, when the first request failed, and late, after its first tool
call. What is missing is listed here, so that it is seen, and the list is only ever shortened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.core.status import FailureKind
from tests.agents.record import CASES
from tests.agents.recordings import case_of, did_without, index, outcome_of

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
WRITE = "python -m tests.agents.failure_table"
TABLE = re.compile(r"<!-- failures -->\n(.*?)<!-- end of failures -->", re.DOTALL)
NOTHING = "n/a"
_COLUMNS = {
    "429 once": "rate-limit-once",
    "429 for ever": "rate-limit",
    "usage limit": "usage-limit",
    "bad key": "bad-key",
    "no credit": "no-credit",
    "402": "payment-required",
    "bad model": "bad-model",
    "500": "server-error",
    "404": "not-found",
    "refused": "refused",
    "cut": "cut",
    "early end": "eof",
    "overflow": "overflow",
    "refusal": "refusal",
}
"""The heads of the columns, each with its case; a second case, `late-…`, is shown behind a stroke."""
_WORDS = {
    FailureKind.LIMIT: "waits",
    FailureKind.OUTAGE: "outage",
    FailureKind.AUTH: "key",
    FailureKind.CREDIT: "credit",
    FailureKind.MODEL: "model",
    FailureKind.CONTEXT: "context",
    FailureKind.STALLED: "stalled",
    FailureKind.UNFINISHED: "unfinished",
    FailureKind.AGENT: "failed",
}


def recorded_agents() -> dict[str, dict[str, str]]:
    """Return the recordings of each agent by their cases; an older version is an agent of its own."""
    agents: dict[str, dict[str, str]] = {}
    for name, entry in index().items():
        if not entry.get("written"):
            agents.setdefault(name.partition(f"-{case_of(name)}.")[0], {})[case_of(name)] = name
    return agents


def missing_recordings() -> set[str]:
    """Return every case of an agent with recordings that none is of."""
    return {
        f"{agent}-{case}" for agent, known in recorded_agents().items() for case in CASES if case not in known
    }


def table() -> str:
    """Return the table."""
    heads = ["Agent", *_COLUMNS]
    rows = [heads, ["---"] * len(heads), *(list(_row(agent)) for agent in recorded_agents())]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(agent: str) -> Iterator[str]:
    known = recorded_agents()[agent]
    shown = [name for case, name in known.items() if case in CASES]
    versions = sorted({str(index()[name].get("version", "")) for name in shown} - {""})
    unnamed = [version for version in versions if version not in agent]
    yield " ".join([f"`{agent}`", ", ".join(unnamed)]).strip()
    for case in _COLUMNS.values():
        cells = [_cell(known.get(one)) for one in (case, f"late-{case}") if one in CASES]
        yield NOTHING if set(cells) == {NOTHING} else " / ".join(cells)


def _cell(name: str | None) -> str:
    if name is None:
        return NOTHING
    outcome = outcome_of(name)
    if outcome.failure is None:
        return f"done{' (1)' if did_without(name) else ''}"
    return _WORDS.get(outcome.failure, outcome.failure.value)


def with_table(page: str) -> str:
    """Return the page with the table in its place."""
    return TABLE.sub(lambda _: f"<!-- failures -->\n{table()}<!-- end of failures -->", page)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
    print(table(), end="")
