"""A run over time: a lane per task with its attempts, checks and landings, and bands for the times in which nothing could go on.

Times are those of the recorded events, for people. What has not ended has no end here, either.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded
from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER, ParkReason, RunStatus
from holdfast.escapes import without_controls

BandKind = Literal["crash", "limit", "pause", "outage"]
STEPS = ("checks", "validation", "landing")
"""The kinds of bars that are not attempts: what follows an attempt, to be drawn thin."""
_LABEL_CHARS = 200


class TimelineBar(msgspec.Struct, kw_only=True):
    """An attempt, named by its kind, or one of `STEPS` that follow it. `end` is null while it is under way."""

    begin: float
    end: float | None = None
    attempt: int
    kind: str
    label: str
    outcome: str = "under way"


class TimelineMark(msgspec.Struct, frozen=True, kw_only=True):
    """One moment: event `seq`, in words."""

    at: float
    seq: int
    kind: str
    label: str


class TimelineLane(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to one task."""

    task: str
    bars: list[TimelineBar]
    marks: list[TimelineMark]


class TimelineBand(msgspec.Struct, kw_only=True):
    """A time in which the run, or a provider, stood still. `end` is null if it still does."""

    begin: float
    end: float | None = None
    kind: BandKind
    label: str


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A run over time, in seconds since 1970: the tasks in the order in which they began. `marks` are about all of them."""

    begin: float
    end: float
    lanes: tuple[TimelineLane, ...]
    bands: tuple[TimelineBand, ...]
    marks: tuple[TimelineMark, ...] = ()


class LostTime(msgspec.Struct, frozen=True, kw_only=True):
    """For how many seconds no agent worked because the runner was gone, or because of a provider's limit or outage."""

    crashes_s: float = 0.0
    limits_s: float = 0.0


def timeline(recorded: Iterable[Recorded], state: RunState, now: float, held: bool) -> Timeline:
    """Return a run over time. `held`: a runner is alive, so what is under way goes on until `now`."""
    drawing = _Drawing()
    for record in recorded:
        drawing.take_in(record)
    return drawing.finished(state, now, held=held)


def attempt_bars(recorded: Iterable[Recorded]) -> list[TimelineBar]:
    """Return the bars of all attempts. Those that are not over have no end."""
    drawing = _Drawing()
    for record in recorded:
        drawing.take_in(record)
    return [bar for lane in drawing.lanes.values() for bar in lane.bars if bar.kind not in STEPS]


def lost_time(view: Timeline) -> LostTime:
    """Return how much time a run lost. Where a crash and a limit are at once, the crash counts."""
    worked = merged_spans(
        (bar.begin, view.end if bar.end is None else bar.end)
        for lane in view.lanes
        for bar in lane.bars
        if bar.kind not in STEPS
    )
    spans = {
        kind: merged_spans(
            (b.begin, view.end if b.end is None else b.end) for b in view.bands if b.kind in kinds
        )
        for kind, kinds in (("crash", ("crash",)), ("limit", ("limit", "outage")))
    }
    crashes = merged_spans((*spans["crash"], *worked))
    everything = merged_spans((*spans["limit"], *crashes))
    return LostTime(
        crashes_s=round(_length(crashes) - _length(worked), 3),
        limits_s=round(_length(everything) - _length(crashes), 3),
    )


