"""The types of value that a plan or workflow file can hold: texts, numbers, lists, maps and records of them.

Each type reads a value and describes itself as JSON Schema. Reading never raises: a problem goes to the `Problems`, and
`None` comes back instead of the value. The keys are not listed here but in the schema.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any

from holdfast.core.ids import ID_PATTERN
from holdfast.core.plan_rules import Where
from holdfast.errors import did_you_mean, quoted
from holdfast.plans.problems import Problems

Schema = dict[str, Any]

_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?")
_DURATION_SCHEMA = r"^(?=.)(\d+d)?(\d+h)?(\d+m)?(\d+(\.\d+)?s)?$"
_UNIT_SECONDS = (86400, 3600, 60, 1)
_MAX_SECONDS = 365 * 86400
_KINDS = {
    type(None): "nothing",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a mapping",
}


class FieldType(ABC):
    """One type of value."""

    @abstractmethod
    def read(self, value: Any, at: Where, problems: Problems) -> Any:
        """Return the normalised value, or note a problem and return None."""

    @abstractmethod
    def schema(self) -> Schema:
        """Describe the values that can be read."""


class Scalar(FieldType):
    """A type of value without parts: it is described by a `fault` that a value may have."""

    def read(self, value: Any, at: Where, problems: Problems) -> Any:
        """Return the normalised value, or note its fault and return None."""
        if fault := self._fault(value):
            problems.add(at, fault)
            return None
        return self._normalised(value)

    @abstractmethod
    def _fault(self, value: Any) -> str:
        """Return what is wrong with a value and what to write in its place; empty if it is good."""

    def _normalised(self, value: Any) -> Any:
        return value


def kind_of(value: Any) -> str:
    """Name the kind of a value as its author would."""
    return _KINDS[type(value)]


def _is_number(value: Any) -> bool:
    """Tell whether a value is a number, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong_kind(value: Any, expected: str) -> str:
    """Return that a value is of the wrong kind, and what to write in its place."""
    if value is None:
        return f"has no value; write {expected}, or remove the key"
    if isinstance(value, dict) and len(value) == 1 and next(iter(value.values())) is None:
        braces = quoted("{" + next(iter(value)) + "}")
        return f"must be {expected}, not a mapping; quote the braces: {braces}"
    return f"must be {expected}, not {kind_of(value)}"


# -- values without parts ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FormatVersion(Scalar):
    """The number that says which format a file has, under a `key`. Only this one number can be read."""

    key: str
    what: str
    number: int

    def is_newer(self, value: Any) -> bool:
        """Tell whether a newer Holdfast wrote the file."""
        return type(value) is int and value > self.number

    def _fault(self, value: Any) -> str:
        if type(value) is int and value == self.number:
            return ""
        if self.is_newer(value):
            reads = f"this Holdfast reads {self.number}; upgrade Holdfast"
            return f"this {self.what} has format {value}, and {reads}"
        given = quoted(value) if isinstance(value, str) else "this"
        return f"{given} is not a {self.what} format; write `{self.key}: {self.number}`"

    def schema(self) -> Schema:
        """Describe the one number there is."""
        return {"const": self.number}


@dataclass(frozen=True, slots=True)
class Text(FieldType):
    """A text. Editors check its `pattern` while typing; `empty` says that it may be empty."""

    pattern: str = ""
    empty: bool = False

    def read(self, value: Any, at: Where, problems: Problems) -> str | None:
        """Return the text. A number or a boolean is most often a text whose quotes were forgotten."""
        if isinstance(value, str):
            fault = "" if self.empty and value == "" else _text_fault(value)
            if not fault:
                return value
            problems.add(at, fault)
        elif isinstance(value, bool | int | float):
            problems.add(at, f"must be a text, but this reads as {kind_of(value)}", quote=True)
        else:
            problems.add(at, _wrong_kind(value, "a text"))
        return None

    def schema(self) -> Schema:
        """Describe it, with its pattern."""
        length = {} if self.empty else {"minLength": 1}
        return {"type": "string", **length, **({"pattern": f"^{self.pattern}$"} if self.pattern else {})}


def _text_fault(text: str) -> str:
    if not text or text.isspace():
        return "is empty; write a text, or remove the key"
    if "\0" in text:
        return "contains a NUL character; remove it"
    if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
        return "contains half of a surrogate pair, which is no character; remove it"
    return ""


@dataclass(frozen=True, slots=True)
class Choice(Scalar):
    """One of a few words."""

    options: tuple[str, ...]

    def _fault(self, value: Any) -> str:
        expected = "one of " + ", ".join(self.options)
        if not isinstance(value, str):
            return _wrong_kind(value, expected)
        if value in self.options:
            return ""
        return f"{quoted(value)} is not {expected}{did_you_mean(value, self.options)}"

    def schema(self) -> Schema:
        """Describe it as an enumeration."""
        return {"enum": list(self.options)}


