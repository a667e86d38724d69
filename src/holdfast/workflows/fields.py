"""Every key of a workflow file. The keys of the plan inside it are the plan's own; their values wait for expansion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from holdfast.core.ids import ID_PATTERN
from holdfast.core.plan_rules import Where
from holdfast.core.wording import shown
from holdfast.plans.fields import PLAN, STAGE, TASK
from holdfast.plans.problems import Problems
from holdfast.plans.records import Field, Named, Record, Rows
from holdfast.plans.shapes import Choice, Flag, Schema, Text, Texts
from holdfast.workflows.model import InputKind

FORMAT = 1
_NAME = Text(ID_PATTERN)


class Later:
    """A value of the plan: what it may be is known once its placeholders are filled in."""

    def read(self, value: Any, at: Where, problems: Problems) -> Any:
        """Return the value as it is; a missing one is a slip in any case."""
        if value is None:
            problems.add(at, "has no value; write one, or remove the key")
        return value

    def schema(self) -> Schema:
        """Describe nothing."""
        return {}


class Format:
    """The number that says which workflow format this is."""

    def read(self, value: Any, at: Where, problems: Problems) -> int | None:
        """Return the number; only ours can be read."""
        if type(value) is int and value == FORMAT:
            return value
        newer = type(value) is int and value > FORMAT
        said = shown(value) if isinstance(value, str) else "this"
        fix = "upgrade Holdfast" if newer else f"write `workflow: {FORMAT}`"
        problems.add(at, f"{said} is not a workflow format that this Holdfast reads; {fix}")
        return None

    def schema(self) -> Schema:
        """Describe the one format there is."""
        return {"const": FORMAT}


class Possible(Text):
    """A text that may be empty."""

    def read(self, value: Any, at: Where, problems: Problems) -> str | None:
        """Return the text."""
        return value if value == "" else super().read(value, at, problems)


def _later(record: Record, **own: Field) -> Mapping[str, Field]:
    """Return a record's keys with their values left for later, and `own` ones beside or in place of them."""
    return {
        **{key: Field(Later(), field.help, required=field.required) for key, field in record.fields.items()},
        **own,
    }


_WHEN = Field(Text(), "Flags with `not`, `and`, `or`; the part is left out when they do not hold.")

INPUT = Record(
    "input",
    {
        "kind": Field(Choice(get_args(InputKind)), "description, document or none.", required=True),
        "help": Field(Text(), "What the input is, for people."),
        "readers": Field(Texts(single=True), "The formats that a document may have."),
        "planned": Field(Flag(), "Whether a planner agent plans a specification that has no plan yet."),
    },
)

FLAG = Record(
    "flag",
    {
        "default": Field(Flag(), "Whether the flag is on unless the user says otherwise.", required=True),
        "help": Field(Text(), "What the flag does, for people."),
    },
)

VALUE = Record(
    "value",
    {
        "default": Field(Possible(), "The text unless the user gives another.", required=True),
        "help": Field(Text(), "What the value is for, for people."),
    },
)

TASK_TEMPLATE = Record(
    "task",
    _later(
        TASK,
        when=_WHEN,
        each=Field(Choice(("tasks",)), "Make one of these for every task of the document, or of its stage."),
    ),
    one_of=TASK.one_of,
)

STAGE_TEMPLATE = Record(
    "stage",
    _later(
        STAGE,
        when=_WHEN,
        each=Field(Choice(("stages",)), "Make one of these for every stage of the document."),
        tasks=Field(Rows(TASK_TEMPLATE), "The tasks of the stage.", required=True),
    ),
)

_HEAD = {
    "workflow": Field(Format(), f"The workflow format: `workflow: {FORMAT}`.", required=True),
    "name": Field(_NAME, "The name of the workflow.", required=True),
    "about": Field(Text(), "What it is for, in a sentence.", required=True),
    "input": Field(INPUT, "What the user gives.", required=True),
    "flags": Field(Named(FLAG), "Switches that parts depend on."),
    "values": Field(Named(VALUE), "Texts that placeholders stand for."),
}

WORKFLOW = Record(
    "workflow",
    {
        **_HEAD,
        **{key: field for key, field in _later(PLAN).items() if key not in ("holdfast", "tasks")},
        "stages": Field(Rows(STAGE_TEMPLATE), "The stages, in order.", required=True),
    },
)

PLAN_KEYS = tuple(key for key in WORKFLOW.fields if key not in _HEAD)
LITERAL_KEYS = ("agents", "notify")
"""Keys whose texts have placeholders of their own, which are an agent's and not a workflow's."""
