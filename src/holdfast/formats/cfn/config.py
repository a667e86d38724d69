"""A plan of ours as an epic file of CFN Loop's own kind, so that an export can be carried on without anything else."""

from __future__ import annotations

from holdfast.core.plan import Task, Validator
from holdfast.formats import notes
from holdfast.formats.cfn.epic import read_epic
from holdfast.formats.cfn.read import put_together
from holdfast.formats.loose import Node
from holdfast.formats.model import RunView


def config_of(view: RunView, epic: str) -> Node:
    """Return the epic file, with notes where its words are not enough to read the same plan back."""
    plan = view.plan
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
    notes.add_to_plan(document, "phases", "sprints", notes.beyond(view, read))
    return document


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
