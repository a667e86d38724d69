"""The plan as a picture: stages as columns, tasks as cards, what needs what as edges, and the longest path through it.

Places follow from the plan alone, so nothing moves while a run goes on. Only which path is the longest follows from times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Literal

import msgspec

from holdfast.core.plan import Plan, Stage, Task
from holdfast.core.state import RunState
from holdfast.core.status import TASK_IS_SETTLED, TaskStatus

CARD_WIDTH, CARD_HEIGHT = 208, 52
_BESIDE, _BELOW = 44, 12
"""The space between two cards."""
_PADDING, _HEAD = 16, 36
"""The space around the cards of a stage, and above them for its name."""
_STAGE_BESIDE, _STAGE_BELOW = 64, 28
_ROWS_MIN = 12
_DEEP_ABOVE = 6
"""A stage with more steps than this is filled column by column: a chain of forty is no picture forty cards wide."""
_SWEEPS = 2


class GraphStage(msgspec.Struct, frozen=True, kw_only=True):
    """The place of one stage, with the number of its tasks."""

    id: str
    x: int
    y: int
    width: int
    height: int
    tasks: int


class GraphNode(msgspec.Struct, frozen=True, kw_only=True):
    """The place of one task's card."""

    task: str
    title: str
    x: int
    y: int
    width: int = CARD_WIDTH
    height: int = CARD_HEIGHT


class GraphEdge(msgspec.Struct, frozen=True, kw_only=True):
    """What needs what: two tasks, or two stages where no edge between their tasks says it. `critical`: on the longest path."""

    source: str
    target: str
    critical: bool
    kind: Literal["needs", "stage"]


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """A plan in two dimensions. `critical` is the longest path by time, first task first."""

    width: int
    height: int
    stages: tuple[GraphStage, ...]
    nodes: tuple[GraphNode, ...]
    edges: tuple[GraphEdge, ...]
    critical: tuple[str, ...]


def plan_graph(state: RunState) -> Graph:
    """Return the picture of a run's plan. Every edge leads to the right, or down within a column of cards."""
    plan = state.plan
    columns = _columns(plan)
    stages, nodes = _placed(plan, columns)
    critical = _critical_path(state)
    return Graph(
        width=max((stage.x + stage.width for stage in stages), default=0),
        height=max((stage.y + stage.height for stage in stages), default=0),
        stages=stages,
        nodes=nodes,
        edges=tuple(_edges(plan, state.stage_of, critical)),
        critical=critical,
    )


def _needs(task: Task) -> tuple[str, ...]:
    """Return all that a task needs, each once: other tasks, or their interfaces."""
    return tuple(dict.fromkeys(task.needs + task.needs_interface))


# -- Columns of cards ---------------------------------------------------------------------------------------


def _columns(plan: Plan) -> dict[str, list[list[Task]]]:
    """Return the cards of each stage, column by column."""
    steps = {stage.id: _steps(stage) for stage in plan.stages}
    _untangle([step for stage in plan.stages for step in steps[stage.id]])
    return {stage.id: list(_wrapped(stage, steps[stage.id])) for stage in plan.stages}


def _steps(stage: Stage) -> list[list[Task]]:
    """Return the tasks of a stage step by step: what each of them needs is in an earlier step, or an earlier stage."""
    # Imported here because `status` loads reports and never draws plans.
    from graphlib import TopologicalSorter

    tasks = {task.id: task for task in stage.tasks}
    inside = {name: [need for need in _needs(task) if need in tasks] for name, task in tasks.items()}
    depths: dict[str, int] = {}
    for name in TopologicalSorter(inside).static_order():
        depths[name] = 1 + max((depths[need] for need in inside[name]), default=-1)
    steps: list[list[Task]] = [[] for _ in range(1 + max(depths.values(), default=-1))]
    for name, task in tasks.items():
        steps[depths[name]].append(task)
    return steps


def _untangle(steps: list[list[Task]]) -> None:
    """Order each step so that its edges cross little: each task at the mean height of its neighbours, there and back."""
    places = {task.id: place for step in steps for place, task in enumerate(step)}
    before = {task.id: _needs(task) for step in steps for task in step}
    after: dict[str, list[str]] = {name: [] for name in before}
    for name, needs in before.items():
        for need in needs:
            after[need].append(name)

    def sort(step: list[Task], neighbours: Mapping[str, Iterable[str]]) -> None:
        def height(task: Task) -> float:
            near = [places[name] for name in neighbours[task.id]]
            return sum(near) / len(near) if near else places[task.id]

        step.sort(key=height)
        places.update((task.id, place) for place, task in enumerate(step))

    for _ in range(_SWEEPS):
        for step in reversed(steps):
            sort(step, after)
        for step in steps:
            sort(step, before)


def _wrapped(stage: Stage, steps: list[list[Task]]) -> Iterator[list[Task]]:
    """Yield columns that are not too high. Each step begins a new one, unless there are too many steps for that."""
    rows = _rows(len(stage.tasks))
    if len(steps) > _DEEP_ABOVE:
        steps = [[task for step in steps for task in step]]
    for step in steps:
        for first in range(0, len(step), rows):
            yield step[first : first + rows]


def _rows(tasks: int) -> int:
    """Return how high a stage gets. It changes in large steps, so that another task moves nothing."""
    rows = _ROWS_MIN
    while 3 * tasks > 2 * rows * rows:
        rows *= 2
    return rows


