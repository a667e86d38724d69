"""Events as lines for people: a sentence, a kind, and a tone that says how much to make of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded
from holdfast.core.events import Event
from holdfast.redaction import redact
from holdfast.views.event_text import event_sentence
from holdfast.views.text import timestamp

Tone = Literal["", "bad", "warn", "good", "dim"]

_TONES: dict[Tone, tuple[type[Event], ...]] = {
    "bad": (
        ev.AttemptFailed,
        ev.ChecksFailed,
        ev.ValidationFailed,
        ev.ValidatorFailed,
        ev.MergeRefused,
        ev.MergeConflicted,
        ev.TaskAbandoned,
        ev.StageGateFailed,
        ev.RunBlocked,
        ev.RunAbandoned,
        ev.LandingVanished,
        ev.AttemptBlocked,
        ev.VerificationBlocked,
        ev.ProviderShut,
    ),
    "warn": (
        ev.AttemptLost,
        ev.AttemptLimited,
        ev.AttemptHalted,
        ev.ProviderParked,
        ev.QuestionAsked,
        ev.IntrusionNoticed,
        ev.BranchMoved,
        ev.NotificationFailed,
        ev.MirrorFailed,
        ev.TickFailed,
        ev.ChecksInterrupted,
        ev.LandingInterrupted,
        ev.StopRequested,
        ev.RunStopped,
    ),
    "good": (
        ev.TaskLanded,
        ev.TaskVerified,
        ev.StageClosed,
        ev.RunCompleted,
        ev.ProviderAnswered,
    ),
    "dim": (ev.SnapshotSaved, ev.RunnerAttached, ev.PointsTicked, ev.InterfacePublished),
}
_TONE_OF: dict[type[Event], Tone] = {kind: tone for tone, kinds in _TONES.items() for kind in kinds}


class ToldEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event for people. `kind` is its name in the journal, `tone` how it is shown; `task` is empty if it is about none."""

    seq: int
    at: str
    kind: str
    task: str
    sentence: str
    tone: Tone


def tone_of(event: Event) -> Tone:
    """Return how much to make of an event."""
    if isinstance(event, ev.BaseChecked):
        return "bad" if event.error else "good"
    return _TONE_OF.get(type(event), "")


def told_event(record: Recorded) -> ToldEvent | None:
    """Return an event as a line; None if it gets none."""
    event = record.event
    if not (sentence := event_sentence(event)):
        return None
    return ToldEvent(
        seq=record.seq,
        at=timestamp(record.at),
        kind=type(event).__name__,
        task=getattr(event, "task", ""),
        sentence=redact(sentence),
        tone=tone_of(event),
    )


def told_events(recorded: Iterable[Recorded]) -> tuple[ToldEvent, ...]:
    """Return events as lines, without those that get none."""
    return tuple(told for record in recorded if (told := told_event(record)) is not None)
