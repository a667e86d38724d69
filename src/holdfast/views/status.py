"""`status` and `list` as data: the shape that their `--json` promises, made from a run's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from holdfast.core.decide import NOTHING_STARTS, obstacles
from holdfast.core.facts import NOWHERE, Presence, ResultPlaces
from holdfast.core.ids import short_name
from holdfast.core.outcome import lacks_closing_line
from holdfast.core.people import taken_words
from holdfast.core.plan import Plan, Stage, Task
from holdfast.core.projection import Origin, RunRow, TaskRow
from holdfast.core.provider_limits import probe_of
from holdfast.core.state import RunState
from holdfast.core.status import (
    FailureKind,
    Gate,
    NetworkAccess,
    RunStatus,
    SandboxLevel,
    SandboxMechanism,
    StageStatus,
    TaskStatus,
)
from holdfast.journal.protocol import StoredRun
from holdfast.reporting.displayed_status import (
    AgentSign,
    Liveness,
    QueuePlace,
    displayed_run_status,
    displayed_task_statuses,
    is_resumable,
    liveness,
    merge_queue,
    progress_of,
    reported_progress,
)
from holdfast.reporting.needs_you import NeedOfTask, need_of, needs_you, way_past_obstacle
from holdfast.reporting.run_ending import INTERRUPTED, TOLD_BESIDE, Ending, Rest, how_it_ended, rest_of
from holdfast.reporting.spending import (
    AgentSpending,
    AttemptSpending,
    AtWork,
    Spending,
    attempts_of,
    spending_by_agent,
    spending_of,
    spending_of_tasks,
)
from holdfast.views.providers import ProviderView, providers_in_trouble
from holdfast.views.text import timestamp

_INTERRUPTIONS = {
    Ending.CRASH: "its runner is gone (crash)",
    Ending.REBOOT: "the machine restarted under its runner (reboot)",
}


def reason_now(state: RunState, now: float) -> str:
    """Return why a run at rest does not go on as it stands now: a decision since then may have removed what was in the way.

    Whoever stopped it, and the limits of providers, stay the reason until it is resumed.
    """
    row = state.row
    parked = any(not one.answered for one in row.parked.values())
    recorded = row.status is not RunStatus.BLOCKED or row.stopping or parked or row.reason == NOTHING_STARTS
    return row.reason if recorded else "; ".join(obstacles(state, now))


def describe_ending(row: RunRow, rest: Rest, reason: str) -> str:
    """Return why a run rests or what a live one is about to do; empty if its status is enough."""
    if rest.ending in INTERRUPTED:
        sign = timestamp(rest.last_sign)
        return f"{_INTERRUPTIONS[rest.ending]}; last sign of life {sign}; no recorded work is lost"
    if reason:
        return reason
    if rest.ending is not Ending.RUNNING:
        return ""
    if row.stopping:
        verb = "pausing" if row.pausing else "stopping"
        return f"{verb}: running agents end, their work is kept"
    return "pausing: tasks under way finish, nothing new starts" if row.pausing else ""


def ending_label(status: str, ending: Ending) -> str:
    """Return a run's status, with the cause if it was a crash, a reboot, a limit or an outage."""
    return f"{status} ({ending})" if ending in TOLD_BESIDE else status


RUN_TASK_AGENT = "run"
"""Stands for the agent of a task that is a command of its own."""


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """The run as a whole. `landed_in` names the branches that hold the result of a completed run, the target first.

    `archived_at` is the ref that keeps the result of one that was discarded. `branch_removed`: a completed run's own branch is gone.
    `adopting` is the file of another system whose adoption is not complete yet.
    """

    id: str
    goal: str
    status: RunStatus
    branch: str
    base: str
    target: str
    started_at: str
    updated_at: str
    resumable: bool
    detail: str
    ending: Ending
    last_sign_at: str
    held_by: str | None
    intrusions: int
    sandbox: SandboxLevel = SandboxLevel.OFF
    sandbox_by: SandboxMechanism | None = None
    network: NetworkAccess = NetworkAccess.ON
    adopted_from: Origin | None = None
    adopting: str = ""
    mirrors: tuple[str, ...] = ()
    ticks: str = ""
    landed_in: tuple[str, ...] = ()
    archived_at: str = ""
    branch_removed: bool = False


