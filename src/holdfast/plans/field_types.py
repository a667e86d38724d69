"""The kinds of value a plan file can hold, except numbers and records. Each kind reads a value and describes itself as JSON Schema.

Reading never raises: what is wrong goes to the `Problems`, and `None` comes back in its place.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.core.ids import ID_PATTERN
from holdfast.core.plan_rules import Where
from holdfast.errors import did_you_mean, quoted
from holdfast.plans.problems import Problems

Schema = dict[str, Any]


class FieldType(Protocol):
    """One kind of value."""

    def read(self, value: Any, at: Where, problems: Problems) -> Any:
        """Return the normalised value, or note a problem and return None."""

    def schema(self) -> Schema:
        """Describe the values that can be read."""


def kind_of(value: Any) -> str:
    """Name the kind of a value the way its author thinks of it."""
    if value is None:
        return "nothing"
    names = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "a mapping",
    }
    return names[type(value)]


def wrong_kind(value: Any, expected: str, at: Where, problems: Problems) -> None:
    """Note that a value is of the wrong kind, and what to write in its place."""
    if value is None:
        problems.add(at, f"has no value; write {expected}, or remove the key")
    elif isinstance(value, dict) and len(value) == 1 and next(iter(value.values())) is None:
        problems.add(
            at,
            f"must be {expected}, not a mapping; quote the braces: {quoted('{' + next(iter(value)) + '}')}",
        )
    else:
        problems.add(at, f"must be {expected}, not {kind_of(value)}")


@dataclass(frozen=True, slots=True)
class Text:
    """A text that is not empty."""

    pattern: str = ""

    def read(self, value: Any, at: Where, problems: Problems) -> str | None:
        """Return the text. A number or a boolean is most often a text whose quotes were forgotten."""
        if not isinstance(value, str):
            if isinstance(value, bool | int | float):
                problems.add(at, f"must be a text, but this reads as {kind_of(value)}", quote=True)
            else:
                wrong_kind(value, "a text", at, problems)
            return None
        fault = _text_fault(value)
        if fault:
            problems.add(at, fault)
            return None
        return value

    def schema(self) -> Schema:
        """Describe it, with the pattern that editors check while typing."""
        return {
            "type": "string",
            "minLength": 1,
            **({"pattern": f"^{self.pattern}$"} if self.pattern else {}),
        }


def _text_fault(text: str) -> str:
    if not text or text.isspace():
        return "is empty; write a text, or remove the key"
    if "\0" in text:
        return "contains a NUL character; remove it"
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        return "contains half of a surrogate pair, which is no character; remove it"
    return ""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words."""

    options: tuple[str, ...]

    def read(self, value: Any, at: Where, problems: Problems) -> str | None:
        """Return the word."""
        if isinstance(value, str) and value in self.options:
            return value
        expected = "one of " + ", ".join(self.options)
        if isinstance(value, str):
            problems.add(at, f"{quoted(value)} is not {expected}{did_you_mean(value, self.options)}")
        else:
            wrong_kind(value, expected, at, problems)
        return None

    def schema(self) -> Schema:
        """Describe it as an enumeration."""
        return {"enum": list(self.options)}


