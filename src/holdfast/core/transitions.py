"""What the core raises when an event may not happen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core import events as ev
from holdfast.core.claims import PastFailure
from holdfast.core.plan import Limits
from holdfast.core.projection import (
    AttemptCommit,
    Failure,
    Halt,
    Origin,
    Parked,
    Report,
    RunRow,
    Score,
    Spent,
    TaskRow,
)
from holdfast.core.retry import delay_after
from holdfast.core.status import RunStatus, StageStatus


class IllegalEventError(Exception):
    """An event contradicts the state it was applied to: a result that came too late, or a defect of ours."""


def seat_agent(task: TaskRow, event: ev.AttemptStarted) -> None:
    """Note who begins to work. What the stream of the attempt before told is over."""
    task.agent, task.provider, task.resumes = event.agent, event.provider, event.session
    task.spent, task.halt = Spent(), None
    task.session = task.session_left = task.activity = task.trouble = ""
    task.session_slot, task.active_at, task.in_tool = -1, 0.0, False


def leave_session(task: TaskRow, carry: str) -> None:
    """Note in which state the agent's own session knew its workspace."""
    task.session_left = carry or task.start


def went_well(row: RunRow, task: TaskRow) -> None:
    """A provider through which work went well has no limit behind it: the next one is its first again."""
    leave_session(task, task.head)
    if task.provider in row.parked:
        row.parked = {name: parked for name, parked in row.parked.items() if name != task.provider}


def _agent_observed(row: RunRow, limits: Limits, task: TaskRow, event: ev.AgentObserved) -> None:
    tokens = max(0, event.tokens - task.spent.tokens)
    cost = max(0.0, event.cost_usd - task.spent.cost_usd)
    task.spent = Spent(tokens=task.spent.tokens + tokens, cost_usd=task.spent.cost_usd + cost)
    task.tokens += tokens
    task.cost_usd += cost
    row.tokens += tokens
    row.cost_usd += cost
    if event.session:
        task.session, task.session_slot = event.session, task.slot
    task.activity, task.in_tool, task.trouble = event.activity, event.in_tool, event.trouble
    task.active_at = max(task.active_at, event.at)


def _attempt_halted(row: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptHalted) -> None:
    task.halt = Halt(failure=event.failure, error=event.error)


def _attempt_limited(row: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptLimited) -> None:
    _end_uncharged(task, event)
    task.limited += 1


def _attempt_blocked(row: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptBlocked) -> None:
    _end_uncharged(task, event)
    task.blocked_in = row.epoch
    task.failures.append(
        Failure(attempt=event.attempt, kind=event.failure, error=event.error, detail=event.detail)
    )


def _end_uncharged(task: TaskRow, event: ev.AttemptLimited | ev.AttemptBlocked) -> None:
    leave_session(task, event.carry)
    task.slot = -1
    task.error = event.error
    task.carry = event.carry or task.carry
    task.worked_s += event.duration_s
    task.halt = None


def _provider_parked(row: RunRow, event: ev.ProviderParked) -> None:
    row.clock = max(row.clock, event.clock)
    row.parked = {
        **row.parked,
        event.provider: Parked(
            until=event.until,
            not_before=event.clock + event.wait_s,
            wait_s=event.wait_s,
            hits=event.hits,
            words=event.words,
        ),
    }


def _provider_shut(row: RunRow, event: ev.ProviderShut) -> None:
    row.parked = {**row.parked, event.provider: Parked(words=event.words, shut_in=row.epoch)}


LIMIT_FOLDS: dict[type[ev.Event], Callable[[RunRow, Limits, TaskRow, Any], None]] = {
    ev.AgentObserved: _agent_observed,
    ev.AttemptHalted: _attempt_halted,
    ev.AttemptLimited: _attempt_limited,
    ev.AttemptBlocked: _attempt_blocked,
}

PARKING_FOLDS: dict[type[ev.Event], Callable[[RunRow, Any], None]] = {
    ev.ProviderParked: _provider_parked,
    ev.ProviderShut: _provider_shut,
}


