"""The state machine of stages and of the run: one row per event. The theory of operation is in `task_transitions.py`.

The runner decides when an event of the run may happen, so `RUN_EVENTS` only says what follows. What an
event of a stage's gate does depends on which gate it is, entry or exit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from msgspec.structs import asdict, replace

from holdfast.core import events as ev
from holdfast.core.projection import BaseCheck, Origin, Parked, RunRow, StageRow
from holdfast.core.status import BaseStatus, ParkReason, RunStatus, StageStatus
from holdfast.core.task_transitions import IllegalEventError


class StageMove(NamedTuple):
    """From which statuses to which."""

    before: Collection[StageStatus]
    after: StageStatus


def _gate_failed(stage: StageRow, event: ev.StageGateFailed) -> None:
    stage.gate, stage.error, stage.detail = event.gate, event.error, event.detail


def _gate_waived(stage: StageRow, event: ev.StageGateWaived) -> None:
    stage.waived += (event.gate,)


def _stage_rewound(stage: StageRow, event: ev.StageRewound) -> None:
    stage.waived = ()


class StageRule(NamedTuple):
    """The row of a stage event: its move, the one it makes instead for the exit gate, and its fold."""

    move: StageMove
    at_exit: StageMove | None = None
    fold: Callable[[StageRow, Any], None] = lambda stage, event: None


_G = StageStatus
STAGE_EVENTS: dict[type[ev.Event], StageRule] = {
    ev.StageOpening: StageRule(StageMove((_G.PENDING,), _G.OPENING)),
    ev.StageOpened: StageRule(StageMove((_G.OPENING,), _G.RUNNING)),
    ev.StageClosing: StageRule(StageMove((_G.RUNNING,), _G.CLOSING)),
    ev.StageClosed: StageRule(StageMove((_G.CLOSING,), _G.COMPLETED)),
    ev.StageGateFailed: StageRule(
        StageMove((_G.OPENING,), _G.BLOCKED), StageMove((_G.CLOSING,), _G.BLOCKED), _gate_failed
    ),
    ev.StageGateReset: StageRule(
        StageMove((_G.OPENING, _G.BLOCKED), _G.PENDING),
        StageMove((_G.RUNNING, _G.CLOSING, _G.BLOCKED), _G.RUNNING),
    ),
    ev.StageGateWaived: StageRule(
        StageMove((_G.BLOCKED,), _G.RUNNING), StageMove((_G.BLOCKED,), _G.COMPLETED), _gate_waived
    ),
    ev.StageRewound: StageRule(
        StageMove((_G.RUNNING, _G.BLOCKED, _G.COMPLETED), _G.PENDING), fold=_stage_rewound
    ),
}


def apply_to_stage(row: RunRow, event: ev.StageEvent) -> None:
    """Change a stage by one event. Raises IllegalEventError, changing nothing, if it may not happen now."""
    rule, stage = STAGE_EVENTS[type(event)], row.stages.get(event.stage)
    gate = getattr(event, "gate", "entry")
    before, after = (rule.at_exit if gate == "exit" else None) or rule.move
    if stage is None or stage.status not in before:
        standing = "is not in the plan" if stage is None else f"is {stage.status}"
        raise IllegalEventError(f"stage {event.stage} {standing} and cannot become {after}")
    if isinstance(event, ev.StageGateWaived) and stage.gate != gate:
        raise IllegalEventError(f"the {gate} check of stage {event.stage} has not failed")
    stage.status = after
    stage.error = stage.detail = ""
    rule.fold(stage, event)


# -- Run events ---------------------------------------------------------------------------------------------


def first_row(event: ev.RunStarted) -> RunRow:
    """Return the row of a new run."""
    known = {name: value for name, value in asdict(event).items() if name in RunRow.__struct_fields__}
    if event.check_base:
        known["base_check"] = BaseCheck(status=BaseStatus.PENDING)
    return RunRow(tip=event.base, **known)


def _run_restored(run: RunRow, event: ev.RunRestored) -> None:
    run.reason = "rebuilt from git"
    run.dropped = dict(event.dropped)


def _runner_attached(run: RunRow, event: ev.RunnerAttached) -> None:
    run.epoch = event.epoch
    run.boot_id = event.boot_id
    run.sandbox = event.sandbox
    run.sandbox_by = event.sandbox_by
    run.network = event.network
    run.pausing = run.stopping = False
    if run.base_check.status is BaseStatus.RUNNING:
        run.base_check = BaseCheck(status=BaseStatus.PENDING)


def _agents_reattached(run: RunRow, event: ev.AgentsReattached) -> None:
    run.reattached += len(event.working) + len(event.finished)


def _intrusion_noticed(run: RunRow, event: ev.IntrusionNoticed) -> None:
    run.intrusions += 1


def _branch_moved(run: RunRow, event: ev.BranchMoved) -> None:
    run.tip = event.commit


def _pause_requested(run: RunRow, event: ev.PauseRequested) -> None:
    if not run.stopping:  # A stop outranks any pause.
        run.pausing = True
        run.stopping = event.now


def _stop_requested(run: RunRow, event: ev.StopRequested) -> None:
    run.stopping = True
    run.pausing = False
    run.reason = event.blocked_by


def _run_adopted(run: RunRow, event: ev.RunAdopted) -> None:
    run.adopting = ""
    run.origin = Origin(**asdict(event))


def _plan_amended(run: RunRow, event: ev.PlanAmended) -> None:
    """Change what the run's own row says of its plan. `RunState` does the rest: stages, tasks and queues."""
    run.first_plan = run.first_plan or run.plan_hash
    run.plan_hash, run.goal = event.plan_hash, event.plan.goal


