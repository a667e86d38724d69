"""Older releases: a swarm's state with tasks and phases, and the checkpoints of waves of containers."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.formats.cfn.facts import claim_of
from holdfast.formats.cfn.sheet import Sheet
from holdfast.formats.cfn.sprint import task_of
from holdfast.formats.drafts import StageDraft, TaskDraft
from holdfast.formats.loose import Node, count, first, node, nodes, text, texts


def read_swarm(root: Node) -> Sheet:
    """Return the sheet of a swarm: its tasks, in its phases where they list tasks."""
    goal = node(root.get("objective"))
    phases = nodes(root.get("phases"))
    home = {task: text(phase.get("id")) for phase in phases for task in texts(phase.get("tasks"))}
    tasks = nodes(root.get("tasks"))
    names = [
        text(first(task, "id", "taskId", "title")) or f"task-{place}" for place, task in enumerate(tasks, 1)
    ]
    leveled = not all(name in home for name in names)
    sheet = Sheet(
        name=text(first(root, "swarmId", "id")) or "swarm",
        title=text(first(goal, "description", "title")) or text(root.get("objective")),
        status=text(node(root.get("metadata")).get("status")) or text(root.get("status")),
        stages=[StageDraft(native=text(phase.get("id")), title=text(phase.get("name"))) for phase in phases],
        leveled=leveled,
    )
    for name, entry in zip(names, tasks, strict=True):
        needs = texts(first(entry, "dependencies", "depends_on"))
        task = replace(task_of(entry, node(root.get("consensus"))), needs=needs)
        stage = "" if leveled else home[name]
        sheet.drafts.append(TaskDraft(native=name, stage=stage, task=task, claim=claim_of(name, entry)))
        sheet.nodes.append(entry)
    return sheet


def read_waves(checkpoints: dict[str, Node]) -> Sheet:
    """Return the sheet of wave checkpoints: each wave of a task is a piece of work, after the wave before it."""
    sheet = Sheet(name=_task_of(*next(iter(checkpoints.items()))), leveled=True)
    waves = sorted(checkpoints.items(), key=lambda item: (_task_of(*item), count(item[1].get("wave_number"))))
    before: dict[str, str] = {}
    for key, wave in waves:
        task = _task_of(key, wave)
        number = count(wave.get("wave_number")) or key.rsplit(":", 1)[-1]
        name = f"{task}-wave-{number}"
        containers = ", ".join(texts(wave.get("container_ids")))
        prompt = f"Do wave {number} of task {task}." + (
            f" Its containers were: {containers}." if containers else ""
        )
        needs = (before[task],) if task in before else ()
        spec = Task(id="", title=f"Wave {number} of {task}", prompt=prompt, needs=needs)
        sheet.drafts.append(TaskDraft(native=name, stage="", task=spec, claim=claim_of(name, wave)))
        sheet.nodes.append(wave)
        before[task] = name
    return sheet


def read_wave(root: Node) -> Sheet:
    """Return the sheet of one wave checkpoint in a file of its own."""
    return read_waves({f"{text(root.get('task_id')) or 'task'}:{count(root.get('wave_number'))}": root})


def _task_of(key: str, wave: Node) -> str:
    return text(wave.get("task_id")) or key.rsplit(":", 1)[0]