def first_row(event: ev.RunStarted) -> RunRow:
    """Return the row of a run that has just begun to exist."""
    return RunRow(
        run=event.run,
        goal=event.goal,
        plan_hash=event.plan_hash,
        base=event.base,
        branch=event.branch,
        target=event.target,
        plan_source=event.plan_source,
        tip=event.base,
        epoch=event.epoch,
        adopting=event.adopting,
    )


def _attempt_started(row: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptStarted) -> None:
    task.attempt = event.attempt
    task.token = event.token
    task.slot = event.slot
    task.start = event.start
    task.base = task.base or event.start
    task.reason = event.reason
    task.checking = task.tested = False
    task.scores = {}
    task.last_report = task.report or task.last_report
    task.report = None
    task.heard = 0
    task.head = task.tree = task.wip = task.prepared = task.error = ""
    seat_agent(task, event)


def _nothing_more(row: RunRow, limits: Limits, task: TaskRow, event: ev.TaskEvent) -> None:
    """Some events say all they have to say by the status they lead to."""


def _attempt_done(row: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptDone) -> None:
    task.head, task.tree = event.head, event.tree
    task.summary = event.summary
    task.worked_s += event.duration_s
    went_well(row, task)
    task.commits.append(AttemptCommit(attempt=event.attempt, commit=event.head, kind=task.reason))


def _fail(
    task: TaskRow, kind: ev.FailureKind, error: str, detail: str, check: str = "", tree: str = ""
) -> None:
    task.charged += 1
    task.slot = -1
    task.checking = False
    task.error = error
    task.prepared = ""
    task.failures.append(
        Failure(attempt=task.attempt, kind=kind, error=error, detail=detail, check=check, tree=tree)
    )


def _keep(task: TaskRow, carry: str) -> None:
    """Note what an attempt that came to nothing left for the next one; if nothing, its work is done again."""
    task.carry = carry or task.carry
    task.wasted += not carry


def _attempt_failed(row: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptFailed) -> None:
    _fail(task, event.failure, event.error, event.detail, tree=event.tree)
    # A resolution that dropped a side is no ground to build on: the next agent sees the conflict again.
    lost_side = event.failure is ev.FailureKind.SIDE_LOST
    leave_session(task, event.carry)
    _keep(task, "" if lost_side else event.carry)
    if lost_side:
        task.carry = task.conflict
    task.worked_s += event.duration_s
    delay = delay_after(event.failure, task.charged, limits.retry_delay_s)
    row.clock = max(row.clock, event.clock)
    task.not_before = event.clock + delay


def _attempt_lost(row: RunRow, limits: Limits, task: TaskRow, event: ev.AttemptLost) -> None:
    leave_session(task, event.carry)
    task.lost += 1 if event.cause == "crash" else 0
    task.slot = -1
    task.checking = False
    _keep(task, "" if _began_too_recently(task, limits) else event.carry)


def _began_too_recently(task: TaskRow, limits: Limits) -> bool:
    """Below the threshold a fresh agent is better off with a clean start; the snapshot stays at its ref."""
    return (
        task.report is not None
        and task.report.progress is not None
        and task.report.progress < limits.restart_below
    )


def _checks_started(
    row: RunRow, limits: Limits, task: TaskRow, event: ev.ChecksStarted | ev.ValidationStarted
) -> None:
    task.checking = True


def _checks_passed(row: RunRow, limits: Limits, task: TaskRow, event: ev.TaskVerified) -> None:
    task.checking = False
    task.slot = -1
    row.queued += 1
    task.queued = row.queued


def _checks_failed(row: RunRow, limits: Limits, task: TaskRow, event: ev.ChecksFailed) -> None:
    task.carry = task.head
    _fail(task, ev.FailureKind.CHECK, event.error, event.detail, event.check, task.tree)


def _checks_interrupted(row: RunRow, limits: Limits, task: TaskRow, event: ev.ChecksInterrupted) -> None:
    task.checking = False


def _tests_passed(row: RunRow, limits: Limits, task: TaskRow, event: ev.ChecksSucceeded) -> None:
    task.checking = False
    task.tested = True


def _validator_scored(row: RunRow, limits: Limits, task: TaskRow, event: ev.ValidatorScored) -> None:
    task.scores = {**task.scores, event.validator: Score(score=event.score, feedback=event.feedback)}


