"""The small language inside a workflow's texts: `when:` conditions and `{placeholders}`.

A condition is flags with `not`, `and`, `or`; `and` binds closer, and there are no parentheses. A placeholder
is a name in braces that does not follow a `$`, so JSON and shell in a prompt stay as they are; `{{name}}` is
`{name}` itself. A filled-in value is never expanded again: a description with braces stays as its author
wrote it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from holdfast.core.plan import Stage, Task
from holdfast.errors import did_you_mean, quoted

Entry = str | Mapping[str, Any]
PlaceholderValue = str | float | tuple[Entry, ...]
"""A text, a number, or a list of texts or of parts of a plan."""

_ESCAPED_OR_NAME = re.compile(r"\{\{([A-Za-z][\w.-]*)\}\}|(?<!\$)\{([A-Za-z][\w.-]*)\}")
_FLAG = re.compile(r"(not\s+)?([A-Za-z0-9][\w.-]*)")
_WORDS = ("and", "or", "not")

TASK_QUESTIONS = ("task.validators",)
"""What a condition may ask about a task of the document: whether it has any of these."""


def condition_fault(text: str, flags: Collection[str]) -> str:
    """Return what is wrong with a condition; empty if it is valid."""
    for part in re.split(r"\s+(?:and|or)\s+", text.strip()):
        found = _FLAG.fullmatch(part.strip())
        if found is None or found[2] in _WORDS:
            return f"{quoted(text)} is not a condition; write flags with `not`, `and`, `or`, such as `tests and not docker`"
        if found[2] not in flags:
            return f"there is no flag {quoted(found[2])} under `flags:`{did_you_mean(found[2], flags)}"
    return ""


def condition_holds(text: str, flags: Mapping[str, bool]) -> bool:
    """Tell whether a condition that `condition_fault` accepted holds."""
    return any(
        all(_flag_holds(part, flags) for part in re.split(r"\s+and\s+", side))
        for side in re.split(r"\s+or\s+", text.strip())
    )


def _flag_holds(text: str, flags: Mapping[str, bool]) -> bool:
    words = text.split()
    return flags[words[-1]] is (len(words) == 1)


def names_in(text: str) -> list[str]:
    """Return the placeholders of a text, in order."""
    return [found[2] for found in _ESCAPED_OR_NAME.finditer(text) if found[2]]


def fill(text: str, values: Mapping[str, PlaceholderValue]) -> str:
    """Return a text with its placeholders filled in. A list is written with commas."""

    def value_of(found: re.Match[str]) -> str:
        if found[1]:
            return "{" + found[1] + "}"
        value = values[found[2]]
        return ", ".join(map(_word, value)) if isinstance(value, tuple) else str(value)

    return _ESCAPED_OR_NAME.sub(value_of, text)


def only_value(text: str, values: Mapping[str, PlaceholderValue]) -> float | list[Entry] | None:
    """Return the number or list that a text stands for, if it is one placeholder and nothing else."""
    found = _ESCAPED_OR_NAME.fullmatch(text.strip())
    value = values.get(found[2]) if found and found[2] else None
    if isinstance(value, tuple):
        return list(value)
    return value if isinstance(value, float) else None


def is_empty_when_filled(text: str, values: Mapping[str, PlaceholderValue]) -> bool:
    """Tell whether a text has placeholders and all of them are empty: then the text is left out."""
    names = names_in(text)
    return bool(names) and not any(values[name] for name in names)


def stage_values(stage: Stage, number: int) -> dict[str, PlaceholderValue]:
    """Return what the placeholders of a document's stage stand for."""
    return {
        "stage.id": stage.id,
        "stage.title": stage.title or stage.id,
        "stage.number": str(number),
        "stage.needs": stage.needs,
        "stage.entry": stage.entry,
        "stage.exit": stage.exit,
    }


def task_values(task: Task, number: int) -> dict[str, PlaceholderValue]:
    """Return what the placeholders of a document's task stand for."""
    return {
        "task.id": task.id,
        "task.title": task.title or task.id,
        "task.prompt": task.prompt or _command(task) or task.title,
        "task.number": str(number),
        "task.needs": task.needs + task.needs_interface,
        "task.files": task.files,
        "task.verify": task.verify,
        "task.acceptance": task.acceptance,
        "task.agent": task.agent,
        "task.validators": tuple(msgspec.to_builtins(one) for one in task.validators),
        "task.gate": task.gate,
    }


def _word(entry: Entry) -> str:
    return entry if isinstance(entry, str) else str(entry["id"])


def _command(task: Task) -> str:
    return f"Run this command: {shlex.join(task.run)}" if task.run else ""


STAGE_NAMES = tuple(stage_values(Stage(id=""), 0))
TASK_NAMES = tuple(task_values(Task(id=""), 0))
