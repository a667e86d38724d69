"""Counts which rows of the transition tables a simulated run took: each event, in each status it may happen in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.core import events as ev
from holdfast.core.run_transitions import RUN_EVENTS, STAGE_EVENTS
from holdfast.core.state import RunState
from holdfast.core.task_transitions import TASK_EVENTS

Row = tuple[str, str]
"""An event, with its gate if it has one, and the status before it; `any` for an event of the run."""


class RowCounts(Counter[Row]):
    """How often each row was taken."""

    def count(self, state: RunState, event: ev.Event) -> None:
        """Count the row that an event takes, which is about to be applied."""
        kind = type(event)
        if kind in TASK_EVENTS:
            self[kind.__name__, state.tasks[event.task].status] += 1  # type: ignore[attr-defined]
        elif kind in STAGE_EVENTS:
            gate = getattr(event, "gate", "")
            self[f"{kind.__name__} {gate}".strip(), state.row.stages[event.stage].status] += 1  # type: ignore[attr-defined]
        else:
            self[kind.__name__, "any"] += 1

    def never_taken(self) -> list[Row]:
        """Return the rows of the three tables that were not taken."""
        return [row for row in every_row() if not self[row]]


def every_row() -> Iterator[Row]:
    """Yield every row of the three tables."""
    for kind, rule in TASK_EVENTS.items():
        yield from ((kind.__name__, status) for status in rule.moves)
    for kind, stage_rule in STAGE_EVENTS.items():
        gates = {"entry": stage_rule.move, "exit": stage_rule.at_exit}
        for gate, move in gates.items() if stage_rule.at_exit else (("", stage_rule.move),):
            yield from (((f"{kind.__name__} {gate}").strip(), status) for status in move.before)  # type: ignore[union-attr]
    yield from ((kind.__name__, "any") for kind in RUN_EVENTS)