def _validation_failed(row: RunRow, limits: Limits, task: TaskRow, event: ev.ValidationFailed) -> None:
    task.carry = task.head
    _fail(task, ev.FailureKind.VALIDATION, event.error, event.detail, tree=task.tree)


def _interface_published(row: RunRow, limits: Limits, task: TaskRow, event: ev.InterfacePublished) -> None:
    task.interfaces = {**task.interfaces, event.name: event.contract}


def _progress_reported(row: RunRow, limits: Limits, task: TaskRow, event: ev.ProgressReported) -> None:
    before = task.report or Report()
    task.report = Report(
        progress=before.progress if event.progress is None else event.progress,
        file=event.file or before.file,
        line=before.line if event.line is None else event.line,
        section_done=event.section_done or before.section_done,
        section_next=event.section_next or before.section_next,
        confidence=before.confidence if event.confidence is None else event.confidence,
        blocked=event.blocked,
        summary=event.summary or before.summary,
    )
    task.heard = event.heard or task.heard
    task.cost_usd += event.cost_usd
    row.cost_usd += event.cost_usd


def _merge_prepared(row: RunRow, limits: Limits, task: TaskRow, event: ev.MergePrepared) -> None:
    task.prepared = event.commit


def _merge_conflicted(row: RunRow, limits: Limits, task: TaskRow, event: ev.MergeConflicted) -> None:
    _fail(task, ev.FailureKind.CONFLICT, "the work does not merge cleanly", event.detail)
    task.carry = event.carry
    task.conflict = event.carry
    task.conflict_files = event.files


def _merge_refused(row: RunRow, limits: Limits, task: TaskRow, event: ev.MergeRefused) -> None:
    _fail(task, ev.FailureKind.MERGED_CHECK, event.error, event.detail, event.check)
    task.carry = event.carry or task.head


def _landing_interrupted(row: RunRow, limits: Limits, task: TaskRow, event: ev.LandingInterrupted) -> None:
    task.prepared = ""


def _task_landed(row: RunRow, limits: Limits, task: TaskRow, event: ev.TaskLanded) -> None:
    task.attempt = max(task.attempt, event.attempt)  # Numbers name launches: none is ever given out twice.
    task.merge_commit, task.head = event.commit, event.head
    task.slot = -1
    task.checking = False
    task.carry = task.prepared = task.error = task.conflict = task.replaced = ""
    task.conflict_files = ()
    row.tip = event.commit


def _landing_vanished(row: RunRow, limits: Limits, task: TaskRow, event: ev.LandingVanished) -> None:
    task.carry = task.head
    task.merge_commit = task.replaced = ""


def _landing_replaced(row: RunRow, limits: Limits, task: TaskRow, event: ev.LandingReplaced) -> None:
    task.replaced = event.commit


def _task_abandoned(row: RunRow, limits: Limits, task: TaskRow, event: ev.TaskAbandoned) -> None:
    task.error = event.error


def _task_skipped(row: RunRow, limits: Limits, task: TaskRow, event: ev.TaskSkipped) -> None:
    task.error = ""


def _task_reset(row: RunRow, limits: Limits, task: TaskRow, event: ev.TaskReset) -> None:
    _forgive(task)


def _forgive(task: TaskRow) -> None:
    task.charged = task.lost = 0
    task.forgiven = len(task.failures)
    task.forgiven_spending = Spent(tokens=task.tokens, cost_usd=task.cost_usd)
    task.not_before = 0.0
    task.error = ""


def _task_rewound(row: RunRow, limits: Limits, task: TaskRow, event: ev.TaskRewound) -> None:
    """Begin as if nothing had been tried, but for the count of attempts: their numbers name folders and refs."""
    _forgive(task)
    task.base = task.start = task.head = task.tree = task.summary = ""
    task.carry = task.wip = task.conflict = task.prepared = ""
    task.conflict_files = ()
    task.slot = -1
    task.checking = task.tested = False
    task.scores, task.interfaces = {}, {}
    task.report = task.last_report = None
    task.session = task.session_left = ""


def _task_restored(row: RunRow, limits: Limits, task: TaskRow, event: ev.TaskRestored) -> None:
    task.attempt = max(task.attempt, event.attempts)
    task.carry, task.base = event.carry, event.base


