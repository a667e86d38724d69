"""Expands a workflow and its inputs into an ordinary plan: decides conditions, fills in placeholders, repeats parts.

A problem of the resulting plan is reported at the line of the workflow file that it comes from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from holdfast.core.plan import Plan, Stage, Task
from holdfast.core.plan_rules import Where
from holdfast.plans.problems import Problem, problems_error
from holdfast.plans.reader import build_plan
from holdfast.plans.schema import VERSION
from holdfast.plans.yaml_json import mark_lines
from holdfast.workflows.expressions import (
    TASK_QUESTIONS,
    PlaceholderValue,
    condition_holds,
    fill,
    is_empty_when_filled,
    only_value,
    stage_values,
    task_values,
)
from holdfast.workflows.model import Workflow, WorkflowError, WorkflowInputs, workflow_error
from holdfast.workflows.reader import LITERAL_KEYS

_PARAGRAPHS = ("goal", "title", "prompt")
"""Keys whose text may be written as a list of paragraphs, each with its own condition."""
_NOT_IN_PLAN = ("when", "each")

PlaceholderValues = Mapping[str, PlaceholderValue]


def expand(
    workflow: Workflow, inputs: WorkflowInputs, known_agents: Collection[str], agent: str = ""
) -> Plan:
    """Return the plan of a workflow for these inputs. Raise PlanError, with the lines, if it is not valid."""
    expansion = _Expansion(workflow, inputs)
    value = expansion.plan()
    if not value["stages"]:
        raise WorkflowError(
            f"{workflow.name}: nothing is left to do", "turn a flag on, or check the document"
        )
    plan, problems = build_plan(value | ({"agent": agent} if agent else {}), known_agents)
    if plan is None or problems.found:
        found = [expansion.traced(problem) for problem in problems.found]
        raise workflow_error(
            problems_error(workflow.source, found, mark_lines(workflow.source)), workflow.source.name
        )
    return plan


class _Expansion:
    """One expansion. `_origins` maps each part of the plan to the part of the file that it comes from."""

    def __init__(self, workflow: Workflow, inputs: WorkflowInputs) -> None:
        self._body = workflow.body
        self._inputs = inputs
        self._stages_left_out: set[str] = set()
        self._tasks_left_out: set[str] = set()
        self._origins: dict[Where, Where] = {}
        self._names: dict[Where, str] = {}

    def plan(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        base = self._document_values()
        value: dict[str, Any] = {VERSION.key: VERSION.number}
        for key, part in self._body.items():
            if key != "stages":
                value |= {key: part} if key in LITERAL_KEYS else self._keys({key: part}, base)
        value["stages"] = self._without_left_out(list(self._stages(base)))
        return value

    def traced(self, problem: Problem) -> Problem:
        """Return a problem of the plan as one of the workflow file."""
        at = problem.at
        while at and at not in self._origins:
            at = at[:-1]
        named = self._names.get(at, "")
        what = f"{problem.what} (made for {named})" if named else problem.what
        return Problem((*self._origins.get(at, ()), *problem.at[len(at) :]), what)

    def _document_values(self) -> dict[str, PlaceholderValue]:
        inputs = self._inputs
        values: dict[str, PlaceholderValue] = {**inputs.values, "description": inputs.text}
        if inputs.document is not None:
            stages = tuple(stage.id for stage in inputs.document.plan.stages if stage.tasks)
            values |= {"goal": inputs.document.plan.goal, "name": inputs.document.name, "stages": stages}
            values |= {"path": inputs.text, "specification": inputs.document.specification}
        return values

    def _stages(self, base: PlaceholderValues) -> Iterator[dict[str, Any]]:
        count = 0
        for index, template in enumerate(self._body["stages"]):
            origin: Where = ("stages", index)
            for stage, scope in self._stage_scopes(template, base):
                place: Where = ("stages", count)
                tasks = list(self._tasks(template["tasks"], stage, scope, place, origin))
                row = self._keys({key: part for key, part in template.items() if key != "tasks"}, scope)
                if not tasks or not self._is_wanted(template, scope):
                    self._stages_left_out.add(str(row.get("id", "")))
                    continue
                self._note(place, origin, stage)
                yield row | {"tasks": tasks}
                count += 1

    def _stage_scopes(
        self, template: dict[str, Any], base: PlaceholderValues
    ) -> Iterator[tuple[Stage | None, PlaceholderValues]]:
        document = self._inputs.document
        if template.get("each") is None or document is None:
            yield None, base
            return
        for number, stage in enumerate(document.plan.stages, 1):
            yield stage, {**base, **stage_values(stage, number)}

    def _tasks(
        self, templates: list[Any], stage: Stage | None, scope: PlaceholderValues, place: Where, origin: Where
    ) -> Iterator[dict[str, Any]]:
        count = 0
        for index, template in enumerate(templates):
            for task, inner in self._task_scopes(template, stage, scope):
                row = self._keys(template, inner)
                if not self._is_wanted(template, inner):
                    self._tasks_left_out.add(str(row.get("id", "")))
                    continue
                self._note((*place, "tasks", count), (*origin, "tasks", index), task)
                yield row
                count += 1

    def _task_scopes(
        self, template: dict[str, Any], stage: Stage | None, scope: PlaceholderValues
    ) -> Iterator[tuple[Task | None, PlaceholderValues]]:
        """Yield the tasks of the current stage, or of the whole document, each with its values."""
        document = self._inputs.document
        if template.get("each") is None or document is None:
            yield None, scope
            return
        stages = [stage] if stage is not None else document.plan.stages
        tasks = [(number, part, task) for number, part in enumerate(stages, 1) for task in part.tasks]
        for place, (number, part, task) in enumerate(tasks, 1):
            yield task, {**stage_values(part, number), **scope, **task_values(task, place)}

    def _note(self, place: Where, origin: Where, item: Stage | Task | None) -> None:
        self._origins[place] = origin
        self._names[place] = item.id if item is not None else ""

    def _is_wanted(self, part: Mapping[str, Any], scope: PlaceholderValues) -> bool:
        asked = {name: bool(scope[name]) for name in TASK_QUESTIONS if name in scope}
        return "when" not in part or condition_holds(part["when"], {**self._inputs.flags, **asked})

    def _keys(self, part: Mapping[str, Any], scope: PlaceholderValues) -> dict[str, Any]:
        """Fill in a mapping. A key whose text becomes empty is left out."""
        filled = {
            key: self._filled(key, value, scope) for key, value in part.items() if key not in _NOT_IN_PLAN
        }
        return {key: value for key, value in filled.items() if value != ""}

    def _filled(self, key: str, value: Any, scope: PlaceholderValues) -> Any:
        if isinstance(value, str):
            whole = only_value(value, scope)
            return fill(value, scope) if whole is None else whole
        if isinstance(value, dict):
            return self._keys(value, scope)
        if isinstance(value, list):
            entries = list(self._entries(key, value, scope))
            return "\n\n".join(map(str, entries)) if key in _PARAGRAPHS else entries
        return value

    def _entries(self, key: str, values: list[Any], scope: PlaceholderValues) -> Iterator[Any]:
        """Fill in a list.

        Entries that do not apply are left out; a placeholder for a list becomes its entries.
        """
        for value in values:
            if isinstance(value, dict) and not self._is_wanted(value, scope):
                continue
            text = value["text"] if isinstance(value, dict) and set(value) == {"when", "text"} else value
            if isinstance(text, str) and is_empty_when_filled(text, scope):
                continue
            filled = self._filled(key, text, scope)
            if isinstance(filled, list) and isinstance(text, str):
                yield from filled
            else:
                yield filled

    def _without_left_out(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the stages without needs of parts that were left out.

        A left-out id may still exist: a part can be written twice, for two conditions.
        """
        stages = self._stages_left_out - {str(row.get("id")) for row in rows}
        tasks = self._tasks_left_out - {str(task.get("id")) for row in rows for task in row["tasks"]}
        return [
            _trimmed(row, stages) | {"tasks": [_trimmed(task, tasks) for task in row["tasks"]]}
            for row in rows
        ]


def _trimmed(part: dict[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    keys = [key for key in ("needs", "needs_interface") if isinstance(part.get(key), list)]
    return part | {key: [need for need in part[key] if need not in left_out] for key in keys}
