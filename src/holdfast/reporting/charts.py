"""A run in curves: tasks landed, tokens, money, agents at work and attempts that were redone, over time.

Each curve is a stair: a value holds until the next point. What no agent told has no points, rather than zeros.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from holdfast.core import events as ev
from holdfast.core.accounts import add_reported, add_streamed, add_validation
from holdfast.core.event_codec import Recorded
from holdfast.core.plan import Limits
from holdfast.core.projection import AttemptRow, RunRow, TaskRow
from holdfast.core.status import AttemptKind
from holdfast.reporting.estimates import attempt_spans
from holdfast.reporting.timeline import attempt_bars

POINTS_MAX = 300
_Point = tuple[float, float]


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """One curve: points of time, in seconds since 1970, and value."""

    name: str
    unit: str
    points: tuple[_Point, ...]


class Charts(msgspec.Struct, frozen=True, kw_only=True):
    """The curves of a run."""

    series: tuple[Series, ...]


def charts(recorded: Iterable[Recorded], now: float, restart_below: float = Limits().restart_below) -> Charts:
    """Return the curves of a run until `now`, which is the time of its last event if no runner is alive.

    An attempt that an accident cut short below `restart_below` percent, the plan's limit, is redone.
    """
    records = list(recorded)
    curves: dict[str, tuple[str, list[_Point]]] = {
        "landed": ("tasks", list(_landed(records))),
        "tokens": ("tokens", []),
        "cost_usd": ("USD", []),
        "agents": ("agents", list(_at_work(records))),
        "redone": ("attempts", list(_redone(records, restart_below))),
    }
    for at, tokens, cost in _spent(records):
        curves["tokens"][1].append((at, tokens))
        curves["cost_usd"][1].append((at, cost))
    begin = records[0].at if records else now
    return Charts(
        series=tuple(
            Series(name=name, unit=unit, points=_curve(points, begin, now, told=name not in _MAY_BE_UNKNOWN))
            for name, (unit, points) in curves.items()
        )
    )


_MAY_BE_UNKNOWN = ("tokens", "cost_usd")


def _landed(records: Sequence[Recorded]) -> Iterator[_Point]:
    """Yield how many tasks are on the run branch."""
    landed: set[str] = set()
    for record in records:
        match record.event:
            case ev.TaskLanded(task=task):
                landed.add(task)
            case ev.LandingVanished(task=task):
                landed.discard(task)
            case _:
                continue
        yield record.at, float(len(landed))


def _spent(records: Sequence[Recorded]) -> Iterator[tuple[float, float, float]]:
    """Yield tokens and money so far, by the accounts of the core: what is told in two ways counts once."""
    run = RunRow(run="run", goal="", plan_hash="", base="base", branch="refs/heads/holdfast/run")
    rows: dict[str, TaskRow] = {}
    for record in records:
        event = record.event
        if not isinstance(event, ev.TaskEvent):
            continue
        row = rows.setdefault(event.task, TaskRow(id=event.task))
        match event:
            case ev.AttemptStarted():
                row.latest = AttemptRow()
                continue
            case ev.AgentObserved():
                add_streamed(run, row, event)
            case ev.ProgressReported():
                add_reported(run, row, event)
            case ev.ValidatorScored() | ev.ValidatorFailed():
                add_validation(run, row, event)
            case _:
                continue
        yield record.at, float(run.tokens), round(run.cost_usd, 6)


def _at_work(records: Sequence[Recorded]) -> Iterator[_Point]:
    """Yield how many agents work. One that a crash cut short ended with it, not when it was found."""
    changes: list[tuple[float, int]] = []
    for bar in attempt_bars(records):
        if bar.kind != AttemptKind.PERSON:
            changes.append((bar.begin, 1))
            changes += [] if bar.end is None else [(bar.end, -1)]
    working = 0
    for at, change in sorted(changes):
        working += change
        yield at, float(working)


def _redone(records: Sequence[Recorded], restart_below: float) -> Iterator[_Point]:
    """Yield how many attempts left nothing for the next one."""
    ends = [span.ended for span in attempt_spans(records, restart_below) if span.thrown_away]
    for number, at in enumerate(sorted(at for at in ends if at is not None), start=1):
        yield at, float(number)


def _curve(points: list[_Point], begin: float, now: float, *, told: bool) -> tuple[_Point, ...]:
    """Return a stair from the beginning until now; none if it has no step and what it shows may be unknown."""
    if not told and not any(value for _, value in points):
        return ()
    steps: list[_Point] = [(begin, 0.0)]
    for at, value in points:
        if value != steps[-1][1]:
            # A clock that was set back makes no curve that goes back.
            steps.append((max(at, steps[-1][0]), value))
    end = (max(now, steps[-1][0]), steps[-1][1])
    return tuple(_rounded(at, value) for at, value in (*_thinned(steps), end))


def _thinned(steps: list[_Point]) -> list[_Point]:
    """Return at most `POINTS_MAX` - 1 steps: of each stretch of time the highest and the last."""
    if len(steps) < POINTS_MAX:
        return steps
    begin, end = steps[0][0], steps[-1][0]
    stretches = (POINTS_MAX - 1) // 2
    length = (end - begin) / stretches or 1.0
    kept: dict[int, list[_Point]] = {}
    for step in steps:
        stretch = min(int((step[0] - begin) / length), stretches - 1)
        highest = kept[stretch][0] if stretch in kept else step
        kept[stretch] = [highest if highest[1] > step[1] else step, step]
    return [step for pair in kept.values() for step in dict.fromkeys(pair)]


def _rounded(at: float, value: float) -> _Point:
    return round(at, 3), value
