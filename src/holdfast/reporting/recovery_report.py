"""The recovery report: what is safe, what is not, what would be redone, and what resuming does to each task.

Pure: the caller looked at git, the workspaces and the processes. Estimates come from measured durations or are
unknown; nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from holdfast.core.event_codec import Recorded
from holdfast.core.projection import Report, TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.reporting.displayed_status import displayed_task_statuses
from holdfast.reporting.estimates import AttemptSpan, attempt_spans, time_to_finish
from holdfast.reporting.needs_you import need_of


class ResumeAction(StrEnum):
    """What resuming a run does to a task first."""

    SKIP = "skip"
    REATTACH = "re-attach"
    COLLECT = "collect"
    REDO = "redo"
    CHECK = "check"
    LAND = "land"
    RUN = "run"
    WAIT = "wait"
    LEAVE = "leave"


_NEEDS_AN_ATTEMPT = (TaskStatus.PENDING, TaskStatus.FAILED, TaskStatus.WAITING_LIMIT, TaskStatus.BLOCKED)
_AGENT_WORKS = (ResumeAction.RUN, ResumeAction.REDO, ResumeAction.REATTACH)
_NEEDS_A_PERSON = (TaskStatus.ABANDONED, TaskStatus.BLOCKED)
_NOTHING_HAPPENS = (ResumeAction.SKIP, ResumeAction.WAIT)


@dataclass(frozen=True, slots=True)
class TaskPreview:
    """One task: what would happen first, and why. `has_ended`: its agent left a record of its end, so nothing of it is lost."""

    task: str
    move: ResumeAction
    why: str
    has_ended: bool = False


@dataclass(frozen=True, slots=True)
class UnsavedWork:
    """What the disk shows about a task whose attempt is under way.

    `unsaved` files exist in its workspace alone (None: `unknown_because`, or there is no workspace, it is `gone`); `heard` is
    when its agent was last heard of. A reboot may have `torn` its files, so that nobody builds on them.
    """

    unsaved: int | None = None
    heard: float = 0.0
    torn: bool = False
    unknown_because: str = ""
    gone: bool = False


class TaskRecovery(msgspec.Struct, frozen=True, kw_only=True):
    """One task: where it stands, where its work is, and what resuming does. `progress` is what the agent reported.

    `set_aside` is half-done work that is kept and that the next attempt starts without.
    """

    id: str
    stage: str
    status: TaskStatus
    progress: float | None
    file: str
    line: int | None
    section_done: str
    section_next: str
    attempts: int
    landed: str | None
    committed: str | None
    snapshot: str | None
    set_aside: str | None
    unsaved: int | None
    redo_s: float
    move: ResumeAction
    why: str
    question: str | None = None
    options: tuple[str, ...] = ()


class RecoveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """All tasks in plan order. `redo_s` is an upper bound of work to redo; `finish_s` is null if unknown.

    `measured` tasks are what the time to finish is estimated from; `undecided` ones need a person and are not in it.
    """

    tasks: tuple[TaskRecovery, ...]
    redo_s: float
    finish_s: float | None
    measured: int
    undecided: int
    failed: tuple[str, ...]


def recovery_report(
    state: RunState,
    previews: Sequence[TaskPreview],
    seen: Mapping[str, UnsavedWork],
    recorded: Iterable[Recorded],
) -> RecoveryReport:
    """Return the report of a run as it is stored; `previews` say what resuming would do to each task."""
    statuses = displayed_task_statuses(state)
    spans = {span.task: span for span in attempt_spans(recorded, state.plan.limits.restart_below)}
    tasks = tuple(
        _task(state, preview, statuses[preview.task], seen.get(preview.task, UnsavedWork()), spans)
        for preview in previews
    )
    measured = [row.worked_s for row in state.tasks.values() if row.merge_commit and row.worked_s > 0]
    left = {task.id: _share_left(state, task) for task in tasks if task.move in _AGENT_WORKS}
    return RecoveryReport(
        tasks=tasks,
        redo_s=round(sum(task.redo_s for task in tasks), 3),
        finish_s=time_to_finish(state.plan, state.jobs, left, measured),
        measured=len(measured),
        undecided=sum(task.status in _NEEDS_A_PERSON and task.move in _NOTHING_HAPPENS for task in tasks),
        failed=failed_tasks(state),
    )


def failed_tasks(state: RunState) -> tuple[str, ...]:
    """Return the tasks that failed or were abandoned, in plan order, for "restart failed only"."""
    statuses = (TaskStatus.FAILED, TaskStatus.ABANDONED)
    return tuple(name for name, row in state.tasks.items() if row.status in statuses)


def _task(
    state: RunState,
    preview: TaskPreview,
    status: TaskStatus,
    seen: UnsavedWork,
    spans: Mapping[str, AttemptSpan],
) -> TaskRecovery:
    row = state.tasks[preview.task]
    report = row.latest.report or row.last_report or Report()
    early = report.progress is not None and report.progress < state.plan.limits.restart_below
    clean = state.starts_clean(row)
    lost = row.status is TaskStatus.RUNNING and preview.move is ResumeAction.REDO and not preview.has_ended
    early = early and not preview.has_ended
    need = need_of(state.row.run, row)
    return TaskRecovery(
        id=row.id,
        stage=state.stage_of[row.id],
        status=status,
        progress=100.0 if row.merge_commit else report.progress,
        file=report.file,
        line=report.line,
        section_done=report.section_done,
        section_next=report.section_next,
        attempts=row.attempt,
        landed=row.merge_commit or None,
        committed=None if row.merge_commit else row.latest.head or row.carry or None,
        snapshot=None if row.merge_commit else row.latest.snapshot or None,
        set_aside=row.set_aside or None,
        unsaved=seen.unsaved,
        redo_s=_redo_s(row, preview.move, seen, spans.get(row.id), all_of_it=early or clean),
        move=preview.move,
        why=_why_lost(row, report, seen, early=early, clean=clean) if lost else preview.why,
        question=need.question if need else None,
        options=need.options if need else (),
    )


def _redo_s(
    row: TaskRow, move: ResumeAction, seen: UnsavedWork, span: AttemptSpan | None, *, all_of_it: bool
) -> float:
    """Return how much work is redone at most: of a lost attempt, what came after its last snapshot, or all of it."""
    if move is not ResumeAction.REDO or span is None:
        return 0.0
    if row.status is not TaskStatus.RUNNING:
        return round(span.seconds, 3) if span.thrown_away else 0.0
    safe_until = span.started if all_of_it or span.saved is None else span.saved
    return round(max(0.0, seen.heard - safe_until), 3)


def start_again(row: TaskRow) -> str:
    """Return where an attempt begins that starts without the half-done work of the last one, as words after "it"."""
    return f"starts again from {row.carry[:12]}" if row.carry else "starts again from the run branch"


def _why_lost(row: TaskRow, report: Report, seen: UnsavedWork, *, early: bool, clean: bool) -> str:
    cut = f"attempt {row.attempt} was cut short"
    if seen.gone:
        then = f"it {start_again(row)}" if clean or early else _begins(row)
        return f"attempt {row.attempt}: its workspace was deleted; {then}; no attempt is charged"
    if seen.unsaved is None:
        return f"{cut}; what it wrote is not known: {seen.unknown_because}"
    if clean:
        done = seen.unsaved or row.latest.snapshot
        return f"{cut}; it {start_again(row)}" + ("; what it had done is kept" if done else "")
    if early:
        return f"{cut} at {report.progress:g} %, too early to continue; a fresh agent starts clean"
    if seen.torn:
        kept = "; what was in its workspace is kept" if seen.unsaved else ""
        return f"{cut} by a reboot; {_begins(row)}{kept}"
    if seen.unsaved:
        return f"{cut}; its workspace is saved first, a fresh agent continues from it"
    if row.latest.snapshot:
        return f"{cut}; a fresh agent continues from {row.latest.snapshot[:12]}"
    return f"{cut} before it wrote anything; a fresh agent starts"


def _begins(row: TaskRow) -> str:
    at = f"continues from {row.latest.snapshot[:12]}" if row.latest.snapshot else "starts again"
    return f"a fresh agent {at}"


def _share_left(state: RunState, task: TaskRecovery) -> float:
    """Return how much of a task an agent still has to do, as far as it is reported."""
    anew = task.move is ResumeAction.REDO and state.starts_clean(state.tasks[task.id])
    if task.progress is None or task.move is ResumeAction.RUN or anew:
        return 1.0
    return max(0.0, 1.0 - task.progress / 100)


def left_alone(state: RunState) -> dict[str, str]:
    """Return every task that a run of selected tasks does not start, with the reason; none if nothing is selected.

    Tasks under way continue. A selected task that waits for one left alone is left alone too.
    """
    selected = state.selected
    if selected is None:
        return {}
    idle = [name for name, task in state.tasks.items() if task.status in _NEEDS_AN_ATTEMPT]
    found = {name: "not selected" for name in idle if name not in selected}
    abandoned = [name for name, task in state.tasks.items() if task.status is TaskStatus.ABANDONED]
    frontier = [*found, *abandoned]
    waiting, closed = set(idle) & selected, set[str]()
    while frontier:
        name = frontier.pop()
        for follower in _followers(state, name, closed):
            if follower in waiting and follower not in found:
                found[follower] = f"it waits for {name}, which does not land now"
                frontier.append(follower)
    return found


def _followers(state: RunState, name: str, closed: set[str]) -> Iterator[str]:
    """Yield what cannot start before a task has landed. `closed` are the stages whose followers were yielded before."""
    yield from state.dependents.get(name, ())
    stage = state.stage_of[name]
    if stage in closed:
        return
    closed.add(stage)
    for later in state.plan.stages:
        if stage in later.needs:
            yield from (task.id for task in later.tasks)