@dataclass(frozen=True, slots=True)
class Boolean:
    """True or false."""

    def read(self, value: Any, at: Where, problems: Problems) -> bool | None:
        """Return the boolean."""
        if isinstance(value, bool):
            return value
        wrong_kind(value, "true or false", at, problems)
        return None

    def schema(self) -> Schema:
        """Describe it as a boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Texts:
    """A list of texts; where `single` is set, one text alone is a list of one."""

    item: Text = Text()
    single: bool = False

    def read(self, value: Any, at: Where, problems: Problems) -> tuple[str, ...] | None:
        """Return the texts, or None if one of them is bad: places of the others would be off."""
        if isinstance(value, str) and self.single:
            text = self.item.read(value, at, problems)
            return (text,) if text is not None else None
        if not isinstance(value, list):
            expected = (
                f"a list: [{json.dumps(value)}]"
                if isinstance(value, str) and len(value) < 60
                else "a list of texts"
            )
            wrong_kind(value, expected, at, problems)
            return None
        return _items(self.item, value, at, problems)

    def schema(self) -> Schema:
        """Describe the list, and the single text where it is allowed."""
        many = {"type": "array", "items": self.item.schema()}
        return {"oneOf": [self.item.schema(), many]} if self.single else many


def _items(item: Text, values: list[Any], at: Where, problems: Problems) -> tuple[str, ...] | None:
    read = [item.read(value, (*at, index), problems) for index, value in enumerate(values)]
    good = tuple(text for text in read if text is not None)
    return good if len(good) == len(read) else None


@dataclass(frozen=True, slots=True)
class Argv:
    """A command as the list of its arguments. It never reaches a shell unless it names one."""

    def read(self, value: Any, at: Where, problems: Problems) -> tuple[str, ...] | None:
        """Return the arguments. A single line is refused with the spelling that runs it in a shell."""
        if isinstance(value, str):
            line = json.dumps(value, ensure_ascii=False) if len(value) < 60 and value.isprintable() else '"…"'
            problems.add(
                at, f'must be a list of arguments, not one line; write {at[-1]}: ["sh", "-c", {line}]'
            )
        elif not isinstance(value, list):
            wrong_kind(value, "a list of arguments", at, problems)
        elif not value:
            problems.add(at, 'is an empty list; write the program and its arguments: ["make", "generate"]')
        else:
            return _arguments(value, at, problems)
        return None

    def schema(self) -> Schema:
        """Describe the list; an argument after the program may be empty."""
        return {"type": "array", "minItems": 1, "items": {"type": "string"}}


def _arguments(values: list[Any], at: Where, problems: Problems) -> tuple[str, ...] | None:
    """Read each argument; only the program, which comes first, must not be empty."""
    text = Text()
    read = [
        value if value == "" and index else text.read(value, (*at, index), problems)
        for index, value in enumerate(values)
    ]
    good = tuple(argument for argument in read if argument is not None)
    return good if len(good) == len(read) else None


@dataclass(frozen=True, slots=True)
class TextMap:
    """Names and their texts, as an environment has them. A text may be empty here."""

    def read(self, value: Any, at: Where, problems: Problems) -> dict[str, str] | None:
        """Return the mapping with the entries that are good."""
        if not isinstance(value, dict):
            wrong_kind(value, "a mapping of names to texts", at, problems)
            return None
        for name in value:
            if not name or "=" in name or _text_fault(name):
                problems.add((*at, name), "is not the name of a variable; use letters, digits and `_`")
        read = {
            name: text if text == "" else Text().read(text, (*at, name), problems)
            for name, text in value.items()
        }
        return {name: text for name, text in read.items() if text is not None}

    def schema(self) -> Schema:
        """Describe it as an object of strings."""
        return {
            "type": "object",
            "propertyNames": {"pattern": "^[^=]+$"},
            "additionalProperties": {"type": "string"},
        }


_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?")
_DURATION_SCHEMA = r"^(?=.)(\d+d)?(\d+h)?(\d+m)?(\d+(\.\d+)?s)?$"
_UNIT_SECONDS = (86400, 3600, 60, 1)
_MAX_SECONDS = 365 * 86400


@dataclass(frozen=True, slots=True)
class Count:
    """A whole number, from one to a bound that catches slips of the keyboard."""

    most: int = 10_000

    def read(self, value: Any, at: Where, problems: Problems) -> int | None:
        """Return the number."""
        if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= self.most:
            return value
        expected = f"a whole number from 1 to {self.most}"
        if isinstance(value, int | float) and not isinstance(value, bool):
            problems.add(at, f"is {value}; write {expected}")
        else:
            wrong_kind(value, expected, at, problems)
        return None

    def schema(self) -> Schema:
        """Describe it as an integer with bounds."""
        return {"type": "integer", "minimum": 1, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class CountMap:
    """Whole numbers by name."""

    def read(self, value: Any, at: Where, problems: Problems) -> dict[str, int] | None:
        """Return the numbers by name."""
        if not isinstance(value, dict):
            wrong_kind(value, "a mapping such as {tests: 1}", at, problems)
            return None
        read = {name: Count().read(part, (*at, name), problems) for name, part in value.items()}
        return {name: number for name, number in read.items() if number is not None}

    def schema(self) -> Schema:
        """Describe the mapping."""
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{ID_PATTERN}$"},
            "additionalProperties": Count().schema(),
        }


@dataclass(frozen=True, slots=True)
class Share:
    """A number from zero to a bound, both allowed: a score or a percentage."""

    most: float = 1.0

    def read(self, value: Any, at: Where, problems: Problems) -> float | None:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            wrong_kind(value, "a number", at, problems)
            return None
        if not 0 <= value <= self.most:
            problems.add(at, f"is {value}; write a number from 0 to {self.most:g}")
            return None
        return float(value)

    def schema(self) -> Schema:
        """Describe it as a number with bounds."""
        return {"type": "number", "minimum": 0, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Amount:
    """A positive number, such as money."""

    def read(self, value: Any, at: Where, problems: Problems) -> float | None:
        """Return the number."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            wrong_kind(value, "a number", at, problems)
            return None
        if not (value > 0 and math.isfinite(value)):
            problems.add(at, f"is {value}; write a number above 0")
            return None
        return float(value)

    def schema(self) -> Schema:
        """Describe it as a number above zero."""
        return {"type": "number", "exclusiveMinimum": 0}


@dataclass(frozen=True, slots=True)
class Duration:
    """A time such as `90s`, `1h30m` or `2d`, or a number of seconds; read as seconds."""

    zero: bool = False

    def read(self, value: Any, at: Where, problems: Problems) -> float | None:
        """Return the seconds."""
        seconds = _seconds(value)
        if seconds is None:
            said = (
                f"{quoted(value)} is not a time"
                if isinstance(value, str)
                else f"must be a time, not {kind_of(value)}"
            )
            problems.add(at, f"{said}; write it like 90s, 60m, 1h30m or 2d, or as a number of seconds")
        elif not (0 <= seconds <= _MAX_SECONDS) or (seconds == 0 and not self.zero):
            problems.add(at, f"must be {'at least' if self.zero else 'above'} 0 and at most 365d")
        else:
            return seconds
        return None

    def schema(self) -> Schema:
        """Describe both spellings."""
        bound = {"minimum": 0} if self.zero else {"exclusiveMinimum": 0}
        return {
            "oneOf": [
                {"type": "number", **bound, "maximum": _MAX_SECONDS},
                {"type": "string", "pattern": _DURATION_SCHEMA},
            ]
        }


def _seconds(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    found = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if found is None:
        return None
    return sum(float(part) * unit for part, unit in zip(found.groups(), _UNIT_SECONDS, strict=True) if part)