class StageView(msgspec.Struct, frozen=True, kw_only=True):
    """One stage and its counters; `failed` counts failed and abandoned tasks, `gate` names the one that blocks it."""

    id: str
    status: StageStatus
    tasks: int
    completed: int
    failed: int
    error: str | None
    gate: Gate | None = None
    waived: tuple[Gate, ...] = ()
    spending: Spending = Spending()


class TaskView(msgspec.Struct, frozen=True, kw_only=True):
    """One task. `progress` also counts the task's steps, `reported` is what its agent reports while it works.

    `liveness` and `activity` describe a working agent, `waiting_until` a task that waits for a limit; once that time
    has come, `waiting_for` says for what. `failure` is how its last attempt failed; `closing_line_missing`: for that alone. `question` is what its agent asked and nobody
    has answered, `obstacle` what a working agent says keeps it. It is abandoned when `charged` attempts are `attempts_max`.
    """

    id: str
    stage: str
    status: TaskStatus
    attempts: int
    agent: str
    merge_commit: str | None
    progress: int
    error: str | None
    reported: float | None = None
    liveness: Liveness | None = None
    activity: str | None = None
    waiting_until: str | None = None
    waiting_for: str | None = None
    failure: FailureKind | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    spending: Spending = Spending()
    spending_by_attempt: tuple[AttemptSpending, ...] = ()
    question: str | None = None
    options: tuple[str, ...] = ()
    obstacle: str | None = None
    charged: int = 0
    attempts_max: int = 0
    closing_line_missing: bool = False


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """One place of the merge queue."""

    task: str
    status: QueuePlace


class MetricsView(msgspec.Struct, frozen=True, kw_only=True):
    """Totals. `redone` counts the attempts that left nothing for the next one to build on.

    Tokens and money are null if no agent told any.
    """

    tasks: int = 0
    completed: int = 0
    failed: int = 0
    attempts: int = 0
    redone: int = 0
    commits: int = 0
    elapsed_s: float = 0.0
    tokens: int | None = None
    cost_usd: float | None = None
    spending: Spending = Spending()


