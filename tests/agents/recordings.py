"""Recorded streams of real agents, read by the presets that Holdfast comes with."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from holdfast.agents.presets import builtin_presets
from holdfast.agents.streams.reader import StreamReader
from holdfast.core.brief import closing_line_of
from holdfast.core.facts import Exit, ExitReason
from holdfast.core.observations import Observation, StreamSummary
from holdfast.core.outcome import Outcome, WorkSign, judge_outcome
from holdfast.core.projection import AttemptRow, TaskRow

STREAMS = Path(__file__).parent / "streams"


@lru_cache(maxsize=1)
def index() -> dict[str, dict[str, Any]]:
    """Return what is known of every recorded stream: by which agent, of what, and how it ended."""
    rows: dict[str, dict[str, Any]] = json.loads((STREAMS / "index.json").read_text())
    return rows


@lru_cache(maxsize=1)
def recorded() -> dict[str, int | None]:
    """Return every recorded stream with the exit status of its agent; None where it had to be ended."""
    return {name: entry["exit"] for name, entry in index().items()}


def heard(stream: bytes, agent: str, *, chunk: int = 1 << 16) -> StreamSummary:
    """Return what an agent's bytes tell, fed in pieces of `chunk`."""
    reader = reader_of(agent)
    total = reader.new_summary()
    for start in range(0, len(stream), chunk):
        take_all(total, reader.feed(stream[start : start + chunk]))
    take_all(total, reader.close())
    return total


def reader_of(agent: str) -> StreamReader:
    """Return a reader of what an agent prints."""
    preset = builtin_presets()[agent]
    return StreamReader(preset.stream, preset.error_patterns())


def take_all(total: StreamSummary, seen: Iterable[Observation]) -> None:
    """Add what a reader saw."""
    for one in seen:
        total.take(one)


def heard_in(name: str, *, chunk: int = 1 << 16) -> StreamSummary:
    """Return what a recorded stream tells."""
    return heard((STREAMS / name).read_bytes(), agent_of(name), chunk=chunk)


def agent_of(name: str) -> str:
    """Return the preset whose agent a recorded stream is of."""
    return str(index()[name].get("agent") or preset_of(name))


def preset_of(name: str) -> str:
    """Return the preset of a real agent or of its stream: the longest that the name begins with."""
    if name.startswith("mini-") and not name.startswith("mini-swe-agent"):
        return "mini-swe-agent"
    presets = [one for one in builtin_presets() if name == one or name.startswith(f"{one}-")]
    return max(presets, key=len)


def case_of(name: str) -> str:
    """Return what a recorded agent was served."""
    written = name.removeprefix("mini-").removeprefix(f"{agent_of(name)}-").partition(".")[0]
    return str(index()[name].get("case") or written)


def did_without(name: str) -> bool:
    """Whether the fault met only what the agent can do without.

    aider gets all the work in one answer. What fails after it is the message for its commit.
    """
    return agent_of(name) == "aider" and case_of(name).startswith("late-")


def recorded_task(agent: str) -> TaskRow:
    """Return the task that recorded agents were given, at its first attempt."""
    return TaskRow(id="T1", attempt=1, latest=AttemptRow(closing_line=builtin_presets()[agent].closing_line))


def exit_with(code: int | None) -> Exit:
    """Return how an agent ended; one that had to be ended fell silent."""
    if code is None:
        return Exit(token="t", reason=ExitReason.STALLED, code=-15)
    return Exit(token="t", reason=ExitReason.EXITED, code=code)


def judged(stream: bytes, agent: str, code: int | None) -> Outcome:
    """Return how an attempt ended that changed something, printed this and ended with this status."""
    return judged_by(heard(stream, agent), agent, code)


def judged_by(told: StreamSummary, agent: str, code: int | None) -> Outcome:
    """Return how an attempt ended that changed something, told this and ended with this status."""
    exit_ = exit_with(code)
    by_code = builtin_presets()[agent].error_patterns().of_exit(exit_.code)
    closing = closing_line_of(recorded_task(agent))
    return judge_outcome(exit_, told, WorkSign.CHANGED, None, by_code, closing)


def outcome_of(name: str) -> Outcome:
    """Return how a recorded attempt ended."""
    return judged((STREAMS / name).read_bytes(), agent_of(name), recorded()[name])
