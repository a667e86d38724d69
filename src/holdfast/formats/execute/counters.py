"""What an Execute state counts: layers, the merge queue, the lists of tasks, and metrics under either of two names."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.core.plan import Stage
from holdfast.core.projection import StageRow
from holdfast.core.status import TASK_IS_SETTLED, StageStatus, TaskStatus
from holdfast.core.waves import waves
from holdfast.formats.execute.entries import restated
from holdfast.formats.execute.roster import layer_name
from holdfast.formats.loose import Node, count, items, node, nodes, text
from holdfast.formats.model import RunView, Standing, Times
from holdfast.formats.rows import row_of
from holdfast.formats.stamps import stamp

_LAYER_WORDS = {
    StageStatus.PENDING: ("pending", Standing.PENDING),
    StageStatus.OPENING: ("in_progress", Standing.RUNNING),
    StageStatus.RUNNING: ("in_progress", Standing.RUNNING),
    StageStatus.CLOSING: ("in_progress", Standing.RUNNING),
    StageStatus.COMPLETED: ("completed", Standing.DONE),
    StageStatus.BLOCKED: ("blocked", Standing.BLOCKED),
}
_QUEUE_WORDS = {
    TaskStatus.RUNNING: "pending",
    TaskStatus.VERIFYING: "pending",
    TaskStatus.VERIFIED: "ready",
    TaskStatus.MERGING: "merging",
    TaskStatus.COMPLETED: "merged",
}
_GIVEN_UP = (TaskStatus.FAILED, TaskStatus.ABANDONED)

Names = Mapping[str, str]
"""Native names by our ids."""


def _statuses(view: RunView, stage: Stage | None = None) -> list[TaskStatus]:
    tasks = stage.tasks if stage else [task for _, task in view.plan.tasks()]
    return [row_of(view, task.id).status for task in tasks]


def layers(view: RunView, names: Names, before: object) -> object:
    """Return the layers with their counters, as an object or as a list, as they were before."""
    if isinstance(before, list):
        known = {layer_name(layer): layer for layer in nodes(before)}
        ours = {
            names[stage.id]: _layer(view, stage, known.get(names[stage.id], {})) for stage in view.plan.stages
        }
        kept = [ours.pop(layer_name(node(layer)), layer) for layer in before]
        return kept + [{"id": name, **layer} for name, layer in ours.items()]
    old = node(before)
    return {
        **old,
        **{
            names[stage.id]: _layer(view, stage, node(old.get(names[stage.id]))) for stage in view.plan.stages
        },
    }


def _layer(view: RunView, stage: Stage, before: Node) -> Node:
    statuses = _statuses(view, stage)
    times = view.stage_times.get(stage.id, Times())
    word, standing = _LAYER_WORDS[_stage_status(view, stage)]
    done = statuses.count(TaskStatus.COMPLETED)
    counters = {"total": len(statuses), "merged": done}
    if not counters.keys() & before.keys():
        failed = sum(status in _GIVEN_UP for status in statuses)
        counters = {"tasks_total": len(statuses), "tasks_completed": done, "tasks_failed": failed}
    return {
        **before,
        "status": restated(text(before.get("status")), standing, word),
        **counters,
        "started_at": stamp(times.started) or before.get("started_at"),
        "completed_at": stamp(times.ended) or before.get("completed_at"),
    }


def _stage_status(view: RunView, stage: Stage) -> StageStatus:
    """Return where a stage stands; one whose tasks were all done elsewhere is, though it never opened here."""
    status = view.row.stages.get(stage.id, StageRow(id=stage.id)).status
    settled = all(status in TASK_IS_SETTLED for status in _statuses(view, stage))
    return StageStatus.COMPLETED if status is StageStatus.PENDING and settled else status


def merge_queue(view: RunView, names: Names, before: object) -> list[object]:
    """Return the queue by completion order. Entries that were there keep their place, also for unknown tasks."""
    ids = {native: task for task, native in names.items()}
    kept: list[object] = [_requeued(view, ids, entry) for entry in items(before)]
    present = {text(node(entry).get("task_id")) for entry in kept}
    last = max([count(node(entry).get("priority")) for entry in kept] + [len(kept)])
    queued = [row for _, task in view.plan.tasks() if (row := row_of(view, task.id)).status in _QUEUE_WORDS]
    queued.sort(key=lambda row: row.queued or len(view.tasks) + view.row.queued + 1)
    fresh = [row for row in queued if names[row.id] not in present]
    return kept + [
        {"task_id": names[row.id], "priority": place, "status": _QUEUE_WORDS[row.status]}
        for place, row in enumerate(fresh, last + 1)
    ]


def _requeued(view: RunView, ids: Names, entry: object) -> object:
    task = ids.get(text(node(entry).get("task_id")), "")
    word = _QUEUE_WORDS.get(row_of(view, task).status) if task else None
    return {**node(entry), "status": word} if word else entry


def lists(view: RunView, names: Names) -> Node:
    """Return the tasks that are done, failed and given up, by native name."""
    rows = [row_of(view, task.id) for _, task in view.plan.tasks()]
    return {
        key: [names[row.id] for row in rows if row.status is status]
        for key, status in (
            ("completed", TaskStatus.COMPLETED),
            ("failed", TaskStatus.FAILED),
            ("abandoned", TaskStatus.ABANDONED),
        )
    }


def metrics(view: RunView, before: object) -> Node:
    """Return the metrics: under the names that were there before, under all documented ones if there were none."""
    now = {key: measure(view) for key, measure in _METRICS.items()}
    old = node(before)
    return {**old, **{key: value for key, value in now.items() if key in old or not old}}


def _attempts(view: RunView) -> int:
    return sum(row.attempt for row in view.tasks.values())


def _counted(*wanted: TaskStatus) -> Callable[[RunView], float]:
    return lambda view: sum(status in wanted for status in _statuses(view))


def _elapsed(view: RunView) -> float:
    return round(max(view.updated - view.started, 0.0))


_METRICS: dict[str, Callable[[RunView], float]] = {
    "total_tasks": lambda view: len(_statuses(view)),
    "completed_tasks": _counted(TaskStatus.COMPLETED),
    "failed_tasks": _counted(*_GIVEN_UP),
    "total_attempts": _attempts,
    "total_commits": lambda view: sum(len(row.commits) for row in view.tasks.values()),
    "elapsed_time_seconds": _elapsed,
    "tasks_total": lambda view: len(_statuses(view)),
    "tasks_completed": _counted(TaskStatus.COMPLETED),
    "tasks_failed": _counted(TaskStatus.FAILED),
    "tasks_abandoned": _counted(TaskStatus.ABANDONED),
    "tasks_remaining": lambda view: sum(status not in TASK_IS_SETTLED for status in _statuses(view)),
    "total_retries": lambda view: sum(max(row.attempt - 1, 0) for row in view.tasks.values()),
    "elapsed_seconds": _elapsed,
}


def current(view: RunView, names: Names) -> Node:
    """Return the layer and the batch that are being worked on: the first that hold something unfinished."""
    for stage in waves(view.plan):
        for number, batch in enumerate(stage.batches, 1):
            if any(row_of(view, task.id).status not in TASK_IS_SETTLED for task in batch):
                return {"current_layer": names[stage.stage.id], "current_batch": number}
    return {"current_layer": None, "current_batch": None}
