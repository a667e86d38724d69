"""Each event as one sentence for people, and a run followed line by line in pipes, CI logs and programs.

A table maps event names to sentences. An empty sentence means no line; without a row, the name is shown.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

import msgspec

from holdfast.core.event_codec import encode_event
from holdfast.core.events import (
    AgentsReattached,
    AttemptBlocked,
    AttemptDone,
    AttemptFailed,
    AttemptLimited,
    AttemptLost,
    AttemptStarted,
    BaseChecked,
    ChecksFailed,
    Event,
    MergeConflicted,
    MergeRefused,
    PauseRequested,
    PlanAmended,
    ProviderParked,
    ProviderShut,
    RunBlocked,
    StageGateFailed,
    TaskEvent,
    TaskRetried,
)
from holdfast.core.ids import with_run_numbers
from holdfast.core.state import RunState
from holdfast.core.status import ParkReason
from holdfast.views.terminal import write_line
from holdfast.views.text import one_line, time_of_day

if TYPE_CHECKING:
    from holdfast.runner.context import Observer

_LAST_LINE_CHARS = 100
_REASON_CHARS = 2_000
_REMARKS_CHARS = 300
_WAY_OUT_CHARS = 480
"""An error and what a person can do about it: the second is at the end."""
_SENTENCES = {
    "RunStarted": "run {run} begins at {base:.12}",
    "RunRestored": "state rebuilt from git",
    "RunnerAttached": "runner attached (pid {pid} on {host})",
    "AgentsReattached": "",
    "BaseCheckStarted": "checking the base before any agent starts",
    "BaseCheckInterrupted": "the check of the base was cut short; it runs again",
    "BaseAccepted": "agents start all the same: the user decided so",
    "StageOpening": "",
    "StageOpened": "stage {stage} opened",
    "StageClosing": "",
    "StageClosed": "stage {stage} completed",
    "StageGateFailed": "stage {stage} is blocked, its {gate} check failed: {error}",
    "StageRewound": "stage {stage} begins again",
    "StageGateReset": "stage {stage}: the {gate} check will run again",
    "StageGateWaived": "stage {stage} continues although its {gate} check failed: the user decided so",
    "AttemptStarted": "{task}: attempt {attempt} started ({attempt_kind}){how}",
    "AgentObserved": "",
    "AttemptHalted": "{task}: attempt {attempt} is stopped: {error}",
    "AttemptLimited": "{task}: attempt {attempt} {how}; it waits, no attempt is charged",
    "AttemptBlocked": "{task}: attempt {attempt} needs you ({failure}): {error}",
    "ProviderParked": "{words}",
    "ProviderAnswered": "{words}",
    "ProviderShut": "{words}",
    "AttemptDone": "{task}: attempt {attempt} done, {head:.12}",
    "AttemptFailed": "{task}: attempt {attempt} failed ({failure}): {error}",
    "AttemptAsked": "{task}: attempt {attempt} ended at its question; no attempt is charged",
    "AttemptReturned": "{task}: back with the agents, who continue from your work",
    "QuestionAsked": "{task} asks: {question}",
    "QuestionAnswered": "{task} is answered: {answer}",
    "TaskTaken": "{task}: taken by you",
    "HandOverStarted": "",
    "HandOverInterrupted": "",
    "TaskHandedOver": "{task}: your workspace is ready",
    "TaskGiven": "{task}: given by you",
    "AttemptLost": "{task}: attempt {attempt} {how}",
    "ChecksStarted": "",
    "ValidatorFailed": "{task}: validator {validator} gave no score: {error}",
    "ValidationDelayed": "",
    "VerificationBlocked": "{task}: its work waits, and needs you ({failure}): {error}",
    "VerificationRestarted": "{task}: the work of attempt {attempt} is verified again",
    "TaskVerified": "{task}: verified",
    "ChecksFailed": "{task}: check failed: {error}",
    "ChecksInterrupted": "{task}: checks cut short; they run again",
    "ChecksSucceeded": "{task}: checks passed, validators next",
    "ValidationStarted": "",
    "ValidatorScored": "{task}: {validator} gave {score:g}",
    "ValidationFailed": "{task}: validation failed: {error}",
    "InterfacePublished": "{task}: published interface {name}",
    "ProgressReported": "",
    "LandingStarted": "",
    "MergePrepared": "",
    "MergeConflicted": "{task}: conflicts in {files}; {how}",
    "MergeRefused": "{task}: the merged tree failed: {error}",
    "LandingInterrupted": "{task}: landing cut short; back in the merge queue",
    "TaskLanded": "{task}: landed as {commit:.12}",
    "LandingVanished": "{task}: {commit:.12} is no longer on the run branch; the task is open again",
    "LandingReplaced": "{task}: landed under another commit, {commit:.12} (same {proof})",
    "TaskAbandoned": "{task}: abandoned, {error}",
    "TaskSkipped": "{task}: skipped",
    "TaskRetried": "{task}: retried, it has all its attempts again{retried}",
    "TaskRewound": "{task}: done again from a clean start; its work so far stays at its refs",
    "TaskRestored": "{task}: attempts known from git and its folders: {attempts}",
    "SnapshotSaved": "{task}: unfinished work kept, {commit:.12}",
    "IntrusionNoticed": "changed in {place} while {tasks} ran: {paths}",
    "NotificationFailed": "{channel} was not notified: {error}",
    "BranchMoved": "somebody else moved the run branch to {commit:.12}",
    "PauseRequested": "",
    "StopRequested": "stop requested: running agents end, their work is kept",
    "RunPaused": "run paused",
    "RunStopped": "run stopped",
    "RunBlocked": "run blocked: {reason}",
    "RunCompleted": "run completed",
    "RunAdopted": "adopted from {system} {name} ({main})",
    "TaskInherited": "{task}: attempts made before the run was adopted: {attempts}",
    "PlanAmended": "the plan was amended",
    "MirrorKept": "its {system} files are kept up to date",
    "MirrorEnded": "its {system} files are no longer kept up to date",
    "MirrorFailed": "not all {system} files were written: {error}",
    "TickingStarted": "tasks that land are ticked in their list",
    "TickingEnded": "tasks that land are no longer ticked in their list",
    "PointsTicked": "{task}: ticked in its list",
    "TickFailed": "{task}: not ticked in its list: {error}",
    "RunAbandoned": "run abandoned; its branch and refs stay {reason}",
}


def event_sentence(event: Event) -> str:
    """Return an event in words, as one line; empty if it gets no line."""
    if isinstance(event, AgentsReattached):
        return _reattached(event)
    if isinstance(event, ProviderParked) and event.same_wait:
        return ""  # told by the first one that met it
    if isinstance(event, AttemptLost) and event.cause == "deletion":
        then = f"a fresh agent continues from {event.carry[:12]}" if event.carry else "the task starts again"
        return f"{event.task}: the workspace of attempt {event.attempt} was deleted; {then}, no attempt is charged"
    if isinstance(event, PauseRequested):
        then = "running agents end, their work is kept" if event.now else "tasks under way finish"
        return f"pause requested: {then}"
    if isinstance(event, BaseChecked):
        return one_line(_base_checked(event), width=200)
    fields = {
        name: ", ".join(map(str, value)) if isinstance(value, tuple) else value
        for name, value in msgspec.structs.asdict(event).items()
    }
    fields["retried"] = retry_words(event) if isinstance(event, TaskRetried) else ""
    fields["how"] = _how(event)
    if isinstance(event, RunBlocked):
        fields["reason"] = _short_reason(event.reason)
    sentence = _SENTENCES.get(type(event).__name__)
    words = _name_in_words(event) if sentence is None else sentence.format_map(fields)
    return with_run_numbers(one_line(words, _width(event)) + _remarks(event) + _last_line(event))


def _width(event: Event) -> int:
    """Return how long a sentence may be. What a person has to do stands at the end of it."""
    if isinstance(event, RunBlocked):
        return _REASON_CHARS
    return _WAY_OUT_CHARS if isinstance(event, AttemptBlocked | ProviderShut) else 200


def _remarks(event: Event) -> str:
    """Return what the author of finished work should know, such as what of it was left out."""
    told = event.remarks if isinstance(event, AttemptDone) else ()
    return f". {one_line(' '.join(told), _REMARKS_CHARS)}" if told else ""


def _last_line(event: Event) -> str:
    """Return the last line that a failed program printed, unless the error has it already: it mostly says why."""
    if not isinstance(event, AttemptFailed | ChecksFailed | MergeRefused | StageGateFailed):
        return ""
    line = one_line(next(filter(str.strip, reversed(event.detail.splitlines())), ""), _LAST_LINE_CHARS)
    return f"; last line: {line}" if line and line not in event.error else ""


def _name_in_words(event: Event) -> str:
    """Return `a: checks skipped` for an event ChecksSkipped of task a."""
    words = re.sub(r"(?<!^)(?=[A-Z])", " ", type(event).__name__).lower()
    return f"{event.task}: {words}" if isinstance(event, TaskEvent) else words


def _how(event: Event) -> str:
    """Say how an attempt starts, unless it is simply a new agent of the task, or what ended it before its own end."""
    if isinstance(event, AttemptLost):
        by_cause = {
            "not launched": "was never launched; the task waits for its next",
            "budget": "ended with the budget of the run; its work is kept, no attempt is charged",
        }
        return by_cause.get(event.cause, f"cut short by a {event.cause}; its work is kept")
    if isinstance(event, AttemptLimited):
        outage = event.reason is ParkReason.OUTAGE
        return f"does not reach {event.provider}" if outage else f"is at a limit of {event.provider}"
    if isinstance(event, MergeConflicted):
        return "`holdfast take` hands you the merge" if event.by_hand else "a fresh agent resolves them"
    if not isinstance(event, AttemptStarted):
        return ""
    tries = f", to see whether {event.provider} answers again" if event.probes else ""
    if event.session:
        return f", resuming {event.agent}'s own session{tries}"
    return (f", with a fresh agent: {event.fresh_because}" if event.fresh_because else "") + tries


def _base_checked(event: BaseChecked) -> str:
    if event.setup:
        return f"set-up fails on the base: {event.error}"
    if event.error:
        what = "a check of the plan cannot be executed" if event.unrunnable else "the base fails a check"
        return f"{what}: {event.error}"
    return "the base holds" + (", as an earlier run found" if event.known else "")


def _short_reason(reason: str) -> str:
    """Return why a run is blocked, whole if it is one line. What a command said, and what to do, is told where the run rests."""
    return reason.partition("\n")[0].partition(": `")[0] if "\n" in reason else reason


def retry_words(event: TaskRetried) -> str:
    """Say what a person wants of the next attempts."""
    parts = (
        f", with {event.agent}" if event.agent else "",
        ", from a clean start" if event.clean else "",
        f", hint: {event.hint}" if event.hint else "",
    )
    return "".join(parts)


def _reattached(event: AgentsReattached) -> str:
    parts = [
        f"re-attached to {', '.join(event.working)}" if event.working else "",
        f"collecting {', '.join(event.finished)}, which ended meanwhile" if event.finished else "",
    ]
    return "; ".join(part for part in parts if part)


def plain_lines(out: TextIO) -> Observer:
    """Return an observer that writes sentences with the time of day.

    A closed reader does not disturb the run.
    """

    def write(events: Sequence[Event], _state: RunState) -> None:
        for sentence in filter(None, map(event_sentence, events)):
            write_line(f"{time_of_day(time.time())}  {sentence}", out)

    return write


def showable(event: Event) -> Event:
    """Return an event for programs: without the secrets that a plan may hold."""
    if not isinstance(event, PlanAmended):
        return event
    from holdfast.reporting.notifications import without_secrets

    return msgspec.structs.replace(event, plan=without_secrets(event.plan))


def json_lines(out: TextIO) -> Observer:
    """Return an observer that writes every event as in the journal, one JSON object per line."""

    def write(events: Sequence[Event], _state: RunState) -> None:
        for event in map(showable, events):
            write_line(encode_event(event).decode(), out)

    return write