class StatusView(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `status` says about a run. `way_out` is what helps where just to resume it would change nothing."""

    run: RunView
    stages: tuple[StageView, ...]
    tasks: tuple[TaskView, ...]
    merge_queue: tuple[QueueView, ...]
    metrics: MetricsView
    needs_you: tuple[NeedOfTask, ...] = ()
    agents: tuple[AgentSpending, ...] = ()
    way_out: str | None = None
    providers: tuple[ProviderView, ...] = ()


STATUS_WITHOUT_RUN: dict[str, object] = {
    "run": None,
    "stages": [],
    "tasks": [],
    "merge_queue": [],
    "metrics": MetricsView(),
    "agents": [],
    "providers": [],
}
"""What `status --json` prints in a repository without runs."""


def status_view(
    stored: StoredRun,
    holder: str | None,
    now: float,
    *,
    boot_id: str = "",
    places: ResultPlaces = NOWHERE,
    signs: Mapping[str, AgentSign] = {},
) -> StatusView:
    """Return what `status` says about a run; `holder` is the live runner, `now` is for the elapsed time.

    `boot_id` tells a reboot from a crash, `places` says where the result is, `signs` are the
    signs of running agents on this machine.
    """
    state = stored.state()
    statuses = displayed_task_statuses(state)
    at_work = _at_work(stored, signs, now, held=holder is not None)
    return StatusView(
        run=_run(
            stored,
            holder,
            _rest(stored, holder is not None, boot_id, signs),
            places,
            reason_now(state, now) if holder is None else state.row.reason,
        ),
        stages=tuple(_stage(state, stage, statuses, at_work) for stage in state.plan.stages),
        tasks=tuple(
            _task(state, stage, task, statuses, signs.get(task.id), now, at_work)
            for stage, task in state.plan.tasks()
        ),
        merge_queue=tuple(QueueView(task=task.id, status=place) for task, place in merge_queue(state)),
        needs_you=needs_you(state),
        metrics=_metrics(
            state, statuses, (now if holder else stored.updated_at) - stored.started_at, at_work
        ),
        agents=spending_by_agent(state.tasks.values(), at_work),
        way_out=(way_past_obstacle(state) if state.row.status is RunStatus.BLOCKED else "") or None,
        providers=providers_in_trouble(state, now),
    )


def _at_work(stored: StoredRun, signs: Mapping[str, AgentSign], now: float, *, held: bool) -> AtWork:
    """Return how long each agent has worked whose attempt is not over. Of one that is gone only its own signs tell."""
    seconds = {}
    for task in stored.tasks:
        sign = signs.get(task.id)
        if task.status is not TaskStatus.RUNNING:
            continue
        if held or (sign is not None and sign.presence is Presence.ALIVE):
            seconds[task.id] = max(0.0, now - (task.latest.started_at or now))
        elif sign is not None:
            seconds[task.id] = sign.worked_s
    return seconds


def _agent(row: TaskRow) -> str:
    """Return the agent of a task's latest attempt, or the one that a person wants for the next; empty if there is neither."""
    wanted = row.agent if row.status is TaskStatus.PENDING else ""
    return wanted or row.latest.agent


def agent_of(plan: Plan, task: Task) -> str:
    """Return the name of the agent that works on a task."""
    return RUN_TASK_AGENT if task.run else task.agent or plan.agent


def _rest(stored: StoredRun, held: bool, boot_id: str, signs: Mapping[str, AgentSign]) -> Rest:
    ending = how_it_ended(stored.row, held=held, boot_id=boot_id, budget=stored.plan.limits.cost_usd)
    return rest_of(ending, stored.updated_at, max((sign.heard_at for sign in signs.values()), default=0.0))


def _run(stored: StoredRun, holder: str | None, rest: Rest, places: ResultPlaces, reason: str) -> RunView:
    row, held = stored.row, holder is not None
    ticked = stored.plan.ticked_list(row.ticking)
    return RunView(
        id=row.run,
        goal=row.goal,
        status=displayed_run_status(row, held=held),
        branch=short_name(row.branch),
        base=row.base,
        target=row.target,
        started_at=timestamp(stored.started_at),
        updated_at=timestamp(stored.updated_at),
        resumable=is_resumable(row, held=held),
        detail=describe_ending(row, rest, reason),
        ending=rest.ending,
        last_sign_at=timestamp(rest.last_sign),
        held_by=holder,
        intrusions=row.intrusions,
        sandbox=row.sandbox,
        sandbox_by=None if row.sandbox is SandboxLevel.OFF else row.sandbox_by,
        network=row.network,
        adopted_from=row.origin,
        adopting=row.plan_source if row.adopting else "",
        mirrors=tuple(row.mirrors),
        ticks=ticked.path if ticked else "",
        landed_in=places.branches,
        branch_removed=not places.has_branch,
        archived_at=places.archive,
    )


def _stage(state: RunState, stage: Stage, statuses: dict[str, TaskStatus], at_work: AtWork) -> StageView:
    counts = Counter(statuses[task.id] for task in stage.tasks)
    row = state.stage(stage.id)
    return StageView(
        id=stage.id,
        status=row.status,
        tasks=len(stage.tasks),
        completed=counts[TaskStatus.COMPLETED],
        failed=counts[TaskStatus.FAILED] + counts[TaskStatus.ABANDONED],
        error=row.error or None,
        gate=row.gate if row.status is StageStatus.BLOCKED else None,
        waived=row.waived,
        spending=spending_of_tasks((state.tasks[task.id] for task in stage.tasks), at_work),
    )


def _task(
    state: RunState,
    stage: Stage,
    task: Task,
    statuses: dict[str, TaskStatus],
    sign: AgentSign | None,
    now: float,
    at_work: AtWork,
) -> TaskView:
    row = state.tasks[task.id]
    running = row.status is TaskStatus.RUNNING
    need = need_of(state.row.run, row)
    obstacle = row.latest.report.blocked if running and row.latest.report is not None else ""
    spending = spending_of(row, at_work)
    return TaskView(
        id=task.id,
        stage=stage.id,
        status=statuses[task.id],
        attempts=row.attempt,
        agent=_agent(row) or agent_of(state.plan, task),
        merge_commit=row.merge_commit or None,
        progress=progress_of(row),
        error=_standing(row, need) or _blockers(state, task, statuses) or None,
        reported=reported_progress(row),
        liveness=liveness(row, sign, now) if running and sign is not None else None,
        activity=(row.latest.activity or None) if running else None,
        waiting_until=_waiting_until(state, row),
        waiting_for=_waiting_for(state, row, now),
        failure=row.failures[-1].kind if row.failures else None,
        tokens=spending.tokens,
        cost_usd=spending.cost_usd,
        spending=spending,
        spending_by_attempt=attempts_of(row, at_work),
        question=need.question if need else None,
        options=need.options if need else (),
        obstacle=obstacle or None,
        charged=row.charged,
        attempts_max=state.limits_of(task.id).attempts,
        closing_line_missing=bool(row.failures) and lacks_closing_line(row.failures[-1]),
    )


def _waiting_until(state: RunState, row: TaskRow) -> str | None:
    parked = state.row.parked.get(row.latest.provider)
    if parked is None or parked.answered or row.status is not TaskStatus.WAITING_LIMIT:
        return None
    return timestamp(parked.until)


def _waiting_for(state: RunState, row: TaskRow, now: float) -> str | None:
    """Return what a task waits for whose stage starts nothing new, or whose provider may be tried again by another task."""
    if (
        row.status is TaskStatus.PENDING
        and state.needs_met(row)
        and _is_stopped(state, state.stage_of[row.id])
    ):
        return "a decision about what failed in its stage"
    parked = state.row.parked.get(row.latest.provider)
    if parked is None or row.status is not TaskStatus.WAITING_LIMIT or parked.until > now:
        return None
    probe = probe_of(state, row.latest.provider)
    return f"the try of {probe}" if probe else "its next try, which is due"


def _is_stopped(state: RunState, stage: str) -> bool:
    """Tell whether an abandoned task keeps the other tasks of its stage from starting."""
    is_open = state.stage(stage).status is StageStatus.RUNNING
    return is_open and state.abandoned[stage] > 0 and not state.plan.limits.keep_going


def _standing(row: TaskRow, need: NeedOfTask | None) -> str:
    """Return what a task waits for, else what became of it last. What a person gave since leaves its failure behind."""
    if need is not None:
        return need.words
    is_given = row.status is TaskStatus.BLOCKED and row.taken is not None and row.taken.given
    return f"is {taken_words(row)}" if is_given else row.error


def _blockers(state: RunState, task: Task, statuses: dict[str, TaskStatus]) -> str:
    """Say why a blocked task can never start: the needs that will not land by themselves."""
    if statuses[task.id] is not TaskStatus.BLOCKED:
        return ""
    stuck = (TaskStatus.ABANDONED, TaskStatus.BLOCKED)
    needs = [need for need in state.specs[task.id].needs if statuses[need] in stuck]
    return f"waits for {', '.join(needs)}" if needs else ""


def _metrics(
    state: RunState, statuses: dict[str, TaskStatus], elapsed_s: float, at_work: AtWork
) -> MetricsView:
    counts = Counter(statuses.values())
    rows = state.tasks.values()
    spending = spending_of_tasks(rows, at_work)
    return MetricsView(
        tasks=len(statuses),
        completed=counts[TaskStatus.COMPLETED],
        failed=counts[TaskStatus.FAILED] + counts[TaskStatus.ABANDONED],
        attempts=sum(row.attempt for row in rows),
        redone=sum(row.wasted for row in rows),
        commits=sum(len(row.commits) for row in rows),
        elapsed_s=round(max(0.0, elapsed_s), 3),
        tokens=spending.tokens,
        cost_usd=spending.cost_usd,
        spending=spending,
    )