def merged_spans(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return spans of time as ones that do not touch, in their order."""
    merged: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def _length(spans: Iterable[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in spans)


def _line(text: str) -> str:
    """Return words of an agent or a tool as one bounded line."""
    flat = without_controls(" ".join(text.split()))
    return flat if len(flat) <= _LABEL_CHARS else flat[: _LABEL_CHARS - 1] + "…"


# -- What events mean in the picture ------------------------------------------------------------------------

_BY_PEOPLE = frozenset(
    {
        ev.PlanAmended,
        ev.PauseRequested,
        ev.StopRequested,
        ev.TaskRetried,
        ev.TaskSkipped,
        ev.QuestionAnswered,
        ev.TaskTaken,
        ev.TaskGiven,
        ev.TaskRewound,
        ev.StageRewound,
        ev.StageGateWaived,
        ev.MirrorKept,
        ev.MirrorEnded,
        ev.TickingStarted,
        ev.TickingEnded,
        ev.BaseAccepted,
    }
)
"""What people may decide while no runner is alive: no sign of life of one."""

_ATTEMPT_ENDS: dict[type[ev.Event], str] = {
    ev.AttemptDone: "done",
    ev.AttemptFailed: "failed",
    ev.AttemptLimited: "limited",
    ev.AttemptBlocked: "blocked",
    ev.AttemptAsked: "asked",
    ev.AttemptReturned: "returned",
    ev.AttemptLost: "lost",
}
_LATER_OUTCOMES: dict[type[ev.Event], str] = {
    ev.ChecksFailed: "failed",
    ev.ValidationFailed: "failed",
    ev.MergeConflicted: "failed",
    ev.MergeRefused: "failed",
    ev.VerificationBlocked: "blocked",
    ev.VerificationRestarted: "done",
    ev.TaskLanded: "landed",
}
"""What becomes of an attempt after its agent has ended."""
_STEP_BEGINS: dict[type[ev.Event], str] = {
    ev.ChecksStarted: "checks",
    ev.ValidationStarted: "validation",
    ev.LandingStarted: "landing",
}
_STEP_ENDS: dict[type[ev.Event], str] = {
    ev.ChecksSucceeded: "passed",
    ev.ChecksFailed: "failed",
    ev.ChecksInterrupted: "cut short",
    ev.ValidationDelayed: "no score",
    ev.ValidationFailed: "failed",
    ev.VerificationBlocked: "blocked",
    ev.TaskVerified: "passed",
    ev.MergeConflicted: "conflict",
    ev.MergeRefused: "failed",
    ev.LandingInterrupted: "cut short",
    ev.TaskLanded: "landed",
    ev.AttemptLost: "cut short",
    ev.TaskRewound: "cut short",
}
_MARKS: dict[type[ev.Event], tuple[str, str]] = {
    ev.TaskLanded: ("landed", "landed as {commit:.12}"),
    ev.LandingVanished: ("vanished", "{commit:.12} is no longer on the run branch"),
    ev.LandingReplaced: ("landed", "landed under another commit, {commit:.12}"),
    ev.MergeConflicted: ("conflict", "conflicts in {files}"),
    ev.MergeRefused: ("refused", "the merged tree failed: {error}"),
    ev.QuestionAsked: ("question", "asks: {question}"),
    ev.QuestionAnswered: ("answer", "is answered: {answer}"),
    ev.ValidatorScored: ("score", "{validator} gave {score:g}"),
    ev.ValidatorFailed: ("score", "{validator} gave no score: {error}"),
    ev.InterfacePublished: ("interface", "published interface {name}"),
    ev.TaskRetried: ("retry", "retried by a person: {hint}"),
    ev.TaskRewound: ("retry", "done again from a clean start"),
    ev.TaskSkipped: ("skip", "skipped by a person"),
    ev.TaskAbandoned: ("abandoned", "abandoned: {error}"),
    ev.TaskTaken: ("taken", "taken by a person"),
    ev.TaskGiven: ("given", "given by a person"),
    ev.TaskInherited: ("adopted", "attempts made before the run was adopted: {attempts}"),
    ev.TaskRestored: ("restored", "attempts known from git: {attempts}"),
}
"""The moments of a task, each with its kind and its words."""
_RUN_MARKS: dict[type[ev.Event], tuple[str, str]] = {
    ev.PlanAmended: ("amendment", "the plan was amended"),
    ev.StageGateFailed: ("gate", "stage {stage}: its {gate} check failed: {error}"),
    ev.StageGateWaived: ("gate", "stage {stage} continues although its {gate} check failed"),
    ev.ProviderShut: ("shut", "{words}"),
    ev.RunRestored: ("restored", "state rebuilt from git"),
    ev.RunCompleted: ("completed", "run completed"),
    ev.RunAbandoned: ("abandoned", "run abandoned"),
}
_RESTS: dict[type[ev.Event], str] = {
    ev.RunPaused: "paused",
    ev.RunStopped: "stopped",
    ev.RunBlocked: "waits for a person: {reason}",
    ev.RunRestored: "rebuilt from git",
}
"""The events after which a run rests until a runner attaches."""
_ENDS_REST = frozenset({ev.RunnerAttached, ev.RunCompleted, ev.RunAbandoned})


# -- The fold -----------------------------------------------------------------------------------------------


class _Drawing:
    """Lanes and bands as far as the events were read."""

    def __init__(self) -> None:
        self.lanes: dict[str, TimelineLane] = {}
        self.bands: list[TimelineBand] = []
        self.marks: list[TimelineMark] = []
        self.first: float | None = None
        self.last = self.last_of_runner = self.attached_at = self.quiet_since = 0.0
        self.boot_id = ""
        self.is_run = False
        self.open_bars: dict[tuple[str, str], TimelineBar] = {}
        self.latest: dict[str, TimelineBar] = {}
        self.rest: TimelineBand | None = None
        self.waits: dict[str, tuple[TimelineBand, ev.ProviderParked]] = {}

    def take_in(self, record: Recorded) -> None:
        """Take in the next event."""
        event, kind = record.event, type(record.event)
        self.first = record.at if self.first is None else self.first
        if kind in _RESTS or kind in _ENDS_REST:
            self._change_runner(record)
        if kind is ev.ProviderParked or kind is ev.ProviderAnswered:
            self._park(record)
        if kind in _RUN_MARKS:
            self.marks.append(_mark(_RUN_MARKS[kind], record))
        if isinstance(event, ev.TaskEvent):
            self._take_in_task(record, event)
        self.last = max(self.last, record.at)
        if kind not in _BY_PEOPLE:
            self.last_of_runner = self.last

    def _change_runner(self, record: Recorded) -> None:
        """A runner attaches, or the run rests or is over. A runner that attaches to a run that did not rest follows a crash."""
        event, at = record.event, record.at
        if isinstance(event, ev.RunnerAttached):
            self.quiet_since, self.attached_at = self.last_of_runner, at
            if self.is_run:
                rebooted = self.boot_id and event.boot_id and self.boot_id != event.boot_id
                words = "the machine restarted" if rebooted else "its runner was gone"
                begin = self.last_of_runner
                band = TimelineBand(begin=begin, end=max(begin, at), kind="crash", label=words)
                self.bands.append(band)
            self.boot_id = event.boot_id
        if self.rest is not None:
            self.rest.end = max(self.rest.begin, at)
        self.is_run, self.rest = isinstance(event, ev.RunnerAttached), None
        if type(event) in _RESTS:
            kind = self._why_it_rests(getattr(event, "reason", ""))
            self.rest = TimelineBand(begin=at, kind=kind, label=_words(_RESTS[type(event)], event))
            self.bands.append(self.rest)

    def _why_it_rests(self, reason: str) -> BandKind:
        """A run that was told to stop at a limit waits for its end, not for a person."""
        for _, parked in self.waits.values():
            if parked.words and parked.words in reason:
                return "limit" if parked.reason is ParkReason.LIMIT else "outage"
        return "pause"

    def _park(self, record: Recorded) -> None:
        """A provider is parked, again or for the first time, or it answers."""
        event = record.event
        if isinstance(event, ev.ProviderParked):
            known = self.waits.get(event.provider)
            if known is None:
                begin = min(event.since or record.at, record.at)
                kind: BandKind = "limit" if event.reason is ParkReason.LIMIT else "outage"
                label = _line(event.words or f"{kind} of {event.provider}")
                band = TimelineBand(begin=begin, kind=kind, label=label)
                self.bands.append(band)
            else:
                band = known[0]
            self.waits[event.provider] = band, event
        elif isinstance(event, ev.ProviderAnswered):
            self._end_wait(event.provider, record.at)

    def _end_wait(self, provider: str, at: float) -> None:
        if (waited := self.waits.pop(provider, None)) is not None:
            waited[0].end = max(waited[0].begin, at)

    def _take_in_task(self, record: Recorded, event: ev.TaskEvent) -> None:
        """Take in what happened to a task: a bar that begins or ends, a moment, or a later outcome of its attempt."""
        kind, name = type(event), event.task
        if isinstance(event, ev.AttemptStarted):
            self._end_wait(event.provider, record.at)
            self._begin_attempt(record, event)
        elif kind in _ATTEMPT_ENDS:
            self._end_attempt(record, event)
        elif kind in _LATER_OUTCOMES and name in self.latest:
            self._judge(record, event)
        if kind in _STEP_ENDS:
            for step in STEPS:
                self._end_step((name, step), record.at, _STEP_ENDS[kind])
        if isinstance(event, ev.AttemptEvent) and (step := _STEP_BEGINS.get(kind, "")):
            self._begin_bar(event, step, record.at, f"{step} of attempt {event.attempt}")
        if kind in _MARKS:
            self._lane(name).marks.append(_mark(_MARKS[kind], record))

    def _lane(self, task: str) -> TimelineLane:
        return self.lanes.setdefault(task, TimelineLane(task=task, bars=[], marks=[]))

    def _begin_bar(self, event: ev.AttemptEvent, kind: str, at: float, label: str) -> TimelineBar:
        bar = TimelineBar(begin=at, attempt=event.attempt, kind=kind, label=label)
        self._lane(event.task).bars.append(bar)
        self.open_bars[event.task, kind if kind in STEPS else ""] = bar
        return bar

    def _end_bar(self, key: tuple[str, str], at: float, outcome: str) -> None:
        if (bar := self.open_bars.pop(key, None)) is not None:
            bar.end, bar.outcome = max(bar.begin, at), outcome

    def _end_step(self, key: tuple[str, str], at: float, outcome: str) -> None:
        """End a bar of the runner's own work: what a crash cut short ended with the runner, not when the next one found it."""
        bar = self.open_bars.get(key)
        crashed = bar is not None and bar.begin < self.attached_at
        self._end_bar(key, self.quiet_since if crashed else at, outcome)

    def _begin_attempt(self, record: Recorded, event: ev.AttemptStarted) -> None:
        by = f" by {event.agent}" if event.agent else ""
        label = f"attempt {event.attempt} ({event.attempt_kind}){by}"
        self.latest[event.task] = self._begin_bar(event, event.attempt_kind.value, record.at, label)

    def _end_attempt(self, record: Recorded, event: ev.TaskEvent) -> None:
        """End the bar of an attempt. One that was found ended after a crash ended when its agent did, as far as is known."""
        bar = self.open_bars.get((event.task, ""))
        if bar is None:
            if isinstance(event, ev.AttemptLost) and event.task in self.latest:
                self.latest[event.task].outcome = "lost"
            return
        alone = bar.begin + getattr(event, "duration_s", 0.0)
        end = record.at
        if bar.begin < self.attached_at and alone < self.attached_at:
            known = max(alone, self.quiet_since) if isinstance(event, ev.AttemptLost) else alone
            end = known if known > bar.begin else self.quiet_since
        outcome = _ATTEMPT_ENDS[type(event)]
        if isinstance(event, ev.AttemptLimited) and event.reason is ParkReason.OUTAGE:
            outcome = "outage"
        self._end_bar((event.task, ""), min(end, record.at), outcome)
        _add_error(bar, event)

    def _judge(self, record: Recorded, event: ev.TaskEvent) -> None:
        """Say what became of the latest attempt. One that landed without a word of its end, by git's proof, is over, too."""
        self._end_step((event.task, ""), record.at, "")
        bar = self.latest[event.task]
        bar.outcome = _LATER_OUTCOMES[type(event)]
        _add_error(bar, event)

    def finished(self, state: RunState, now: float, *, held: bool) -> Timeline:
        """Return the picture. Without a runner nothing is known after its last sign, and an attempt counts until then."""
        over = state.row.status in RUN_IS_OVER
        end = max(now, self.last) if held and not over else self.last
        if not held:
            for bar in self.open_bars.values():
                bar.end, bar.outcome = max(bar.begin, self.last_of_runner), "interrupted"
        if not held and state.row.status is RunStatus.RUNNING:
            words = "its runner is gone"
            self.bands.append(TimelineBand(begin=self.last_of_runner, kind="crash", label=words))
        for band, parked in self.waits.values():
            if over or parked.until <= end:
                band.end = max(band.begin, min(parked.until, end))
        return Timeline(
            begin=end if self.first is None else self.first,
            end=end,
            lanes=tuple(self.lanes.values()),
            bands=tuple(sorted(self.bands, key=lambda band: band.begin)),
            marks=tuple(self.marks),
        )


def _mark(row: tuple[str, str], record: Recorded) -> TimelineMark:
    kind, words = row
    return TimelineMark(at=record.at, seq=record.seq, kind=kind, label=_words(words, record.event))


def _words(sentence: str, event: ev.Event) -> str:
    """Return a sentence with what the event says put in."""
    fields = {
        name: ", ".join(map(str, value)) if isinstance(value, tuple) else value
        for name, value in msgspec.structs.asdict(event).items()
    }
    return _line(sentence.format_map(fields)).removesuffix(":")


def _add_error(bar: TimelineBar, event: ev.Event) -> None:
    """Add to the words of a bar what went wrong."""
    if error := getattr(event, "error", ""):
        bar.label = _line(f"{bar.label}: {error}")