@dataclass(frozen=True, slots=True)
class Boolean(Scalar):
    """True or false."""

    def _fault(self, value: Any) -> str:
        return "" if isinstance(value, bool) else _wrong_kind(value, "true or false")

    def schema(self) -> Schema:
        """Describe it as a boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Count(Scalar):
    """A whole number, from one to a bound that catches slips of the keyboard."""

    most: int = 10_000

    def _fault(self, value: Any) -> str:
        if type(value) is int and 1 <= value <= self.most:
            return ""
        return _wrong_number(value, f"a whole number from 1 to {self.most}")

    def schema(self) -> Schema:
        """Describe it as an integer with bounds."""
        return {"type": "integer", "minimum": 1, "maximum": self.most}


@dataclass(frozen=True, slots=True)
class Number(Scalar):
    """A number from zero to `most`, both allowed; without `most`, any number above zero."""

    most: float | None = None

    def _fault(self, value: Any) -> str:
        if _is_number(value) and (0 < value < float("inf") if self.most is None else 0 <= value <= self.most):
            return ""
        bounds = "above 0" if self.most is None else f"from 0 to {self.most:g}"
        return _wrong_number(value, f"a number {bounds}")

    def _normalised(self, value: Any) -> float:
        return float(value)

    def schema(self) -> Schema:
        """Describe it as a number with bounds."""
        if self.most is None:
            return {"type": "number", "exclusiveMinimum": 0}
        return {"type": "number", "minimum": 0, "maximum": self.most}


def _wrong_number(value: Any, expected: str) -> str:
    return f"is {value}; write {expected}" if _is_number(value) else _wrong_kind(value, expected)


@dataclass(frozen=True, slots=True)
class Duration(Scalar):
    """A time such as `90s`, `1h30m` or `2d`, or a number of seconds; read as seconds."""

    zero: bool = False

    def _fault(self, value: Any) -> str:
        seconds = _seconds(value)
        if seconds is None:
            is_text = isinstance(value, str)
            fault = f"{quoted(value)} is not a time" if is_text else f"must be a time, not {kind_of(value)}"
            return f"{fault}; write it like 90s, 60m, 1h30m or 2d, or as a number of seconds"
        if not (0 <= seconds <= _MAX_SECONDS) or (seconds == 0 and not self.zero):
            return f"must be {'at least' if self.zero else 'above'} 0 and at most 365d"
        return ""

    def _normalised(self, value: Any) -> float | None:
        return _seconds(value)

    def schema(self) -> Schema:
        """Describe both spellings."""
        bound = {"minimum": 0} if self.zero else {"exclusiveMinimum": 0}
        number = {"type": "number", **bound, "maximum": _MAX_SECONDS}
        return {"oneOf": [number, {"type": "string", "pattern": _DURATION_SCHEMA}]}


def _seconds(value: Any) -> float | None:
    if _is_number(value):
        return float(value)
    found = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if found is None:
        return None
    return sum(float(part) * unit for part, unit in zip(found.groups(), _UNIT_SECONDS, strict=True) if part)


# -- lists of texts ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Texts(FieldType):
    """A list of texts. With `single`, one text alone is a list of one."""

    item: Text = Text()
    single: bool = False

    def read(self, value: Any, at: Where, problems: Problems) -> tuple[str, ...] | None:
        """Return the texts, or None if one of them is bad: places of the others would be off."""
        if isinstance(value, str) and self.single:
            text = self.item.read(value, at, problems)
            return (text,) if text is not None else None
        if isinstance(value, list):
            return _read_items(repeat(self.item), value, at, problems)
        is_short = isinstance(value, str) and len(value) < 60
        expected = f"a list: [{json.dumps(value)}]" if is_short else "a list of texts"
        problems.add(at, _wrong_kind(value, expected))
        return None

    def schema(self) -> Schema:
        """Describe the list, and the single text where it is allowed."""
        many = {"type": "array", "items": self.item.schema()}
        return {"oneOf": [self.item.schema(), many]} if self.single else many


@dataclass(frozen=True, slots=True)
class Argv(FieldType):
    """A command as the list of its arguments. It never reaches a shell unless it names one."""

    def read(self, value: Any, at: Where, problems: Problems) -> tuple[str, ...] | None:
        """Return the arguments. A single line is refused with the spelling that runs it in a shell."""
        if isinstance(value, list) and value:
            # Only the program, which comes first, must not be empty.
            return _read_items(chain([Text()], repeat(Text(empty=True))), value, at, problems)
        fault = _wrong_kind(value, "a list of arguments")
        if isinstance(value, str):
            line = json.dumps(value, ensure_ascii=False) if len(value) < 60 and value.isprintable() else '"…"'
            shell = f'{at[-1]}: ["sh", "-c", {line}]'
            fault = f"must be a list of arguments, not one line; write {shell}"
        elif isinstance(value, list):
            fault = 'is an empty list; write the program and its arguments: ["make", "generate"]'
        problems.add(at, fault)
        return None

    def schema(self) -> Schema:
        """Describe the list; an argument after the program may be empty."""
        return {"type": "array", "minItems": 1, "items": {"type": "string"}}


def _read_items(
    items: Iterable[Text], values: list[Any], at: Where, problems: Problems
) -> tuple[str, ...] | None:
    pairs = enumerate(zip(items, values, strict=False))
    read = [item.read(value, (*at, index), problems) for index, (item, value) in pairs]
    good = tuple(text for text in read if text is not None)
    return good if len(good) == len(read) else None


# -- records, lists and maps ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a record: its type, its help for editors, and the struct field it fills (`into`)."""

    type: FieldType
    help: str
    required: bool = False
    into: str = ""
    default: Any = None

    def schema(self) -> Schema:
        """Describe the key."""
        default = {} if self.default is None else {"default": self.default}
        return {"description": self.help, **self.type.schema(), **default}


