"""The state machine of tasks: when each event may happen, which status it leads to, and what else it changes.

Theory of operation
-------------------
A run, its stages and its tasks each have a status. Only events change them, and three tables say how, one row per event:

- `TASK_EVENTS`, here: from which statuses, to which, and the fold that changes the rest of the rows.
- `STAGE_EVENTS`, in `run_transitions.py`: the same for stages, for each gate.
- `RUN_EVENTS`, there too: the status that the run gets, if it changes, and the fold.

The way of a task through `TASK_EVENTS`, if all goes well:

    pending ─AttemptStarted→ running ─AttemptDone→ verifying ─TaskVerified→ verified ─LandingStarted→ merging
      ─TaskLanded→ completed

An attempt that fails, in its own run, its checks, its validators or its merge, makes the task `failed`; the next
AttemptStarted takes it from there. AttemptLimited leads to `waiting_limit`, AttemptBlocked to `blocked`, AttemptLost
(a crash or a stop) back to `pending`. Finished work that cannot be judged waits as `blocked`, by VerificationBlocked, until
VerificationRestarted takes it, without another attempt, back to `verifying`. TaskLanded reports git's proof: legal except from `completed`.

Four rules hold for all of them:

1. An event that its table does not allow raises IllegalEventError and changes nothing.
2. A result of an earlier attempt is refused: `AttemptEvent`s carry the attempt's number, `AttemptEnded`s its token too.
3. AttemptStarted replaces the attempt's record (`TaskRow.latest`) whole; what must outlive the attempt is in `TaskRow`.
4. A task that would rest while it needs a person (`people.py`: an open question, or a person has it) is `blocked` instead.

Folds write to rows only. The queues that follow from the rows are in `state.py`, what to do next in `decide.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec.structs import replace

from holdfast.core import events as ev, people
from holdfast.core.accounts import add_reported, add_streamed, add_time, add_validation, file_attempt
from holdfast.core.plan import Limits
from holdfast.core.projection import (
    AttemptCommit,
    AttemptRow,
    Failure,
    Halt,
    NoScore,
    Parked,
    Report,
    RunRow,
    Score,
    Spent,
    TaskRow,
)
from holdfast.core.retry import SESSION_ENDS, delay_after
from holdfast.core.status import AttemptKind, FailureKind, TaskStatus


class IllegalEventError(Exception):
    """An event contradicts the state it was applied to: a result that came too late, or a bug in Holdfast."""


def first_task_row(run: RunRow, task: str) -> TaskRow:
    """Return the row of a task that nothing has happened to. One that resolves a conflict at `land` begins with that."""
    row = TaskRow(id=task)
    _begin(run, row)
    return row


def _begin(run: RunRow, task: TaskRow) -> None:
    if run.resolves is not None and run.resolves.task == task.id:
        task.base, task.conflict_files = run.base, run.resolves.files
        task.carry = task.conflict = run.resolves.commit


# -- What task events change --------------------------------------------------------------------------------


def _nothing_more(run: RunRow, limits: Limits, task: TaskRow, event: ev.TaskEvent) -> None:
    """Change nothing but the status."""


def _attempt_started(run: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptStarted) -> None:
    task.last_report = task.latest.report or task.last_report
    file_attempt(task)
    task.attempt = event.attempt
    task.latest = AttemptRow(
        token=event.token,
        workspace_number=event.workspace_number,
        start=event.start,
        kind=event.attempt_kind,
        agent=event.agent,
        provider=event.provider,
        resumed_session=event.session,
        session_before=event.session_before,
        closing_line=event.closing_line,
        probes=event.probes,
        started_at=event.at,
    )
    task.base = base_of_attempt(task, event.start)
    task.error = ""
    task.recheck = False


def base_of_attempt(task: TaskRow, start: str) -> str:
    """Return what an attempt's work is compared with: its start, or where the work began that it goes on with.

    What others landed between two attempts is nobody's change of this task.
    """
    return task.base if task.base and start in (task.carry, task.set_aside) else start


def _attempt_done(run: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptDone) -> None:
    attempt = task.latest
    attempt.head, attempt.tree = event.head, event.tree
    attempt.session_commit = event.head
    people.end_given(task)
    task.summary, task.set_aside = event.summary, ""
    add_time(run, task, event.duration_s)
    task.commits.append(AttemptCommit(attempt=event.attempt, commit=event.head, kind=attempt.kind))
    # Work went well through this provider, and with this model: its next limit is a first one again. While the end of a
    # limit is known and not reached, nothing starts: the work was begun before, and does not show that it is over.
    if not run.parked.get(attempt.provider, Parked()).ends_after(event.clock):
        _forget_parked(run, attempt.provider)
    if attempt.agent in run.shut_agents:
        run.shut_agents = {name: shut for name, shut in run.shut_agents.items() if name != attempt.agent}


def _forget_parked(run: RunRow, provider: str) -> None:
    if provider in run.parked:
        run.parked = {name: parked for name, parked in run.parked.items() if name != provider}


def _end_answered_outage(run: RunRow, task: TaskRow) -> None:
    """Forget an outage of an attempt's provider that was answered: the attempt did not end in it."""
    provider = task.latest.provider
    if provider in run.parked and run.parked[provider].answered:
        _forget_parked(run, provider)


