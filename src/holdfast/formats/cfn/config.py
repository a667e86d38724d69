"""A plan of ours as an epic file of CFN Loop's own kind, so that an export can be carried on without anything else."""

from __future__ import annotations

from holdfast.core.plan import Plan, Task, Validator
from holdfast.formats import notes
from holdfast.formats.cfn.epic import read_epic
from holdfast.formats.cfn.read import put_together
from holdfast.formats.loose import Node


def config_of(plan: Plan, epic: str) -> Node:
    """Return the epic file, with notes where its words are not enough to read the same plan back."""
    document: Node = {
        "epicId": epic,
        "name": plan.goal,
        "phases": [
            {
                "phaseId": stage.id,
                "name": stage.title or stage.id,
                "dependencies": list(stage.needs),
                "sprints": [_sprint(task) for task in stage.tasks],
            }
            for stage in plan.stages
        ],
        "resource_limits": {"max_parallel_sprints": plan.limits.jobs},
    }
    read = put_together(read_epic(document)).plan
    tasks = {task.id: task for _, task in read.tasks()}
    stages = {stage.id: stage for stage in read.stages}
    for phase, stage in zip(document["phases"], plan.stages, strict=True):
        if stage.id in stages:
            phase |= _note(notes.about_stage(stages[stage.id], stage))
        for sprint, task in zip(phase["sprints"], stage.tasks, strict=True):
            sprint |= _note(notes.about_task(tasks[task.id], task))
    return document | _note(notes.about_plan(read, plan))


def _note(note: Node) -> Node:
    return {notes.KEY: note} if note else {}


def _sprint(task: Task) -> Node:
    said = {
        "name": task.title,
        "description": task.prompt,
        "run": list(task.run),
        "dependencies": [
            *task.needs,
            *({"sprint": need, "type": "interface"} for need in task.needs_interface),
        ],
        "acceptanceCriteria": list(task.acceptance),
        "deliverables": list(task.files),
        "testCommands": list(task.verify),
        "validators": [_validator(judge) for judge in task.validators],
    }
    kept = {key: value for key, value in said.items() if value}
    return {"sprintId": task.id, **kept, "confidenceThreshold": task.gate}


def _validator(judge: Validator) -> Node:
    return {"id": judge.id, **({"run": list(judge.run)} if judge.run else {"prompt": judge.prompt})}
