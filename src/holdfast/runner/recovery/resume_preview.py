"""The preview of `resume`: what it would do to each task, by the same facts and the same core as the resume itself.

Nothing is changed: the events of the preview are applied to a state that nobody stores.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.agents.presets import presets_of
from holdfast.boot import boot_id
from holdfast.core import events as ev
from holdfast.core.budgets import raising_command, run_overrun
from holdfast.core.commands import RecordEvent
from holdfast.core.decide import decide
from holdfast.core.facts import ExitReason, Facts, Presence, Sighting
from holdfast.core.outcome import ProcessSign, ending_words, sign_of
from holdfast.core.people import has_new_answer
from holdfast.core.projection import TaskRow
from holdfast.core.provider_limits import available_agent
from holdfast.core.reconcile import reconcile
from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER, AttemptKind, ParkReason, TaskStatus
from holdfast.fleet.protocol import Fleet, LaunchKey
from holdfast.journal.protocol import JournalReader, StoredRun
from holdfast.repo.repository import Repository
from holdfast.repo.snapshots import unsaved_files
from holdfast.repo.workspaces import Workspaces
from holdfast.reporting.displayed_status import displayed_task_statuses
from holdfast.reporting.needs_you import need_of
from holdfast.reporting.recovery_report import (
    RecoveryReport,
    ResumeAction,
    TaskPreview,
    UnsavedWork,
    left_alone,
    recovery_report,
    start_again,
)
from holdfast.runner.decisions.user_decisions import apply_decision
from holdfast.runner.recovery.facts import find_agents, gather_facts, require_base, require_own_branch
from holdfast.runner.session import RunOptions, apply_options

_BY_PRESENCE = {
    Presence.ALIVE: (ResumeAction.REATTACH, "its agent is alive"),
    Presence.ENDED: (ResumeAction.COLLECT, "its agent ended; its work is waiting"),
    Presence.UNKNOWN: (ResumeAction.RUN, "its agent was never started"),
    Presence.LOST: (ResumeAction.REDO, "its agent was lost"),
}

_LOST = Sighting(Presence.LOST)
_CUT_SHORT = (ProcessSign.SIGNAL, ProcessSign.TIMEOUT, ProcessSign.STALLED)
"""What a process shows that did not come to its own end: its work is saved, and its task is tried again."""

_NOT_BEGUN = (TaskStatus.PENDING, TaskStatus.FAILED)
_BY_STATUS = {
    TaskStatus.COMPLETED: (ResumeAction.SKIP, "landed"),
    TaskStatus.SKIPPED: (ResumeAction.SKIP, "skipped"),
    TaskStatus.ABANDONED: (ResumeAction.SKIP, "abandoned; `holdfast retry` gives it another chance"),
    TaskStatus.VERIFYING: (ResumeAction.CHECK, "its work is there; all its checks run again"),
    TaskStatus.VERIFIED: (ResumeAction.LAND, "verified; it waits in the merge queue"),
    TaskStatus.FAILED: (ResumeAction.REDO, "failed; a fresh agent repairs it"),
    TaskStatus.BLOCKED: (ResumeAction.WAIT, "it needs a task that was abandoned"),
}


def preview_resume(
    repo: Repository,
    fleet: Fleet,
    journal: JournalReader,
    run: str,
    options: RunOptions,
    decisions: Sequence[ev.Event] = (),
) -> RecoveryReport:
    """Return the recovery report of a run as it is now: where it stands, and what resuming does.

    The preview is for these options, after the decisions that the user makes along with them.
    """
    stored = journal.load(run)
    state = stored.state()
    state.jobs = options.jobs or state.jobs
    future = journal.load(run).state()
    apply_decision(future, *decisions)
    apply_options(future, options, presets_of(repo.checkout))
    sightings = find_agents(fleet, run, future.active.values())
    if future.row.status not in RUN_IS_OVER:
        facts = gather_facts(repo, future, journal.events(run), sightings)
        require_base(future.row, facts)
        require_own_branch(future.row, facts, options.accepted_tip)
        _recover(future, facts)
    recorded = journal.events(run, upto=stored.last_seq)
    unsaved = _unsaved_work(repo, fleet, stored)
    sightings |= {
        name: _LOST for name in sightings if _has_nothing_to_collect(sightings[name], unsaved.get(name))
    }
    return recovery_report(state, _preview_tasks(future, sightings), unsaved, recorded)


def _has_nothing_to_collect(sighting: Sighting, seen: UnsavedWork | None) -> bool:
    """Tell whether an agent ended whose workspace somebody deleted: then it counts as lost."""
    return sighting.presence is Presence.ENDED and seen is not None and seen.gone


def _recover(state: RunState, facts: Facts) -> None:
    """Bring the state to where the next runner would bring it before it starts anything."""
    state.apply(ev.RunnerAttached(epoch=state.row.epoch + 1, pid=0, host="", boot_id=""))
    state.apply_all(reconcile(state, facts))
    while records := [one for one in decide(state, state.row.clock) if isinstance(one, RecordEvent)]:
        state.apply_all(record.event for record in records)


def _preview_tasks(state: RunState, sightings: dict[str, Sighting]) -> list[TaskPreview]:
    """Return what would happen to each task, in plan order."""
    shown = displayed_task_statuses(state)
    alone, stopped = left_alone(state), _stopped_stages(state)
    previews = [
        TaskPreview(name, ResumeAction.LEAVE, alone[name])
        if name in alone
        else TaskPreview(name, ResumeAction.WAIT, stopped[stage])
        if shown[name] in _NOT_BEGUN and (stage := state.stage_of[name]) in stopped
        else _preview_task(state, task, shown[name], sightings.get(name))
        for name, task in state.tasks.items()
    ]
    if spent := run_overrun(state):
        why = f"{spent.message}; `{raising_command(state)}` raises it to N"
        return [
            _held_back(preview, why) if preview.task not in sightings else preview for preview in previews
        ]
    return previews


def _held_back(preview: TaskPreview, why: str) -> TaskPreview:
    """Return what happens to a task while nothing new may start."""
    is_new = preview.move in (ResumeAction.RUN, ResumeAction.REDO)
    return TaskPreview(preview.task, ResumeAction.WAIT, why) if is_new else preview


def _stopped_stages(state: RunState) -> dict[str, str]:
    """Return the stages in which nothing new starts because a task was abandoned, each with the reason."""
    stopped: dict[str, str] = {}
    culprits: dict[str, str] = {}
    for stage in state.plan.stages:
        own = next((t.id for t in stage.tasks if state.tasks[t.id].status is TaskStatus.ABANDONED), "")
        below = next((culprits[need] for need in stage.needs if need in culprits), "")
        if below:
            stopped[stage.id] = f"its stage waits for {below}, which was abandoned"
        elif own and not state.plan.limits.keep_going:
            stopped[stage.id] = f"its stage stopped: {own} was abandoned"
        if own or below:
            culprits[stage.id] = own or below
    return stopped


def _preview_task(
    state: RunState, task: TaskRow, shown: TaskStatus, sighting: Sighting | None
) -> TaskPreview:
    if shown is TaskStatus.RUNNING and task.latest.kind is AttemptKind.PERSON:
        return _preview_given(task)
    if shown is TaskStatus.RUNNING and sighting is not None:
        return _preview_running(state, task, sighting)
    if task.taken is not None and task.taken.given:
        return _preview_given(task)
    if task.recheck:
        return TaskPreview(task.id, ResumeAction.CHECK, "its work is there; it is verified again")
    if shown is TaskStatus.PENDING:
        return _preview_pending(task)
    if need := need_of(state.row.run, task):
        return TaskPreview(task.id, ResumeAction.WAIT, f"it {need.words}; `{need.command}`")
    if task.status is TaskStatus.BLOCKED:
        return TaskPreview(task.id, ResumeAction.REDO, "it needed you; an agent tries again")
    if shown is TaskStatus.WAITING_LIMIT:
        return TaskPreview(task.id, ResumeAction.RUN, _wait_words(state, task))
    if shown is TaskStatus.FAILED and task.set_aside:
        why = f"failed; it {start_again(task)}; what it had done is kept"
        return TaskPreview(task.id, ResumeAction.REDO, why)
    return TaskPreview(task.id, *_BY_STATUS[shown])


def _wait_words(state: RunState, task: TaskRow) -> str:
    """Return what a task waits for: the end of a limit, or that a provider can be reached again."""
    provider = task.latest.provider
    parked = state.row.parked.get(provider)
    over = available_agent(state, task, state.row.clock) is not None
    if parked is not None and parked.reason is ParkReason.OUTAGE:
        return (
            f"{provider} was out of reach; it is tried again"
            if over
            else f"it waits: {provider} is out of reach"
        )
    return "its usage limit is over" if over else "it waits for a usage limit"


def _preview_given(task: TaskRow) -> TaskPreview:
    if task.taken is not None and task.taken.given == "back":
        return TaskPreview(task.id, ResumeAction.REDO, "you gave it back; an agent continues from your work")
    return TaskPreview(task.id, ResumeAction.COLLECT, "you gave it; your work is committed and checked")


def _preview_running(state: RunState, task: TaskRow, sighting: Sighting) -> TaskPreview:
    ended = sighting.exit
    if ended is None or sign_of(ended) not in _CUT_SHORT or task.latest.halt is not None:
        return TaskPreview(task.id, *_BY_PRESENCE[sighting.presence])
    is_stopped = ended.reason is ExitReason.CANCELLED  # from outside, which is not charged
    if not is_stopped and task.charged + 1 >= state.limits_of(task.id).attempts:
        why = f"{ending_words(ended)}; its work is saved, and that was its last attempt"
        return TaskPreview(task.id, ResumeAction.COLLECT, why)
    if state.starts_clean(task):
        return TaskPreview(task.id, *_BY_PRESENCE[Presence.LOST])
    why = f"{ending_words(ended)}; its work is saved, and a fresh agent continues from it"
    return TaskPreview(task.id, ResumeAction.REDO, why, has_ended=True)


def _preview_pending(task: TaskRow) -> TaskPreview:
    if task.attempt == 0:
        return TaskPreview(task.id, ResumeAction.RUN, "not started yet")
    kept = f"a fresh agent continues from {task.carry[:12]}" if task.carry else "nothing of it was saved"
    if task.set_aside:
        kept = f"it {start_again(task)}; what it had done is kept"
    if task.forgiven and task.forgiven == len(task.failures):
        return TaskPreview(task.id, ResumeAction.REDO, f"it has all its attempts again; {kept}")
    if has_new_answer(task):
        return TaskPreview(task.id, ResumeAction.REDO, f"its question is answered; {kept}")
    # An attempt without a token was not started by Holdfast: we only know that it ended, perhaps by a crash.
    ended = "was cut short" if task.latest.token else "is over"
    if task.latest.head:
        ended = "is not on the run branch any more"
    return TaskPreview(task.id, ResumeAction.REDO, f"attempt {task.attempt} {ended}; {kept}")


def _unsaved_work(repo: Repository, fleet: Fleet, stored: StoredRun) -> dict[str, UnsavedWork]:
    directory = repo.state_dir.run(stored.row.run).workspaces
    workspaces = Workspaces(repo, directory, setting=stored.plan.workspace)
    # When something was recorded, a runner was watching, so the agent was alive then.
    watched, torn = stored.updated_at, stored.row.is_of_earlier_boot(boot_id())
    found = {}
    for task in stored.tasks:
        if task.status is TaskStatus.RUNNING:
            workspace = workspaces.get(str(task.latest.workspace_number))
            files = unsaved_files(repo, workspace, task.latest.snapshot or task.latest.start)
            heard = max(fleet.last_sign(LaunchKey.of_agent(stored.row.run, task)), watched)
            found[task.id] = UnsavedWork(files.count, heard, torn, files.unknown_because, files.gone)
    return found