# -- Places -------------------------------------------------------------------------------------------------


def _placed(
    plan: Plan, columns: Mapping[str, list[list[Task]]]
) -> tuple[tuple[GraphStage, ...], tuple[GraphNode, ...]]:
    """Return stages and cards with their places: a stage is right of those it builds on, below its contemporaries."""
    stages: dict[str, GraphStage] = {}
    nodes: dict[str, GraphNode] = {}
    x = 0
    for level in _levels(plan):
        y = 0
        for stage in level:
            placed = _stage_at(stage, columns[stage.id], x, y)
            stages[stage.id] = placed
            nodes.update((node.task, node) for node in _cards(placed, columns[stage.id]))
            y += placed.height + _STAGE_BELOW
        x += max(stages[stage.id].width for stage in level) + _STAGE_BESIDE
    return (
        tuple(stages[stage.id] for stage in plan.stages),
        tuple(nodes[task.id] for _, task in plan.tasks()),
    )


def _levels(plan: Plan) -> list[list[Stage]]:
    """Return the stages that may be worked on side by side, level by level. Needs lead to earlier stages of the plan."""
    home = {task.id: stage.id for stage, task in plan.tasks()}
    level: dict[str, int] = {}
    found: list[list[Stage]] = []
    for stage in plan.stages:
        below = {*stage.needs, *(home[need] for task in stage.tasks for need in _needs(task))} - {stage.id}
        level[stage.id] = 1 + max((level[name] for name in below), default=-1)
        found += [[]] if level[stage.id] == len(found) else []
        found[level[stage.id]].append(stage)
    return found


def _stage_at(stage: Stage, columns: list[list[Task]], x: int, y: int) -> GraphStage:
    beside, rows = max(len(columns), 1), max((len(column) for column in columns), default=1)
    return GraphStage(
        id=stage.id,
        x=x,
        y=y,
        width=2 * _PADDING + beside * (CARD_WIDTH + _BESIDE) - _BESIDE,
        height=_HEAD + _PADDING + rows * (CARD_HEIGHT + _BELOW) - _BELOW,
        tasks=len(stage.tasks),
    )


def _cards(stage: GraphStage, columns: list[list[Task]]) -> Iterator[GraphNode]:
    for column, tasks in enumerate(columns):
        for row, task in enumerate(tasks):
            yield GraphNode(
                task=task.id,
                title=task.title,
                x=stage.x + _PADDING + column * (CARD_WIDTH + _BESIDE),
                y=stage.y + _HEAD + row * (CARD_HEIGHT + _BELOW),
            )


# -- Edges and the longest path -----------------------------------------------------------------------------


def _edges(plan: Plan, home: Mapping[str, str], critical: tuple[str, ...]) -> Iterator[GraphEdge]:
    """Yield what needs what. A stage that waits for another gets an edge if none between their tasks says so."""
    steps = set(pairwise(critical))
    said: set[tuple[str, str]] = set()
    for _, task in plan.tasks():
        for need in _needs(task):
            said.add((home[need], home[task.id]))
            yield GraphEdge(source=need, target=task.id, critical=(need, task.id) in steps, kind="needs")
            steps.discard((need, task.id))
    waits = {(home[first], home[then]) for first, then in steps}
    for stage in plan.stages:
        for name in stage.needs:
            pair = (name, stage.id)
            if pair not in said or pair in waits:
                yield GraphEdge(source=name, target=stage.id, critical=pair in waits, kind="stage")


def _critical_path(state: RunState) -> tuple[str, ...]:
    """Return the tasks that keep the run the longest, one after the other. Of equal ones, the first in the plan."""
    seconds = _seconds(state)
    ends: dict[str, float] = {}
    before: dict[str, str] = {}
    last_of: dict[str, str] = {}
    for stage in state.plan.stages:
        barrier = _latest(ends, (last_of[need] for need in stage.needs if need in last_of))
        for step in _steps(stage):
            for task in step:
                waited_for = _latest(ends, (*_needs(task), *barrier))
                ends[task.id] = seconds[task.id] + max((ends[name] for name in waited_for), default=0.0)
                before.update((task.id, name) for name in waited_for)
        last = _latest(ends, (*(task.id for task in stage.tasks), *(() if stage.tasks else barrier)))
        last_of.update((stage.id, name) for name in last)
    path = list(_latest(ends, ends))
    while path and path[-1] in before:
        path.append(before[path[-1]])
    return tuple(reversed(path))


def _latest(ends: Mapping[str, float], names: Iterable[str]) -> tuple[str, ...]:
    """Return the task that ends last, if there is any; of equal ones, the first."""
    found = list(names)
    return (max(found, key=lambda name: ends[name]),) if found else ()


def _seconds(state: RunState) -> dict[str, float]:
    """Return how long each task takes: what was measured, else the mean of what was; never less than it took so far."""
    rows = state.tasks
    measured = [row.worked_s for row in rows.values() if row.status is TaskStatus.COMPLETED and row.worked_s]
    mean = sum(measured) / len(measured) if measured else 1.0
    return {
        name: row.worked_s if row.status in TASK_IS_SETTLED and row.worked_s else max(mean, row.worked_s)
        for name, row in rows.items()
    }