def _task_inherited(row: RunRow, limits: Limits, task: TaskRow, event: ev.TaskInherited) -> None:
    task.attempt, task.charged = event.attempts, event.spent
    task.carry, task.base = event.carry, event.base
    task.summary, task.last_report = event.summary, event.report
    task.failures = [_elsewhere(failure) for failure in event.failures]
    task.error = task.failures[-1].error if task.failures else ""
    task.commits = [
        AttemptCommit(attempt=event.attempts, commit=commit, kind=ev.AttemptKind.IMPLEMENTATION)
        for commit in event.commits
    ]


def _elsewhere(failure: PastFailure) -> Failure:
    """Return a failure of another system's attempt: what kind it was, nobody knows."""
    return Failure(
        attempt=failure.attempt, kind=ev.FailureKind.AGENT, error=failure.error, detail=failure.feedback
    )


def _wip_saved(row: RunRow, limits: Limits, task: TaskRow, event: ev.SnapshotSaved) -> None:
    task.wip = event.commit


TASK_FOLDS: dict[type[ev.Event], Callable[[RunRow, Limits, TaskRow, Any], None]] = {
    ev.AttemptStarted: _attempt_started,
    ev.AttemptDone: _attempt_done,
    ev.AttemptFailed: _attempt_failed,
    ev.AttemptLost: _attempt_lost,
    ev.ChecksStarted: _checks_started,
    ev.TaskVerified: _checks_passed,
    ev.ChecksFailed: _checks_failed,
    ev.ChecksInterrupted: _checks_interrupted,
    ev.ChecksSucceeded: _tests_passed,
    ev.ValidationStarted: _checks_started,
    ev.ValidatorScored: _validator_scored,
    ev.ValidationFailed: _validation_failed,
    ev.InterfacePublished: _interface_published,
    ev.ProgressReported: _progress_reported,
    ev.LandingStarted: _nothing_more,
    ev.MergePrepared: _merge_prepared,
    ev.MergeConflicted: _merge_conflicted,
    ev.MergeRefused: _merge_refused,
    ev.LandingInterrupted: _landing_interrupted,
    ev.TaskLanded: _task_landed,
    ev.LandingVanished: _landing_vanished,
    ev.LandingReplaced: _landing_replaced,
    ev.TaskAbandoned: _task_abandoned,
    ev.TaskSkipped: _task_skipped,
    ev.TaskReset: _task_reset,
    ev.TaskRewound: _task_rewound,
    ev.TaskRestored: _task_restored,
    ev.TaskInherited: _task_inherited,
    ev.SnapshotSaved: _wip_saved,
    **LIMIT_FOLDS,
}


def _runner_attached(row: RunRow, event: ev.RunnerAttached) -> None:
    row.epoch = event.epoch
    row.boot_id = event.boot_id
    row.pausing = row.stopping = False
    _set_run(row, RunStatus.RUNNING)


def _agents_adopted(row: RunRow, event: ev.AgentsReattached) -> None:
    row.adopted += len(event.working) + len(event.finished)


def _run_adopted(row: RunRow, event: ev.RunAdopted) -> None:
    row.adopting = ""
    row.origin = Origin(system=event.system, name=event.name, main=event.main, digest=event.digest)


def _mirror_kept(row: RunRow, event: ev.MirrorKept) -> None:
    row.mirrors = {**row.mirrors, event.system: event.folder}


def _mirror_ended(row: RunRow, event: ev.MirrorEnded) -> None:
    row.mirrors = {system: folder for system, folder in row.mirrors.items() if system != event.system}


def _set_run(row: RunRow, status: RunStatus, reason: str = "") -> None:
    row.status = status
    row.reason = reason


def _move_stage(row: RunRow, stage: str, allowed: tuple[StageStatus, ...], to: StageStatus) -> None:
    at = row.stages.get(stage)
    if at is None or at.status not in allowed:
        standing = "is not in the plan" if at is None else f"is {at.status}"
        raise IllegalEventError(f"stage {stage} {standing} and cannot become {to}")
    at.status = to
    at.error = at.detail = ""