def _mirror_kept(run: RunRow, event: ev.MirrorKept) -> None:
    run.mirrors = {**run.mirrors, event.system: event.folder}


def _mirror_ended(run: RunRow, event: ev.MirrorEnded) -> None:
    run.mirrors = {system: folder for system, folder in run.mirrors.items() if system != event.system}


def _ticking_started(run: RunRow, event: ev.TickingStarted) -> None:
    run.ticking = True


def _ticking_ended(run: RunRow, event: ev.TickingEnded) -> None:
    run.ticking = False


def _provider_parked(run: RunRow, event: ev.ProviderParked) -> None:
    run.clock = max(run.clock, event.clock)
    before = run.parked.get(event.provider, Parked())
    if before.shut_in == run.epoch:
        return  # It refuses us, and no wait will change that.
    parked = Parked(
        until=event.until,
        not_before=event.clock + event.wait_s,
        wait_s=event.wait_s,
        hits=event.hits,
        words=event.words,
        reason=event.reason,
        probe=event.probe,
        since=event.since,
        began=event.began,
        error=event.error,
        told=event.tell or (before.told and before.since == event.since),
    )
    run.parked = {**run.parked, event.provider: parked}


def _provider_answered(run: RunRow, event: ev.ProviderAnswered) -> None:
    """Nobody waits any longer. A limit or an outage may return at once: how often it was met is kept until work goes well."""
    before = run.parked.get(event.provider)
    run.parked = {name: parked for name, parked in run.parked.items() if name != event.provider}
    if before is not None and before.reason is ParkReason.LIMIT:
        run.parked[event.provider] = replace(before, probe=False)
    elif before is not None and event.provisional:
        run.parked[event.provider] = Parked(
            hits=before.hits,
            reason=before.reason,
            since=before.since,
            began=before.began,
            answered=True,
        )


def _provider_shut(run: RunRow, event: ev.ProviderShut) -> None:
    shut = Parked(words=event.words, shut_in=run.epoch)
    if event.agent:
        run.shut_agents = {**run.shut_agents, event.agent: shut}
    else:
        run.parked = {**run.parked, event.provider: shut}


def _base_check_started(run: RunRow, event: ev.BaseCheckStarted) -> None:
    run.base_check = BaseCheck(status=BaseStatus.RUNNING)


def _base_check_interrupted(run: RunRow, event: ev.BaseCheckInterrupted) -> None:
    run.base_check = BaseCheck(status=BaseStatus.PENDING)


def _base_checked(run: RunRow, event: ev.BaseChecked) -> None:
    if not event.error:
        run.base_check = BaseCheck(status=BaseStatus.SETTLED)
        return
    run.base_check = BaseCheck(
        status=BaseStatus.FAILED,
        check=event.check,
        error=event.error,
        detail=event.detail,
        unrunnable=event.unrunnable,
        setup=event.setup,
        epoch=run.epoch,
    )


def _base_accepted(run: RunRow, event: ev.BaseAccepted) -> None:
    run.base_check = replace(run.base_check, status=BaseStatus.SETTLED)


class RunRule(NamedTuple):
    """The row of a run event: the status that the run gets, None if it keeps its own, and the fold."""

    after: RunStatus | None = None
    fold: Callable[[RunRow, Any], None] = lambda run, event: None


RUN_EVENTS: dict[type[ev.Event], RunRule] = {
    ev.RunRestored: RunRule(RunStatus.STOPPED, _run_restored),
    ev.RunnerAttached: RunRule(RunStatus.RUNNING, _runner_attached),
    ev.RunPaused: RunRule(RunStatus.PAUSED),
    ev.RunStopped: RunRule(RunStatus.STOPPED),
    ev.RunBlocked: RunRule(RunStatus.BLOCKED),
    ev.RunCompleted: RunRule(RunStatus.COMPLETED),
    ev.RunAbandoned: RunRule(RunStatus.ABANDONED),
    ev.AgentsReattached: RunRule(fold=_agents_reattached),
    ev.IntrusionNoticed: RunRule(fold=_intrusion_noticed),
    ev.NotificationFailed: RunRule(),
    ev.BranchMoved: RunRule(fold=_branch_moved),
    ev.PauseRequested: RunRule(fold=_pause_requested),
    ev.StopRequested: RunRule(fold=_stop_requested),
    ev.RunAdopted: RunRule(fold=_run_adopted),
    ev.PlanAmended: RunRule(fold=_plan_amended),
    ev.MirrorKept: RunRule(fold=_mirror_kept),
    ev.MirrorEnded: RunRule(fold=_mirror_ended),
    ev.MirrorFailed: RunRule(),
    ev.TickingStarted: RunRule(fold=_ticking_started),
    ev.TickingEnded: RunRule(fold=_ticking_ended),
    ev.ProviderParked: RunRule(fold=_provider_parked),
    ev.ProviderAnswered: RunRule(fold=_provider_answered),
    ev.ProviderShut: RunRule(fold=_provider_shut),
    ev.BaseCheckStarted: RunRule(fold=_base_check_started),
    ev.BaseCheckInterrupted: RunRule(fold=_base_check_interrupted),
    ev.BaseChecked: RunRule(fold=_base_checked),
    ev.BaseAccepted: RunRule(fold=_base_accepted),
}


def apply_to_run(row: RunRow, event: ev.Event) -> None:
    """Change the run's own row by one event. A status comes with its reason, if it has one."""
    rule = RUN_EVENTS.get(type(event))
    if rule is None:
        raise IllegalEventError(f"{type(event).__name__}: the run has begun before")
    if rule.after is not None:
        row.status = rule.after
        row.reason = getattr(event, "reason", "")
    rule.fold(row, event)
