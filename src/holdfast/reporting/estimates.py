"""How long attempts lasted, what had to be redone, and how long the rest of a run may take.

The times are those of the recorded events. They serve estimates for people, never decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded
from holdfast.core.plan import Plan, Stage
from holdfast.core.status import FailureKind


class AttemptSpan(msgspec.Struct, kw_only=True):
    """One attempt in time. `thrown_away`: it left nothing that the next one could build on."""

    task: str
    attempt: int
    started: float
    saved: float | None = None
    ended: float | None = None
    thrown_away: bool = False
    progress: float | None = None
    agent: str = ""
    heard_usd: float = 0.0
    reported_usd: float = 0.0

    @property
    def cost_usd(self) -> float | None:
        """What it cost, by its stream or its reports, whichever says more; None if neither says."""
        return max(self.heard_usd, self.reported_usd) or None

    @property
    def seconds(self) -> float:
        """How long it lasted, as far as known; never negative, even if the clock was set back."""
        return max(0.0, (self.started if self.ended is None else self.ended) - self.started)


class RedoneWork(msgspec.Struct, frozen=True, kw_only=True):
    """Work that had to be redone: attempts thrown away, how long they took, what agents said they cost."""

    attempts: int
    seconds: float
    cost_usd: float | None


def attempt_spans(recorded: Iterable[Recorded], restart_below: float) -> list[AttemptSpan]:
    """Return every attempt in the order in which they began.

    One that a crash cut short counts until the last record before the next runner.
    """
    spans: list[AttemptSpan] = []
    newest: dict[str, AttemptSpan] = {}
    before = quiet_since = 0.0
    for record in recorded:
        event = record.event
        if isinstance(event, ev.RunnerAttached):
            quiet_since = before
        elif isinstance(event, ev.AttemptStarted):
            span = AttemptSpan(task=event.task, attempt=event.attempt, started=record.at, agent=event.agent)
            spans.append(span)
            newest[event.task] = span
        elif (known := newest.get(getattr(event, "task", ""))) is not None:
            _take_in(known, record, quiet_since, restart_below)
        before = record.at
    return spans


def redone_work(spans: Iterable[AttemptSpan]) -> RedoneWork:
    """Sum up the attempts that were thrown away. If no agent reported money, the cost is unknown."""
    lost = [span for span in spans if span.thrown_away]
    costs = [span.cost_usd for span in lost if span.cost_usd is not None]
    return RedoneWork(
        attempts=len(lost),
        seconds=round(sum(span.seconds for span in lost), 3),
        cost_usd=round(sum(costs), 6) if costs else None,
    )


def _take_in(span: AttemptSpan, record: Recorded, quiet_since: float, restart_below: float) -> None:
    match record.event:
        case ev.SnapshotSaved():
            span.saved = record.at
        case ev.ProgressReported(progress=progress, cost_usd=cost):
            span.progress = span.progress if progress is None else progress
            span.reported_usd += cost
        case ev.AgentObserved(cost_usd=cost):
            span.heard_usd = max(span.heard_usd, cost)
        case (
            ev.AttemptDone(duration_s=seconds)
            | ev.AttemptLimited(duration_s=seconds)
            | ev.AttemptBlocked(duration_s=seconds)
        ):
            span.ended = span.started + seconds
        case ev.AttemptFailed(failure=failure, carry=carry, duration_s=seconds):
            span.ended = span.started + seconds
            span.thrown_away = not carry or failure is FailureKind.SIDE_LOST
        case ev.AttemptLost(carry=carry, cause=cause, is_accident=is_accident):
            span.ended = quiet_since if cause == "crash" else record.at
            early = is_accident and span.progress is not None and span.progress < restart_below
            span.thrown_away = not carry or early


def time_to_finish(
    plan: Plan, jobs: int, left: Mapping[str, float], measured: Sequence[float]
) -> float | None:
    """Return the seconds that agents still need, or None if nothing was measured yet and something is left.

    `left` is the share of each task that is still to be done, `measured` the seconds of finished tasks. A stage lasts
    as long as its longest chain, or as its work divided among the jobs; stages follow the ones they need.
    """
    if not left:
        return 0.0
    if not measured:
        return None
    mean = sum(measured) / len(measured)
    ends: dict[str, float] = {}
    for stage in plan.stages:
        begins = max((ends.get(need, 0.0) for need in stage.needs), default=0.0)
        ends[stage.id] = begins + mean * _stage_length(stage, jobs, left)
    return round(max(ends.values()), 3)


def _stage_length(stage: Stage, jobs: int, left: Mapping[str, float]) -> float:
    chains: dict[str, float] = {}
    for batch in stage.batches():
        for task in batch:
            before = max((chains.get(need, 0.0) for need in task.needs), default=0.0)
            chains[task.id] = before + left.get(task.id, 0.0)
    total = sum(left.get(name, 0.0) for name in chains)
    return max(total / jobs, max(chains.values(), default=0.0))