def _attempt_failed(run: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptFailed) -> None:
    _end_answered_outage(run, task)
    _fail(task, event.failure, event.error, event.detail, tree=event.tree)
    _leave_session(task, event.carry or event.set_aside)
    # Nothing may build on a resolution that dropped a side: the next agent sees the conflict again.
    side_lost = event.failure is FailureKind.SIDE_LOST
    _keep(task, "" if side_lost else event.carry)
    if side_lost:
        task.carry = task.conflict
    task.set_aside = event.set_aside
    add_time(run, task, event.duration_s)
    run.clock = max(run.clock, event.clock)
    task.not_before = event.clock + delay_after(event.failure, task.charged, limits.retry_delay_s)


def _attempt_lost(run: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptLost) -> None:
    _leave_session(task, event.carry or event.set_aside)
    _leave_workspace(task)
    task.recheck = False
    people.end_given(task)
    # An agent that always deletes its workspace must end, too.
    task.crash_count += event.is_accident
    add_time(run, task, event.duration_s)
    # Older events still carry such work.
    _keep(task, "" if event.is_accident and began_too_recently(task, limits) else event.carry)
    task.set_aside = event.set_aside


def began_too_recently(task: TaskRow, limits: Limits) -> bool:
    """Below the threshold a fresh agent does better with a clean start; what there is, is set aside."""
    report = task.latest.report
    return report is not None and report.progress is not None and report.progress < limits.restart_below


def _attempt_limited(run: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptLimited) -> None:
    _end_uncharged(run, task, event)
    task.error = event.error
    task.limited += 1


def _attempt_blocked(run: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptBlocked) -> None:
    _end_uncharged(run, task, event)
    task.error, task.blocked_in = event.error, run.epoch
    task.failures.append(
        Failure(attempt=event.attempt, kind=event.failure, error=event.error, detail=event.detail)
    )


def _attempt_asked(run: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptAsked) -> None:
    _end_answered_outage(run, task)
    _end_uncharged(run, task, event)


def _attempt_returned(run: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptReturned) -> None:
    _leave_workspace(task)
    task.carry = event.carry or task.carry
    _task_reset(run, limits, task, event)


def _end_uncharged(
    run: RunRow, task: TaskRow, event: ev.AttemptLimited | ev.AttemptBlocked | ev.AttemptAsked
) -> None:
    _leave_session(task, event.carry)
    _leave_workspace(task)
    task.latest.halt = None
    task.error = ""
    task.carry = event.carry or task.carry
    task.set_aside = ""
    add_time(run, task, event.duration_s)


def _attempt_halted(run: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptHalted) -> None:
    task.latest.halt = Halt(failure=event.failure, error=event.error, for_run=event.for_run)


def _agent_observed(run: RunRow, limits: Limits, task: TaskRow, event: ev.AgentObserved) -> None:
    attempt = task.latest
    add_streamed(run, task, event)
    if event.session:
        attempt.session, attempt.session_workspace = event.session, attempt.workspace_number
    attempt.activity, attempt.in_tool, attempt.trouble = event.activity, event.in_tool, event.trouble
    attempt.active_at = max(attempt.active_at, event.at)


def _progress_reported(run: RunRow, limits: Limits, task: TaskRow, event: ev.ProgressReported) -> None:
    attempt = task.latest
    parts = {name: getattr(event, name) for name in Report.__struct_fields__}
    said = {name: value for name, value in parts.items() if value not in (None, "")}
    # An omitted part stays as it was, except the obstacle: an agent that reports none has none any more.
    attempt.report = replace(attempt.report or Report(), **{**said, "blocked": event.blocked})
    attempt.report_bytes = event.heard or attempt.report_bytes
    add_reported(run, task, event)