@dataclass(frozen=True, slots=True)
class RecordType(FieldType):
    """A mapping with known keys. If `one_of` is given, exactly one of its keys must be there."""

    name: str
    fields: Mapping[str, Field]
    one_of: tuple[str, ...] = ()

    def read(self, value: Any, at: Where, problems: Problems) -> dict[str, Any] | None:
        """Return what was given and good, by struct field. What is absent is absent here too."""
        if not isinstance(value, dict):
            keys = ", ".join(list(self.fields)[:3])
            problems.add(at, f"must be a mapping ({keys}, …), not {kind_of(value)}")
            return None
        read: dict[str, Any] = {}
        for key, part in value.items():
            field = self.fields.get(key)
            if field is not None:
                good = field.type.read(part, (*at, key), problems)
                read |= {field.into or key: good} if good is not None else {}
            elif not problems.full:
                fix = did_you_mean(key, self.fields)
                problems.add((*at, key), f"unknown key {quoted(key)}{fix}")
        self._check_missing(value, at, problems)
        return read

    def schema(self) -> Schema:
        """Describe the keys, with their help and defaults."""
        described: Schema = {
            "type": "object",
            "additionalProperties": False,
            "properties": {key: field.schema() for key, field in self.fields.items()},
        }
        if required := [key for key, field in self.fields.items() if field.required]:
            described["required"] = required
        if self.one_of:
            described["oneOf"] = [{"required": [key]} for key in self.one_of]
        return described

    def _check_missing(self, value: dict[str, Any], at: Where, problems: Problems) -> None:
        for key, field in self.fields.items():
            if field.required and key not in value:
                problems.add((*at, key), f"this key is missing; add `{key}:` ({field.help})")
        given = [key for key in self.one_of if key in value]
        if self.one_of and len(given) != 1:
            both, between = ("both", "and") if given else ("neither", "nor")
            pair = f" {between} ".join(f"`{key}:`" for key in self.one_of)
            problems.add(at, f"this {self.name} has {both} {pair}; give exactly one of them")


@dataclass(frozen=True, slots=True)
class RecordRef(FieldType):
    """A record that the JSON Schema describes once and refers to by its name."""

    record: RecordType

    def read(self, value: Any, at: Where, problems: Problems) -> dict[str, Any] | None:
        """Return the record."""
        return self.record.read(value, at, problems)

    def schema(self) -> Schema:
        """Refer to the definition."""
        return {"$ref": f"#/$defs/{self.record.name}"}


@dataclass(frozen=True, slots=True)
class ListOf(FieldType):
    """A list of records, at least one. Where one is bad, an empty record keeps the others' places."""

    record: RecordType

    def read(self, value: Any, at: Where, problems: Problems) -> list[dict[str, Any]] | None:
        """Return the records. Reading ends early when there are enough problems to report."""
        if not isinstance(value, list):
            problems.add(at, f"must be a list, not {kind_of(value)}; start each {self.record.name} with `- `")
            return None
        if not value:
            problems.add(at, f"is empty; add at least one {self.record.name}")
        rows: list[dict[str, Any]] = []
        for index, row in enumerate(value):
            if problems.full:
                break
            rows.append(self.record.read(row, (*at, index), problems) or {})
        return rows

    def schema(self) -> Schema:
        """Describe the list."""
        return {"type": "array", "minItems": 1, "items": RecordRef(self.record).schema()}


@dataclass(frozen=True, slots=True)
class MapOf(FieldType):
    """A mapping of names to values of one type. `example` says what to write in place of something else.

    Editors check that names match `names`; `name_fault`, if given, returns what is wrong with one.
    """

    item: FieldType
    example: str
    names: str = ID_PATTERN
    name_fault: Callable[[str], str] | None = None

    def read(self, value: Any, at: Where, problems: Problems) -> dict[str, Any] | None:
        """Return the entries that are good."""
        if not isinstance(value, dict):
            problems.add(at, _wrong_kind(value, f"a mapping such as {self.example}"))
            return None
        for name in value:
            if self.name_fault and (fault := self.name_fault(name)):
                problems.add((*at, name), fault)
        read = {name: self.item.read(part, (*at, name), problems) for name, part in value.items()}
        return {name: part for name, part in read.items() if part is not None}

    def schema(self) -> Schema:
        """Describe the mapping."""
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{self.names}$"},
            "additionalProperties": self.item.schema(),
        }


def variable_fault(name: str) -> str:
    """Return what is wrong with the name of an environment variable, or an empty text."""
    is_bad = "=" in name or _text_fault(name)
    return "is not the name of a variable; use letters, digits and `_`" if is_bad else ""
