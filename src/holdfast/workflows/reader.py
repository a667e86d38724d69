"""From the bytes of a workflow file to a `Workflow`, or to one error that names everything that is wrong with it.

What can be known without inputs is checked here: keys, conditions, placeholders. The rest is checked on the plan
that comes out of an expansion.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from holdfast.core.plan_rules import Where
from holdfast.core.wording import did_you_mean, shown
from holdfast.errors import PlanError
from holdfast.plans.document import load, locate
from holdfast.plans.problems import Problems, report
from holdfast.plans.shapes import kind_of
from holdfast.plans.source import Source, decode
from holdfast.workflows.conditions import condition_fault
from holdfast.workflows.fields import FORMAT, LITERAL_KEYS, PLAN_KEYS, WORKFLOW
from holdfast.workflows.model import Flag, Value, Wanted, Workflow, workflow_error
from holdfast.workflows.placeholders import STAGE_NAMES, TASK_NAMES, TASK_QUESTIONS, names_in

_BY_KIND = {
    "description": ("description",),
    "document": ("goal", "name", "path", "stages", "specification"),
    "none": (),
}


def parse_workflow(data: bytes, name: str, known_readers: Collection[str]) -> Workflow:
    """Read and check a workflow's bytes; `name` stands in errors and decides the syntax, as with plans."""
    try:
        return _parsed(data, name, known_readers)
    except PlanError as error:
        raise workflow_error(error, name) from None


def _parsed(data: bytes, name: str, known_readers: Collection[str]) -> Workflow:
    source = decode(data, name)
    value, has_duplicates = load(source)
    if not isinstance(value, dict):
        raise source.error(
            1, f"a workflow is a mapping that starts with `workflow: {FORMAT}`, not {kind_of(value)}"
        )
    problems = Problems()
    head = WORKFLOW.read(value, (), problems) or {}
    if not problems.found:
        _check_texts(value, head, known_readers, problems)
    if problems.found or has_duplicates:
        raise report(source, problems.found, locate(source))
    return _made(source, head, value)


def _made(source: Source, head: dict[str, Any], value: dict[str, Any]) -> Workflow:
    return Workflow(
        name=head["name"],
        about=head["about"],
        source=source,
        wanted=Wanted(**head["input"]),
        flags={name: Flag(**row) for name, row in head.get("flags", {}).items()},
        values={name: Value(**row) for name, row in head.get("values", {}).items()},
        body={key: value[key] for key in PLAN_KEYS if key in value},
    )


def _check_texts(
    value: dict[str, Any], head: dict[str, Any], known_readers: Collection[str], problems: Problems
) -> None:
    for reader in head["input"].get("readers", ()):
        if reader not in known_readers:
            fix = did_you_mean(reader, known_readers)
            problems.add(("input", "readers"), f"there is no reader {shown(reader)}{fix}")
    flags = head.get("flags", {})
    known = {*_BY_KIND[head["input"]["kind"]], *head.get("values", {})}
    for at, key, text in _texts(value):
        if key == "when":
            fault = condition_fault(text, [*flags, *_questions(value, at)])
        elif key == "each":
            fault = "" if "stages" in known else "there is no document to go through; see `input:`"
        else:
            fault = _unknown(text, known | _scope(value, at))
        if fault:
            problems.add(at, fault)


def _texts(value: dict[str, Any]) -> Iterator[tuple[Where, str, str]]:
    """Yield every text of the plan inside a workflow, with its place and the key it stands under."""
    waiting: list[tuple[Where, str, Any]] = [
        ((key,), key, value[key]) for key in PLAN_KEYS if key in value and key not in LITERAL_KEYS
    ]
    while waiting:
        at, key, part = waiting.pop(0)
        if isinstance(part, str):
            yield at, key, part
        elif isinstance(part, dict):
            waiting += [((*at, name), name, child) for name, child in part.items()]
        elif isinstance(part, list):
            waiting += [((*at, index), key, child) for index, child in enumerate(part)]


def _scope(value: dict[str, Any], at: Where) -> set[str]:
    """Return the names that only exist inside a part that is made for each stage or task of the document."""
    names: set[str] = set()
    part: Any = value
    for step in at:
        part = part[step]
        if isinstance(part, dict) and part.get("each") == "stages":
            names |= set(STAGE_NAMES)
        elif isinstance(part, dict) and part.get("each") == "tasks":
            names |= {*TASK_NAMES, *STAGE_NAMES}
    return names


def _questions(value: dict[str, Any], at: Where) -> set[str]:
    """Return what a condition at this place may ask beside flags."""
    return _scope(value, at) & set(TASK_QUESTIONS)


def _unknown(text: str, known: Collection[str]) -> str:
    missing = next((name for name in names_in(text) if name not in known), None)
    if missing is None:
        return ""
    spelled = "{{" + missing + "}}"
    fix = did_you_mean(missing, known)
    return f"{{{missing}}} is not a placeholder here{fix}; {spelled} writes the braces themselves"
