"""A workflow and the inputs that a user gives to start it, as data.

`reader.py` reads it, `expand.py` expands it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from holdfast.core.plan import Plan
from holdfast.errors import HoldfastError, PlanError, did_you_mean, quoted
from holdfast.plans.source import SourceText

_T = TypeVar("_T")
InputKind = Literal["description", "document", "none"]
"""A sentence with the request, a document with the tasks to do, or nothing at all."""


class WorkflowError(PlanError):
    """The workflow file is wrong; the message names file, line, field and fix."""


def workflow_error(error: PlanError, name: str) -> WorkflowError:
    """Return the error for a workflow file, with the command to check it again."""
    return WorkflowError(
        error.message, f"correct {name}, then look at it with `holdfast plan workflows {name}`"
    )


@dataclass(frozen=True, slots=True)
class InputSpec:
    """The one input of a workflow. `readers` are the formats that a document may have; with `planned`, a planner agent
    makes the plan where the document's folder has a specification but no plan."""

    kind: InputKind
    help: str = ""
    readers: tuple[str, ...] = ()
    planned: bool = False


@dataclass(frozen=True, slots=True)
class WorkflowSetting(Generic[_T]):
    """What a user may set: a flag that parts of the workflow depend on, or a text that a placeholder stands for."""

    default: _T
    help: str = ""


@dataclass(frozen=True, slots=True)
class Workflow:
    """One workflow. `body` is the plan with its conditions and placeholders still in it."""

    name: str
    about: str
    source: SourceText
    input: InputSpec
    flags: Mapping[str, WorkflowSetting[bool]]
    values: Mapping[str, WorkflowSetting[str]]
    body: dict[str, Any]

    def flags_chosen(self, on: Iterable[str], off: Iterable[str]) -> dict[str, bool]:
        """Return every flag with its state, or raise HoldfastError for an unknown one."""
        states = {name: flag.default for name, flag in self.flags.items()}
        for names, state in ((on, True), (off, False)):
            for name in names:
                self._require("flag", name, self.flags)
                states[name] = state
        return states

    def values_given(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return every value, the default where none is given. Raise HoldfastError for an unknown one."""
        for name in given:
            self._require("value", name, self.values)
        return {name: given.get(name, value.default) for name, value in self.values.items()}

    def _require(self, kind: str, name: str, known: Mapping[str, object]) -> None:
        if name not in known:
            raise HoldfastError(
                f"workflow {self.name} has no {kind} {quoted(name)}{did_you_mean(name, known)}",
                f"its {kind}s are: {', '.join(known) or 'none'}",
            )


@dataclass(frozen=True, slots=True)
class InputDocument:
    """A document with the work to do, as its format was read. `name` is its native name.

    `specification` is the text that describes the whole, if there is one.
    """

    name: str
    plan: Plan
    specification: str = ""


@dataclass(frozen=True, slots=True)
class WorkflowInputs:
    """Everything that a user gives. `text` is the description, or the path of the document."""

    text: str
    document: InputDocument | None = None
    flags: Mapping[str, bool] = field(default_factory=dict)
    values: Mapping[str, str] = field(default_factory=dict)
