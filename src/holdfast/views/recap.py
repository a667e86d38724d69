"""`recap`: what happened in a run, its cost, and whether git confirms that nothing was lost or done twice."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.core import events as ev
from holdfast.core.accounts import money
from holdfast.core.event_codec import Recorded
from holdfast.core.facts import Facts
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.repo.repository import Repository
from holdfast.reporting.estimates import RedoneWork, attempt_spans, redone_work
from holdfast.reporting.needs_you import NeedOfTask
from holdfast.reporting.spending import AgentSpending, Spending, spending_of
from holdfast.reporting.timeline import LostTime, lost_time, timeline
from holdfast.runner.health import settings_since_here
from holdfast.runner.recovery.facts import gather_facts
from holdfast.views.current_status import current_status
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.views.spending_text import SpendingColumns, agents_table, spending_words
from holdfast.views.status import MetricsView, RunView, StatusView
from holdfast.views.text import count, duration, one_line, table


class TaskRecap(msgspec.Struct, frozen=True, kw_only=True):
    """The time and cost of one task."""

    id: str
    status: TaskStatus
    attempts: int
    crashes: int
    commits: int
    worked_s: float
    merge_commit: str | None
    spending: Spending = Spending()


class Recap(msgspec.Struct, frozen=True, kw_only=True):
    """A run in numbers. `lost` and `repeated` are proved by git; null when the run branch is gone.

    Lost: recorded as landed, yet not on the branch. Repeated: landed more than once. Foreign: commits on the branch that
    are not Holdfast's, which `resume` explains. `lost_time`: no agent worked, for a crash or for a provider.
    """

    run: RunView
    metrics: MetricsView
    runners: int
    adopted: int
    landed: int | None
    lost: int | None
    repeated: int | None
    foreign: int
    worked_s: float
    redone: RedoneWork
    failures: dict[str, int]
    waived: tuple[str, ...]
    tasks: tuple[TaskRecap, ...]
    questions: int = 0
    needs_you: tuple[NeedOfTask, ...] = ()
    agents: tuple[AgentSpending, ...] = ()
    new_in_git: tuple[str, ...] = ()
    lost_time: LostTime = LostTime()


def recap_of(repo: Repository, opened: ReadOnlyRepo, run: str) -> Recap:
    """Return the recap of a run from its journal and its branch."""
    journal = opened.require_journal()
    stored = journal.load(run)
    state, recorded = stored.state(), list(journal.events(run))
    facts, new = gather_facts(repo, state, recorded, {}), settings_since_here(repo, journal, run)
    return recap_view(current_status(opened, run), state, recorded, facts, new, time.time())


def recap_view(
    status: StatusView,
    state: RunState,
    history: Sequence[Recorded],
    facts: Facts,
    new_in_git: Sequence[str],
    now: float,
) -> Recap:
    """Return the recap of a run from its state, its events and its branch in git. What is not Holdfast's counts for nothing.

    `new_in_git` are the branches, hooks and settings that are new since the run began: an agent's, or the user's. Until
    `now` a run with a live runner goes on.
    """
    landings = Counter(
        landing.task for landing in facts.branch.landings if landing.commit not in facts.foreign
    )
    replaced = {name for name, task in state.tasks.items() if task.replaced}
    completed = [name for name, task in state.tasks.items() if task.status is TaskStatus.COMPLETED]
    proved = facts.branch_exists
    tasks = tuple(_task(state, name) for name in state.names)
    return Recap(
        run=status.run,
        metrics=status.metrics,
        runners=sum(isinstance(record.event, ev.RunnerAttached) for record in history),
        adopted=state.row.reattached,
        landed=len(landings.keys() | replaced) if proved else None,
        lost=sum(name not in landings and name not in replaced for name in completed) if proved else None,
        repeated=sum(times - 1 for times in landings.values()) if proved else None,
        foreign=len(facts.foreign),
        worked_s=round(sum(task.worked_s for task in tasks), 3),
        redone=redone_work(attempt_spans(history, state.plan.limits.restart_below)),
        failures=dict(
            Counter(f.kind.value for row in state.tasks.values() for f in row.failures).most_common()
        ),
        waived=tuple(
            f"the {gate} check of stage {stage.id}" for stage in status.stages for gate in stage.waived
        ),
        tasks=tasks,
        questions=sum(len(row.questions) for row in state.tasks.values()),
        needs_you=status.needs_you,
        agents=status.agents,
        new_in_git=tuple(new_in_git),
        lost_time=lost_time(timeline(history, state, now, held=status.run.held_by is not None)),
    )


def recap_text(view: Recap) -> str:
    """Return the recap as text."""
    columns = SpendingColumns([task.spending for task in view.tasks])
    rows = [("TASK", "STATUS", "ATTEMPTS", "CRASHES", "COMMITS", *columns.heading, "LANDED")]
    for task in view.tasks:
        figures = (str(task.attempts), str(task.crashes), str(task.commits), *columns.cells(task.spending))
        rows.append((task.id, task.status, *figures, (task.merge_commit or "-")[:12]))
    return "\n".join([*_summary(view), "", *table(rows), *agents_table(view.agents)])


def _task(state: RunState, name: str) -> TaskRecap:
    row = state.tasks[name]
    return TaskRecap(
        id=name,
        status=row.status,
        attempts=row.attempt,
        crashes=row.crash_count,
        commits=len(row.commits),
        worked_s=round(row.worked_s, 3),
        merge_commit=row.merge_commit or None,
        spending=spending_of(row),
    )


def _redone(work: RedoneWork) -> str:
    if not work.attempts:
        return "no attempt was thrown away"
    cost = "" if work.cost_usd is None else f", {money(work.cost_usd)}"
    return f"{count(work.attempts, 'attempt')} thrown away: {duration(work.seconds)} of work{cost}"


def lost_time_words(lost: LostTime) -> str:
    """Return `12m 03s to crashes, 1h 05m to limits and outages`; empty if no time was lost."""
    parts = ((lost.crashes_s, "crashes"), (lost.limits_s, "limits and outages"))
    return ", ".join(f"{duration(seconds)} to {cause}" for seconds, cause in parts if seconds)


def _summary(view: Recap) -> Iterator[str]:
    run, metrics = view.run, view.metrics
    yield f"{run.id}  {run.status}"
    yield f"  {one_line(run.goal)}"
    yield (
        f"  {metrics.completed} of {count(metrics.tasks, 'task')} landed in {duration(metrics.elapsed_s)}; "
        f"agents worked {duration(view.worked_s)}"
    )
    yield (
        f"  {count(view.runners, 'runner')}, {count(view.adopted, 'agent')} re-attached or collected, "
        f"{count(metrics.attempts, 'attempt')}, {count(metrics.commits, 'commit')}, {metrics.redone} redone"
    )
    if told := spending_words(msgspec.structs.replace(metrics.spending, worked_s=None)):
        yield f"  {told}"
    yield f"  {_redone(view.redone)}"
    if lost := lost_time_words(view.lost_time):
        yield f"  time lost, in which no agent worked: {lost}"
    if view.failures:
        yield "  failures: " + ", ".join(f"{times} {kind}" for kind, times in view.failures.items())
    if view.questions:
        yield f"  {count(view.questions, 'question')} to a person"
    for need in view.needs_you:
        yield f"  needs you: {need.task} {one_line(need.words, 300)} `{need.command}`"
    if view.waived:
        yield "  waived by the user: " + ", ".join(view.waived)
    if view.lost is None:
        yield f"  branch {run.branch} is gone, so git proves nothing"
    else:
        yield f"  proved by git: {view.landed} landed, {view.lost} lost, {view.repeated} repeated"
    if view.foreign:
        yield f"  {count(view.foreign, 'commit')} on the branch not made by Holdfast"
    if view.new_in_git:
        yield f"  new in git since it began, by an agent or by you: {one_line(', '.join(view.new_in_git), 200)}"