def _interface_published(run: RunRow, limits: Limits, task: TaskRow, event: ev.InterfacePublished) -> None:
    task.interfaces = {**task.interfaces, event.name: event.contract}


def _snapshot_saved(run: RunRow, limits: Limits, task: TaskRow, event: ev.SnapshotSaved) -> None:
    task.latest.snapshot = event.commit


def _checks_started(run: RunRow, limits: Limits, task: TaskRow, event: ev.ChecksStarted) -> None:
    task.latest.checking, task.latest.probes = True, False


def _validation_started(run: RunRow, limits: Limits, task: TaskRow, event: ev.ValidationStarted) -> None:
    task.latest.checking, task.latest.probes = True, event.probes


def _checks_succeeded(run: RunRow, limits: Limits, task: TaskRow, event: ev.ChecksSucceeded) -> None:
    task.latest.checking = False
    task.latest.checks_succeeded = True


def _checks_failed(run: RunRow, limits: Limits, task: TaskRow, event: ev.ChecksFailed) -> None:
    task.carry = task.latest.head
    _fail(task, FailureKind.CHECK, event.error, event.detail, event.check, task.latest.tree)


def _checks_interrupted(run: RunRow, limits: Limits, task: TaskRow, event: ev.ChecksInterrupted) -> None:
    task.latest.checking = False


def _validator_scored(run: RunRow, limits: Limits, task: TaskRow, event: ev.ValidatorScored) -> None:
    score = Score(score=event.score, feedback=event.feedback)
    task.latest.scores = {**task.latest.scores, event.validator: score}
    add_validation(run, task, event)


def _validator_failed(run: RunRow, limits: Limits, task: TaskRow, event: ev.ValidatorFailed) -> None:
    known = task.latest.without_score
    tries = known[event.validator].tries + 1 if event.validator in known else 1
    failed = NoScore(tries=tries, error=event.error, detail=event.detail)
    task.latest.without_score = {**known, event.validator: failed}
    add_validation(run, task, event)


def _validation_delayed(run: RunRow, limits: Limits, task: TaskRow, event: ev.ValidationDelayed) -> None:
    task.latest.checking = False
    task.latest.validate_at = event.not_before
    run.clock = max(run.clock, event.clock)


def _validation_failed(run: RunRow, limits: Limits, task: TaskRow, event: ev.ValidationFailed) -> None:
    task.carry = task.latest.head
    _fail(task, FailureKind.VALIDATION, event.error, event.detail, tree=task.latest.tree)


def _verification_blocked(run: RunRow, limits: Limits, task: TaskRow, event: ev.VerificationBlocked) -> None:
    _leave_workspace(task)
    task.latest.prepared = ""
    task.error, task.recheck, task.blocked_in = event.error, True, run.epoch
    task.failures.append(
        Failure(attempt=event.attempt, kind=event.failure, error=event.error, detail=event.detail)
    )


def _verification_restarted(
    run: RunRow, limits: Limits, task: TaskRow, event: ev.VerificationRestarted
) -> None:
    task.latest.workspace_number = event.workspace_number
    task.latest.without_score, task.latest.validate_at = {}, 0.0
    task.error, task.recheck = "", False


def _task_verified(run: RunRow, limits: Limits, task: TaskRow, event: ev.TaskVerified) -> None:
    _leave_workspace(task)
    run.queue_number += 1
    task.queue_number = run.queue_number


def _merge_prepared(run: RunRow, limits: Limits, task: TaskRow, event: ev.MergePrepared) -> None:
    task.latest.prepared = event.commit


def _merge_conflicted(run: RunRow, limits: Limits, task: TaskRow, event: ev.MergeConflicted) -> None:
    _fail(task, FailureKind.CONFLICT, "the work does not merge cleanly", event.detail)
    task.carry = task.conflict = event.carry
    task.conflict_files = event.files


def _merge_refused(run: RunRow, limits: Limits, task: TaskRow, event: ev.MergeRefused) -> None:
    _fail(task, FailureKind.MERGED_CHECK, event.error, event.detail, event.check)
    task.carry = event.carry or task.latest.head


def _landing_interrupted(run: RunRow, limits: Limits, task: TaskRow, event: ev.LandingInterrupted) -> None:
    task.latest.prepared = ""


