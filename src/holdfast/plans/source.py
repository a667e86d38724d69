"""The text of a plan or workflow file, and the plain values and line marks that a parser builds from it.

Everything is bounded: size, depth, and what aliases expand to. Nothing here knows YAML, JSON or the keys of a plan.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from holdfast.core.plan_rules import Where
from holdfast.errors import PlanError

MAX_SIZE = 16 * 1024 * 1024
"""Characters of a plan, aliases counted as often as they are used. Ten thousand tasks take about two million."""

MAX_DEPTH = 64
"""Levels of nesting; a valid plan has seven."""

_MERGE = "<<"
# The weight of a value besides its characters, so that a bomb of empty values is bounded too.
_VALUE_WEIGHT = 8


@dataclass(frozen=True, slots=True)
class SourceText:
    """One plan file's text."""

    name: str
    text: str

    @property
    def is_json(self) -> bool:
        """Whether the name says JSON. Everything else is read as YAML."""
        return self.name.lower().endswith(".json")

    def error(self, line: int, message: str) -> PlanError:
        """Return the error that stops reading this text at a line."""
        return plan_error(self.name, [f"{self.name}:{line}: {message}"])


def plan_error(name: str, lines: list[str]) -> PlanError:
    """Return the error that reports these lines about the file `name`."""
    return PlanError(
        "\n".join(lines), f"correct {name}, then look at it with `holdfast run {name} --dry-run`"
    )


def decode(data: bytes, name: str) -> SourceText:
    """Return the text of a plan's bytes, which must be UTF-8."""
    if len(data) > MAX_SIZE:
        raise SourceText(name, "").error(1, f"the file is larger than {MAX_SIZE >> 20} MiB; split the plan")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fault = f"byte {error.start} is not UTF-8 text; save the plan as UTF-8"
        raise SourceText(name, "").error(line, fault) from None
    if not text.strip():
        raise SourceText(name, text).error(
            1, "the file is empty; a plan starts with `holdfast: 1` and a `goal:`"
        )
    return SourceText(name, text)


@dataclass(slots=True)
class SourceMarks:
    """The line and the spelling of each value, and which keys were given twice."""

    lines: dict[Where, int] = field(default_factory=dict)
    texts: dict[Where, str] = field(default_factory=dict)
    twice: list[tuple[Where, int]] = field(default_factory=list)

    def line(self, at: Where) -> int:
        """Return the line of a place, or of the nearest one around it: a value may come from an alias."""
        while at and at not in self.lines:
            at = at[:-1]
        return self.lines.get(at, 1)


@dataclass(slots=True)
class _Open:
    """A mapping or list that is not closed yet."""

    container: Any
    anchor: str | None
    weight: int
    key: str | None = None
    is_mapping: bool = False


class TreeBuilder:
    """Builds the value of one document from its events. `marks`, if given, is filled on the way."""

    def __init__(self, source: SourceText, marks: SourceMarks | None = None) -> None:
        self.has_duplicates = False
        self._source = source
        self._marks = marks
        self._document: list[Any] = []
        # The innermost container and those around it; the document itself is the outermost.
        self._top = _Open(self._document, None, 0)
        self._around: list[_Open] = []
        self._weight = 0
        self._anchors: dict[str, tuple[Any, int]] = {}

    @property
    def root(self) -> Any:
        """The document's value; None if it has none."""
        return self._document[0] if self._document else None

    @property
    def wants_key(self) -> bool:
        """Whether the next event must be a mapping's key."""
        return self._top.is_mapping and self._top.key is None

    def key(self, text: str, line: int) -> None:
        """Add the key of the next value."""
        self._top.key = text
        is_duplicate = text in self._top.container
        if is_duplicate:
            self.has_duplicates = True
        if self._marks is not None:
            at = self._path()
            self._marks.lines.setdefault(at, line)
            if is_duplicate:
                self._marks.twice.append((at, line))
        self._weigh(len(text), line)

    def scalar(self, value: Any, text: str, line: int, anchor: str | None = None) -> None:
        """Add a value without parts; `text` is its spelling."""
        self._add(value, line, text)
        self._top.key = None
        self._weigh(len(text), line)
        if anchor is not None:
            self._anchors[anchor] = (value, len(text) + _VALUE_WEIGHT)

    def alias(self, anchor: str, line: int) -> None:
        """Add the value of an anchor again. Its weight counts again: that bounds alias bombs."""
        if anchor not in self._anchors:
            raise self._source.error(line, f"the alias *{anchor} has no finished anchor before it")
        if self.wants_key:
            raise self._source.error(line, "a key must be plain text, not an alias")
        value, weight = self._anchors[anchor]
        self._weigh(weight, line)
        self._add(value, line)
        self._top.key = None

    def open(self, container: dict[str, Any] | list[Any], line: int, anchor: str | None = None) -> None:
        """Begin a mapping or a list; the argument is an empty one of that kind."""
        if self.wants_key:
            raise self._source.error(line, "a key must be plain text, not a list or a mapping")
        if len(self._around) >= MAX_DEPTH:
            raise self._source.error(line, f"nested deeper than {MAX_DEPTH} levels; a plan needs seven")
        self._weigh(0, line)
        self._add(container, line)
        self._around.append(self._top)
        self._top = _Open(container, anchor, self._weight, is_mapping=isinstance(container, dict))

    def close(self) -> None:
        """End the innermost mapping or list; the one around it waits for its next key."""
        done = self._top
        if done.is_mapping and _MERGE in done.container:
            _merge(done.container)
        if done.anchor is not None:
            self._anchors[done.anchor] = (done.container, self._weight - done.weight + _VALUE_WEIGHT)
        self._top = self._around.pop()
        self._top.key = None

    def _add(self, value: Any, line: int, text: str | None = None) -> None:
        top = self._top
        if top.is_mapping:
            top.container[top.key] = value
        else:
            top.container.append(value)
        if self._marks is not None:
            at = self._path()
            self._marks.lines.setdefault(at, line)
            if text is not None:
                self._marks.texts[at] = text

    def _path(self) -> Where:
        """Return the place of the value that was added last; the document itself is not part of it."""
        levels = [*self._around, self._top][1:]
        return tuple(str(level.key) if level.is_mapping else len(level.container) - 1 for level in levels)

    def _weigh(self, size: int, line: int) -> None:
        self._weight += size + _VALUE_WEIGHT
        if self._weight > MAX_SIZE:
            raise self._source.error(line, "the plan is too large once its aliases are filled in; split it")


def _merge(container: dict[str, Any]) -> None:
    """Fill in what `<<: *anchor` names, below the mapping's own keys. Anything else stays an unknown key."""
    named = container[_MERGE]
    parts = named if isinstance(named, list) else [named]
    if all(isinstance(part, dict) for part in parts):
        del container[_MERGE]
        for part in parts:
            for key, value in part.items():
                container.setdefault(key, value)
