"""The table of docs/agents.md that says which promise each agent keeps: `python -m tests.agents.promise_table` writes it.

`make test-agents` prints the table of what just ran and leaves it in `build/promises.json`. This command takes it over into
`promises.json`, beside this module, and into the page. What did not run stays as it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.agents.all_agents import AGENTS
from tests.agents.failure_table import PAGE
from tests.agents.promises import Promise, obstacle

WRITE = "python -m tests.agents.promise_table"
TABLE = re.compile(r"<!-- promises -->\n(.*?)<!-- end of promises -->", re.DOTALL)
STORED = Path(__file__).with_name("promises.json")
JUST_RAN = Path(__file__).parents[2] / "build" / "promises.json"
NOT_RUN = "not run"

Results = Mapping[str, Mapping[Any, str]]
"""A word for each agent and each promise, by its head: yes, no, not installed, skipped, or why it cannot."""


def word_for(*, failed: bool, skipped_because: str | None) -> str:
    """Return the word for how a test of a promise ended. The reasons for skips are those of `conftest.py`."""
    if failed:
        return "no"
    if skipped_because is None:
        return "yes"
    if (found := re.search(r"cannot: \w+$", skipped_because)) is not None:
        return found[0]
    return "not installed" if re.search(r"is not installed|needs Node", skipped_because) else "skipped"


def read(path: Path) -> Results:
    """Return stored results; none if there is no such file."""
    results: Results = json.loads(path.read_text()) if path.exists() else {}
    return results


def store(path: Path, results: Results) -> None:
    """Store results, in the order of the table."""
    ordered = {
        agent: {promise.value: results[agent][promise] for promise in Promise if promise in results[agent]}
        for agent in AGENTS
        if agent in results
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(ordered, indent=2) + "\n")


def merged(known: Results, newer: Results) -> Results:
    """Return all results, of which the newer count."""
    return {agent: {**known.get(agent, {}), **newer.get(agent, {})} for agent in AGENTS}


def table(results: Results) -> str:
    """Return the table of some results."""
    heads = ["Agent", *Promise]
    rows = [[f"`{agent}`", *(_cell(results, agent, promise) for promise in Promise)] for agent in AGENTS]
    return "".join(f"| {' | '.join(row)} |\n" for row in [heads, ["---"] * len(heads), *rows])


def _cell(results: Results, agent: str, promise: Promise) -> str:
    why = obstacle(promise, agent)
    return f"cannot: {why}" if why else results.get(agent, {}).get(promise, NOT_RUN)


def with_table(page: str) -> str:
    """Return the page with the table of the stored results in its place."""
    return TABLE.sub(lambda _: f"<!-- promises -->\n{table(read(STORED))}<!-- end of promises -->", page)


if __name__ == "__main__":
    store(STORED, merged(read(STORED), read(JUST_RAN)))
    PAGE.write_text(with_table(PAGE.read_text()))
    print(table(read(STORED)), end="")