def _task_landed(run: RunRow, limits: Limits, task: TaskRow, event: ev.TaskLanded) -> None:
    _leave_workspace(task)
    task.attempt = max(task.attempt, event.attempt)
    task.merge_commit, task.latest.head = event.commit, event.head
    task.carry = task.set_aside = task.latest.prepared = task.error = task.conflict = task.replaced = ""
    task.conflict_files = ()
    task.recheck, task.hint, task.agent = False, "", ""
    people.release(task)
    run.tip = event.commit


def _landing_vanished(run: RunRow, limits: Limits, task: TaskRow, event: ev.LandingVanished) -> None:
    task.carry = "" if event.set_aside else task.latest.head
    task.merge_commit = task.replaced = ""
    task.set_aside = event.set_aside


def _landing_replaced(run: RunRow, limits: Limits, task: TaskRow, event: ev.LandingReplaced) -> None:
    task.replaced = event.commit


def _points_ticked(run: RunRow, limits: Limits, task: TaskRow, event: ev.PointsTicked) -> None:
    task.ticked = True


def _task_abandoned(run: RunRow, limits: Limits, task: TaskRow, event: ev.TaskAbandoned) -> None:
    task.error = event.error


def _task_skipped(run: RunRow, limits: Limits, task: TaskRow, event: ev.TaskSkipped) -> None:
    people.release(task)
    task.error = ""


def _task_reset(
    run: RunRow,
    limits: Limits,
    task: TaskRow,
    event: ev.TaskRetried | ev.TaskRewound | ev.AttemptReturned,
) -> None:
    people.release(task)
    forgive_all(task)


def forgive_all(task: TaskRow) -> None:
    """Give a task all its attempts and its budget again, at once."""
    task.charged = task.crash_count = 0
    task.forgiven = len(task.failures)
    task.forgiven_spending = Spent(tokens=task.tokens, cost_usd=task.cost_usd)
    task.not_before = 0.0
    task.error = ""


def _task_retried(run: RunRow, limits: Limits, task: TaskRow, event: ev.TaskRetried) -> None:
    task.hint, task.agent = event.hint or task.hint, event.agent or task.agent
    if event.clean:
        _task_rewound(run, limits, task, event)
    else:
        _task_reset(run, limits, task, event)


def _task_rewound(run: RunRow, limits: Limits, task: TaskRow, event: ev.TaskRetried | ev.TaskRewound) -> None:
    """Reset the task as if nothing had been tried; only the number of attempts stays."""
    _task_reset(run, limits, task, event)
    file_attempt(task)
    task.latest = AttemptRow()
    task.base = task.summary = task.carry = task.set_aside = task.conflict = ""
    task.conflict_files = ()
    task.recheck = False
    task.interfaces = {}
    task.last_report = None
    _begin(run, task)


def _task_restored(run: RunRow, limits: Limits, task: TaskRow, event: ev.TaskRestored) -> None:
    task.attempt = max(task.attempt, event.attempts)
    task.carry, task.base = event.carry or task.carry, event.base or task.base
    task.set_aside = event.set_aside


def _task_inherited(run: RunRow, limits: Limits, task: TaskRow, event: ev.TaskInherited) -> None:
    task.attempt, task.charged = event.attempts, event.spent
    task.carry, task.set_aside, task.base = event.carry, event.set_aside, event.base
    task.summary, task.last_report = event.summary, event.report
    # The kind of failure is unknown: that system has other kinds.
    task.failures = [
        Failure(attempt=one.attempt, kind=FailureKind.AGENT, error=one.error, detail=one.feedback)
        for one in event.failures
    ]
    task.error = task.failures[-1].error if task.failures else ""
    task.commits = [
        AttemptCommit(attempt=event.attempts, commit=commit, kind=AttemptKind.IMPLEMENTATION)
        for commit in event.commits
    ]


def _fail(task: TaskRow, kind: FailureKind, error: str, detail: str, check: str = "", tree: str = "") -> None:
    _leave_workspace(task)
    people.end_given(task)
    # A person's own work costs the agents nothing, and neither does a session that could not go on.
    session_lost = bool(task.latest.resumed_session) and kind in SESSION_ENDS
    task.charged += task.latest.kind is not AttemptKind.PERSON and not session_lost
    task.error = error
    task.latest.prepared = ""
    failure = Failure(attempt=task.attempt, kind=kind, error=error, detail=detail, check=check, tree=tree)
    task.failures.append(replace(failure, session_lost=session_lost))


def _keep(task: TaskRow, carry: str) -> None:
    """Note what an attempt without a result left for the next one; if nothing, its work is done again."""
    task.carry = carry or task.carry
    task.wasted += not carry


