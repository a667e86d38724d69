"""Copies runs from one journal to another, event by event, and compares them afterwards. For `move`, `backup`, `restore`.

Safe to repeat after a crash: it continues where the copy ends. Until the copy is whole, its row says where it comes
from, and nobody executes it. The source is only read here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby, islice, zip_longest

from msgspec.structs import replace

from holdfast.core.event_codec import Recorded
from holdfast.core.state import RunState, replay
from holdfast.core.task_transitions import IllegalEventError
from holdfast.errors import JournalError, NeedsDecisionError
from holdfast.journal.journal_errors import REBUILD
from holdfast.journal.lease import Holder
from holdfast.journal.protocol import Journal, JournalReader, StoredRun

_BATCH = 200


def copy_run(source: JournalReader, target: Journal, run: str, by: Holder | None = None) -> int:
    """Make the target hold a run exactly as the source does, and return how many events it has. Nobody else may write it.

    Raises NeedsDecisionError, with nothing written, if the target has another run of that name, or a longer one.
    """
    stored = source.load(run)
    there = next((one for one in target.runs() if one.row.run == run), None)
    copied = 0 if there is None else there.last_seq
    _require_same(source, target, stored, copied)
    if there is None:
        _begin(source, target, stored)
    if there is None or there.row != stored.row:
        _copy_rest(source, target, stored, max(copied, 1), by)
    _require_same(source, target, stored, stored.last_seq)
    if target.load(run) != stored:
        raise JournalError(
            f"run {run} in {target.name} is not as in {source.name}",
            "nothing was removed; run the command again",
        )
    return stored.last_seq


def _begin(source: JournalReader, target: Journal, stored: StoredRun) -> None:
    """Make the run in the target with its first event and the plan that it began with."""
    first = source.first_event(stored.row.run)
    row = replace(_state_after(source, stored, 1).row, moving=source.name)
    target.create_run(stored.first_plan, row, first.event, first.at)


def _copy_rest(
    source: JournalReader, target: Journal, stored: StoredRun, copied: int, by: Holder | None
) -> None:
    """Append what is missing, with the rows that it led to; then the rows as they are stored."""
    run = stored.row.run
    state, epoch = _state_after(source, stored, copied), target.take_epoch(run, by)
    for at, events in _appends(source.events(run, after=copied, upto=stored.last_seq)):
        with _folding(source, run):
            state.apply_all(recorded.event for recorded in events)
        row = replace(state.row, moving=source.name)
        target.append(run, epoch, [recorded.event for recorded in events], row, state.take_changed(), at)
    target.append(run, epoch, [], stored.row, stored.tasks, stored.updated_at)


def _state_after(source: JournalReader, stored: StoredRun, last: int) -> RunState:
    """Return the run as it was after an event."""
    with _folding(source, stored.row.run):
        state = replay(stored.first_plan, (one.event for one in source.events(stored.row.run, upto=last)))
    state.take_changed()
    return state


@contextmanager
def _folding(source: JournalReader, run: str) -> Iterator[None]:
    """Say whose events they are if they cannot be folded."""
    try:
        yield
    except IllegalEventError as error:
        raise JournalError(
            f"{source.name}: the events of run {run} contradict each other: {error}", REBUILD
        ) from error


def _appends(events: Iterator[Recorded]) -> Iterator[tuple[float, list[Recorded]]]:
    """Group events that were recorded at the same time, a bounded number at once."""
    for at, group in groupby(events, key=lambda recorded: recorded.at):
        while batch := list(islice(group, _BATCH)):
            yield at, batch


def _require_same(source: JournalReader, target: JournalReader, stored: StoredRun, last: int) -> None:
    """Raise NeedsDecisionError unless the target's first events, up to `last`, are the source's."""
    if not last:
        return
    run = stored.row.run
    pairs = zip_longest(source.events(run, upto=last), target.events(run, upto=last))
    if last > stored.last_seq or any(one != other for one, other in pairs):
        raise NeedsDecisionError(
            f"{target.name} has another run {run}, with other events",
            f"look at it there: `holdfast inspect {run} --store …`; nothing was changed",
        )