def _stage_rewound(row: RunRow, event: ev.StageRewound) -> None:
    _move_stage(row, event.stage, tuple(StageStatus), StageStatus.PENDING)
    row.stages[event.stage].waived = ()


def _stage_gate_failed(row: RunRow, event: ev.StageGateFailed) -> None:
    during = StageStatus.OPENING if event.gate == "entry" else StageStatus.CLOSING
    _move_stage(row, event.stage, (during,), StageStatus.BLOCKED)
    at = row.stages[event.stage]
    at.gate, at.error, at.detail = event.gate, event.error, event.detail


def _stage_gate_reset(row: RunRow, event: ev.StageGateReset) -> None:
    during, back = _GATE[event.gate]
    _move_stage(row, event.stage, (during, StageStatus.BLOCKED, back), back)


def _stage_gate_waived(row: RunRow, event: ev.StageGateWaived) -> None:
    after = StageStatus.RUNNING if event.gate == "entry" else StageStatus.COMPLETED
    at = row.stages.get(event.stage)
    if at is not None and at.gate != event.gate:
        raise IllegalEventError(f"the {event.gate} check of stage {event.stage} has not failed")
    _move_stage(row, event.stage, (StageStatus.BLOCKED,), after)
    row.stages[event.stage].waived += (event.gate,)


def _branch_moved(row: RunRow, event: ev.BranchMoved) -> None:
    row.tip = event.commit


def _intrusion_noticed(row: RunRow, event: ev.IntrusionNoticed) -> None:
    row.intrusions += 1


def _pause_requested(row: RunRow, event: ev.PauseRequested) -> None:
    if row.stopping:
        return  # A stop goes further than any pause.
    row.pausing = True
    row.stopping = event.now


def _stop_requested(row: RunRow, event: ev.StopRequested) -> None:
    row.stopping = True
    row.pausing = False
    row.reason = event.blocked_by


_GATE = {
    "entry": (StageStatus.OPENING, StageStatus.PENDING),
    "exit": (StageStatus.CLOSING, StageStatus.RUNNING),
}

RUN_FOLDS: dict[type[ev.Event], Callable[[RunRow, Any], None]] = {
    **PARKING_FOLDS,
    ev.RunRestored: lambda row, e: _set_run(row, RunStatus.STOPPED, "rebuilt from git"),
    ev.RunnerAttached: _runner_attached,
    ev.AgentsReattached: _agents_adopted,
    ev.StageOpening: lambda row, e: _move_stage(row, e.stage, (StageStatus.PENDING,), StageStatus.OPENING),
    ev.StageOpened: lambda row, e: _move_stage(row, e.stage, (StageStatus.OPENING,), StageStatus.RUNNING),
    ev.StageClosing: lambda row, e: _move_stage(row, e.stage, (StageStatus.RUNNING,), StageStatus.CLOSING),
    ev.StageClosed: lambda row, e: _move_stage(row, e.stage, (StageStatus.CLOSING,), StageStatus.COMPLETED),
    ev.StageRewound: _stage_rewound,
    ev.StageGateFailed: _stage_gate_failed,
    ev.StageGateReset: _stage_gate_reset,
    ev.StageGateWaived: _stage_gate_waived,
    ev.BranchMoved: _branch_moved,
    ev.IntrusionNoticed: _intrusion_noticed,
    ev.NotificationFailed: lambda row, e: None,
    ev.PauseRequested: _pause_requested,
    ev.StopRequested: _stop_requested,
    ev.RunPaused: lambda row, e: _set_run(row, RunStatus.PAUSED),
    ev.RunStopped: lambda row, e: _set_run(row, RunStatus.STOPPED),
    ev.RunBlocked: lambda row, e: _set_run(row, RunStatus.BLOCKED, e.reason),
    ev.RunCompleted: lambda row, e: _set_run(row, RunStatus.COMPLETED),
    ev.RunAdopted: _run_adopted,
    ev.MirrorKept: _mirror_kept,
    ev.MirrorEnded: _mirror_ended,
    ev.MirrorFailed: lambda row, e: None,
    ev.RunAbandoned: lambda row, e: _set_run(row, RunStatus.ABANDONED, e.reason),
}