def _leave_workspace(task: TaskRow) -> None:
    task.latest.workspace_number = -1
    task.latest.checking = False


def _leave_session(task: TaskRow, carry: str) -> None:
    """Note in which state the agent's own session knew its workspace."""
    task.latest.session_commit = carry or task.latest.start


# -- The table of task events -------------------------------------------------------------------------------


class TaskRule(NamedTuple):
    """The row of a task event: the status that it leads to from each status in which it may happen, and its fold.

    `keeps_queues`: it changes neither the status nor anything else that a queue depends on.
    """

    moves: dict[TaskStatus, TaskStatus]
    fold: Callable[[RunRow, Limits, TaskRow, Any], None]
    keeps_queues: bool = False


def _stays(*statuses: TaskStatus) -> dict[TaskStatus, TaskStatus]:
    return {status: status for status in statuses}


_S = TaskStatus
_IN_QUEUE_OR_BEFORE = (_S.RUNNING, _S.VERIFYING, _S.VERIFIED, _S.MERGING)
_WORK_WAITS = (_S.PENDING, _S.BLOCKED)
"""In these statuses finished work may wait to be verified again: until it is, the task is without an agent."""
_AT_REST = (_S.PENDING, _S.WAITING_LIMIT, _S.FAILED, _S.ABANDONED, _S.BLOCKED)
_from = dict.fromkeys

TASK_EVENTS: dict[type[ev.Event], TaskRule] = {
    ev.AttemptStarted: TaskRule(_from((_S.PENDING, _S.FAILED, _S.WAITING_LIMIT, _S.BLOCKED), _S.RUNNING), _attempt_started),
    ev.AttemptDone: TaskRule({_S.RUNNING: _S.VERIFYING}, _attempt_done),
    ev.AttemptFailed: TaskRule({_S.RUNNING: _S.FAILED}, _attempt_failed),
    ev.AttemptLimited: TaskRule({_S.RUNNING: _S.WAITING_LIMIT}, _attempt_limited),
    ev.AttemptBlocked: TaskRule({_S.RUNNING: _S.BLOCKED}, _attempt_blocked),
    ev.AttemptAsked: TaskRule({_S.RUNNING: _S.PENDING}, _attempt_asked),
    ev.AttemptReturned: TaskRule({_S.RUNNING: _S.PENDING}, _attempt_returned),
    ev.AttemptLost: TaskRule(_from((_S.RUNNING, _S.VERIFYING, *_WORK_WAITS), _S.PENDING), _attempt_lost),
    ev.AttemptHalted: TaskRule(_stays(_S.RUNNING), _attempt_halted, keeps_queues=True),
    ev.AgentObserved: TaskRule(_stays(_S.RUNNING), _agent_observed, keeps_queues=True),
    ev.ProgressReported: TaskRule(_stays(_S.RUNNING), _progress_reported, keeps_queues=True),
    ev.QuestionAsked: TaskRule(_stays(_S.RUNNING), people.fold, keeps_queues=True),
    ev.InterfacePublished: TaskRule(_stays(_S.RUNNING), _interface_published),
    ev.SnapshotSaved: TaskRule(_stays(_S.RUNNING), _snapshot_saved, keeps_queues=True),
    ev.ChecksStarted: TaskRule(_stays(_S.VERIFYING), _checks_started),
    ev.ChecksSucceeded: TaskRule(_stays(_S.VERIFYING), _checks_succeeded),
    ev.ChecksFailed: TaskRule({_S.VERIFYING: _S.FAILED}, _checks_failed),
    ev.ChecksInterrupted: TaskRule(_stays(_S.VERIFYING), _checks_interrupted),
    ev.ValidationStarted: TaskRule(_stays(_S.VERIFYING), _validation_started),
    ev.ValidatorScored: TaskRule(_stays(_S.VERIFYING), _validator_scored, keeps_queues=True),
    ev.ValidatorFailed: TaskRule(_stays(_S.VERIFYING), _validator_failed, keeps_queues=True),
    ev.ValidationDelayed: TaskRule(_stays(_S.VERIFYING), _validation_delayed),
    ev.ValidationFailed: TaskRule({_S.VERIFYING: _S.FAILED}, _validation_failed),
    ev.VerificationBlocked: TaskRule(_from((_S.VERIFYING, _S.MERGING), _S.BLOCKED), _verification_blocked),
    ev.VerificationRestarted: TaskRule(_from(_WORK_WAITS, _S.VERIFYING), _verification_restarted),
    ev.TaskVerified: TaskRule({_S.VERIFYING: _S.VERIFIED}, _task_verified),
    ev.LandingStarted: TaskRule({_S.VERIFIED: _S.MERGING}, _nothing_more),
    ev.MergePrepared: TaskRule(_stays(_S.MERGING), _merge_prepared, keeps_queues=True),
    ev.MergeConflicted: TaskRule({_S.MERGING: _S.FAILED}, _merge_conflicted),
    ev.MergeRefused: TaskRule({_S.MERGING: _S.FAILED}, _merge_refused),
    ev.LandingInterrupted: TaskRule({_S.MERGING: _S.VERIFIED}, _landing_interrupted),
    ev.TaskLanded: TaskRule(_from((*_AT_REST, *_IN_QUEUE_OR_BEFORE, _S.SKIPPED), _S.COMPLETED), _task_landed),
    ev.LandingVanished: TaskRule({_S.COMPLETED: _S.PENDING}, _landing_vanished),
    ev.LandingReplaced: TaskRule(_stays(_S.COMPLETED), _landing_replaced, keeps_queues=True),
    ev.PointsTicked: TaskRule(_stays(_S.COMPLETED), _points_ticked, keeps_queues=True),
    ev.TickFailed: TaskRule(_stays(_S.COMPLETED), _nothing_more, keeps_queues=True),
    ev.TaskAbandoned: TaskRule(_from((_S.FAILED, _S.PENDING, _S.WAITING_LIMIT), _S.ABANDONED), _task_abandoned),
    ev.TaskSkipped: TaskRule(_from(_AT_REST, _S.SKIPPED), _task_skipped),
    ev.TaskRetried: TaskRule(_from((*_AT_REST, _S.SKIPPED), _S.PENDING), _task_retried),
    ev.QuestionAnswered: TaskRule({_S.RUNNING: _S.RUNNING, _S.BLOCKED: _S.PENDING}, people.fold),
    ev.TaskTaken: TaskRule({_S.RUNNING: _S.RUNNING, **_from(_AT_REST, _S.BLOCKED)}, people.fold),
    ev.HandOverStarted: TaskRule(_stays(_S.BLOCKED), people.fold),
    ev.HandOverInterrupted: TaskRule(_stays(_S.BLOCKED), people.fold),
    ev.TaskHandedOver: TaskRule(_stays(_S.BLOCKED), people.fold),
    ev.TaskGiven: TaskRule(_stays(_S.BLOCKED), people.fold),
    ev.TaskRewound: TaskRule(_from((*_AT_REST, _S.VERIFYING, _S.VERIFIED, _S.SKIPPED), _S.PENDING), _task_rewound),
    ev.TaskRestored: TaskRule(_stays(_S.PENDING), _task_restored),
    ev.TaskInherited: TaskRule(_stays(_S.PENDING), _task_inherited),
}  # fmt: skip


