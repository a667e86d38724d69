"""The keys of a workflow file. Turns its bytes into a `Workflow`, or into one error that names every problem.

Keys, conditions and placeholders are checked here, before there are inputs. The inner plan has the keys of
any plan; their values are checked after the expansion.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, get_args

from holdfast.core.ids import ID_PATTERN
from holdfast.core.plan_rules import Where
from holdfast.errors import PlanError, did_you_mean, quoted
from holdfast.plans.field_types import (
    BOOLEAN,
    Field,
    FormatVersion,
    RecordType,
    choice,
    list_of,
    map_of,
    scalar,
    text,
    texts,
)
from holdfast.plans.problems import Problems, problems_error
from holdfast.plans.reader import load_mapping
from holdfast.plans.schema import PLAN, STAGE, TASK
from holdfast.plans.yaml_json import mark_lines
from holdfast.workflows.expressions import STAGE_NAMES, TASK_NAMES, TASK_QUESTIONS, condition_fault, names_in
from holdfast.workflows.model import (
    InputKind,
    InputSpec,
    Workflow,
    WorkflowSetting,
    workflow_error,
)

VERSION = FormatVersion("workflow", "workflow", 1)
_NAME = text(ID_PATTERN)
_DEFERRED = scalar({}, lambda value: "has no value; write one, or remove the key" if value is None else "")
"""A value of the plan inside. It can be checked only when its placeholders are filled in."""


def _deferred(record: RecordType, **own: Field) -> Mapping[str, Field]:
    """Return a record's keys with deferred values; `own` keys are added or replace them."""
    return {
        **{
            key: Field(_DEFERRED, field.help, required=field.required) for key, field in record.fields.items()
        },
        **own,
    }


_WHEN = Field(text(), "Flags with `not`, `and`, `or`; the part is left out when they do not hold.")

INPUT = RecordType(
    "input",
    {
        "kind": Field(choice(get_args(InputKind)), "description, document or none.", required=True),
        "help": Field(text(), "What the input is, for people."),
        "readers": Field(texts(single=True), "The formats that a document may have."),
        "planned": Field(BOOLEAN, "Whether a planner agent plans a specification that has no plan yet."),
    },
)

FLAG = RecordType(
    "flag",
    {
        "default": Field(BOOLEAN, "Whether the flag is on unless the user says otherwise.", required=True),
        "help": Field(text(), "What the flag does, for people."),
    },
)

VALUE = RecordType(
    "value",
    {
        "default": Field(text(empty=True), "The text unless the user gives another.", required=True),
        "help": Field(text(), "What the value is for, for people."),
    },
)

TASK_TEMPLATE = RecordType(
    "task",
    _deferred(
        TASK,
        when=_WHEN,
        each=Field(choice(("tasks",)), "Make one of these for every task of the document, or of its stage."),
    ),
    one_of=TASK.one_of,
)

STAGE_TEMPLATE = RecordType(
    "stage",
    _deferred(
        STAGE,
        when=_WHEN,
        each=Field(choice(("stages",)), "Make one of these for every stage of the document."),
        tasks=Field(list_of(TASK_TEMPLATE), "The tasks of the stage.", required=True),
    ),
)

_HEAD = {
    "workflow": Field(VERSION.type, f"The workflow format: `workflow: {VERSION.number}`.", required=True),
    "name": Field(_NAME, "The name of the workflow.", required=True),
    "about": Field(text(), "What it is for, in a sentence.", required=True),
    "input": Field(INPUT, "What the user gives.", required=True),
    "flags": Field(map_of(FLAG.ref, "{NAME: {default: true}}"), "Switches that parts depend on."),
    "values": Field(map_of(VALUE.ref, "{NAME: {default: text}}"), "Texts that placeholders stand for."),
}

WORKFLOW = RecordType(
    "workflow",
    {
        **_HEAD,
        **{key: field for key, field in _deferred(PLAN).items() if key not in ("holdfast", "tasks")},
        "stages": Field(list_of(STAGE_TEMPLATE), "The stages, in order.", required=True),
    },
)

PLAN_KEYS = tuple(key for key in WORKFLOW.fields if key not in _HEAD)
LITERAL_KEYS = ("agents", "notify")
"""Keys whose texts have placeholders of an agent, not of a workflow."""


_BY_KIND = {
    "description": ("description",),
    "document": ("goal", "name", "path", "stages", "specification"),
    "none": (),
}


def parse_workflow(data: bytes, name: str, known_readers: Collection[str]) -> Workflow:
    """Read and check a workflow's bytes. `name` appears in errors and decides the syntax, as with plans."""
    try:
        return _parse(data, name, known_readers)
    except PlanError as error:
        raise workflow_error(error, name) from None


def _parse(data: bytes, name: str, known_readers: Collection[str]) -> Workflow:
    source, value, has_duplicates = load_mapping(data, name, VERSION)
    problems = Problems()
    head = WORKFLOW.read(value, (), problems) or {}
    if not problems.found:
        _check_texts(value, head, known_readers, problems)
    if problems.found or has_duplicates:
        raise problems_error(source, problems.found, mark_lines(source))
    return Workflow(
        name=head["name"],
        about=head["about"],
        source=source,
        input=InputSpec(**head["input"]),
        flags={name: WorkflowSetting(**row) for name, row in head.get("flags", {}).items()},
        values={name: WorkflowSetting(**row) for name, row in head.get("values", {}).items()},
        body={key: value[key] for key in PLAN_KEYS if key in value},
    )


def _check_texts(
    value: dict[str, Any], head: dict[str, Any], known_readers: Collection[str], problems: Problems
) -> None:
    for reader in head["input"].get("readers", ()):
        if reader not in known_readers:
            fix = did_you_mean(reader, known_readers)
            problems.add(("input", "readers"), f"there is no reader {quoted(reader)}{fix}")
    flags = head.get("flags", {})
    known = {*_BY_KIND[head["input"]["kind"]], *head.get("values", {})}
    for at, key, words in _texts(value):
        if key == "when":
            fault = condition_fault(words, [*flags, *(_scope(value, at) & set(TASK_QUESTIONS))])
        elif key == "each":
            fault = "" if "stages" in known else "there is no document; see `input:`"
        else:
            fault = _unknown(words, known | _scope(value, at))
        if fault:
            problems.add(at, fault)


def _texts(value: dict[str, Any]) -> Iterator[tuple[Where, str, str]]:
    """Yield every text of the plan inside a workflow, with its place and its key."""
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
    """Return the names that exist only inside a part that is repeated for each stage or task of the document."""
    names: set[str] = set()
    part: Any = value
    for step in at:
        part = part[step]
        if isinstance(part, dict) and part.get("each") == "stages":
            names |= set(STAGE_NAMES)
        elif isinstance(part, dict) and part.get("each") == "tasks":
            names |= {*TASK_NAMES, *STAGE_NAMES}
    return names


def _unknown(text: str, known: Collection[str]) -> str:
    missing = next((name for name in names_in(text) if name not in known), None)
    if missing is None:
        return ""
    spelled = "{{" + missing + "}}"
    fix = did_you_mean(missing, known)
    return f"{{{missing}}} is not a placeholder here{fix}; {spelled} writes the braces themselves"