# Looked up by type for every event: `isinstance` costs more than all other checks together.
_OF_ATTEMPT = frozenset(kind for kind in TASK_EVENTS if issubclass(kind, ev.AttemptEvent))
_OF_WAITING_WORK = frozenset((ev.AttemptLost, ev.VerificationRestarted))
_WITH_TOKEN = frozenset(kind for kind in TASK_EVENTS if issubclass(kind, ev.AttemptEnded))


def allowed_move(rule: TaskRule, task: TaskRow, event: Any) -> TaskStatus:
    """Return the status that an event leads a task to. Raises IllegalEventError if it may not happen now.

    Only the latest attempt, with its token, may change its task; results of earlier ones are refused.
    """
    kind = type(event)
    status = rule.moves.get(task.status)
    if status is None:
        obstacle = f"task {task.id} is {task.status}"
    elif kind in _OF_ATTEMPT and event.attempt != task.attempt + (kind is ev.AttemptStarted):
        obstacle = f"task {task.id} is at attempt {task.attempt}, not {event.attempt}"
    elif kind in _WITH_TOKEN and event.token != task.latest.token:
        obstacle = f"the token is not that of task {task.id}'s attempt"
    elif kind in _OF_WAITING_WORK and task.status in _WORK_WAITS and not task.recheck:
        obstacle = f"no finished work of task {task.id} waits to be verified"
    elif kind in people.EVENTS and (wrong := people.obstacle(kind, task)):
        obstacle = f"task {task.id} {wrong}"
    else:
        return status
    raise IllegalEventError(f"{kind.__name__}: {obstacle}")
