"""The types of value that a plan or workflow file can hold: texts, numbers, lists, maps and records of them.

Each type reads a value and describes itself as JSON Schema. Reading never raises: a problem goes to the `Problems`, and
`None` comes back instead of the value. The keys are listed in the schema, not here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Protocol

from holdfast.core.ids import HOST_PATTERN, ID_PATTERN
from holdfast.core.plan_rules import Where
from holdfast.errors import did_you_mean, quoted
from holdfast.plans.problems import Problems

Schema = dict[str, Any]
Reader = Callable[[Any, Where, Problems], Any]
"""Returns the normalised value, or notes a problem at that place and returns None."""
FindFault = Callable[[Any], str]
"""Returns what is wrong with a value and what to write instead; empty if it is good."""

_DURATION = re.compile(r"(?:(\d{1,9})d)?(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9}(?:\.\d{1,9})?)s)?")
_DURATION_SCHEMA = r"^(?=.)(\d+d)?(\d+h)?(\d+m)?(\d+(\.\d+)?s)?$"
_SIZE = re.compile(r"([0-9]{1,9})(MB|GB|TB)")
_UNIT_BYTES = {"MB": 1024**2, "GB": 1024**3, "TB": 1024**4}
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


class FieldType(Protocol):
    """One type of value."""

    @property
    def read(self) -> Reader:
        """Reads a value of this type."""

    @property
    def schema(self) -> Schema:
        """Describes the values that can be read."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """A type that is not a record."""

    schema: Schema
    read: Reader


def scalar(
    schema: Schema, fault: FindFault, normalised: Callable[[Any], Any] = lambda value: value
) -> ValueType:
    """Return a type of values without parts; a function tells what is wrong with a value."""

    def read(value: Any, at: Where, problems: Problems) -> Any:
        if problem := fault(value):
            problems.add(at, problem)
            return None
        return normalised(value)

    return ValueType(schema, read)


def kind_of(value: Any) -> str:
    """Name the kind of a value in the author's terms."""
    return _KINDS[type(value)]


def _is_number(value: Any) -> bool:
    """Tell whether a value is a number, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong_kind(value: Any, expected: str) -> str:
    """Return the message that a value is of the wrong kind, and what to write instead."""
    if value is None:
        return f"has no value; write {expected}, or remove the key"
    if isinstance(value, dict) and len(value) == 1 and next(iter(value.values())) is None:
        braces = quoted("{" + next(iter(value)) + "}")
        return f"must be {expected}, not a mapping; quote the braces: {braces}"
    return f"must be {expected}, not {kind_of(value)}"


# -- values without parts ------------------------------------------------------------------------------------


BOOLEAN = scalar(
    {"type": "boolean"},
    lambda value: "" if isinstance(value, bool) else _wrong_kind(value, "true or false"),
)


@dataclass(frozen=True, slots=True)
class FormatVersion:
    """The number that says which format a file has, under a `key`. Only this one number can be read."""

    key: str
    what: str
    number: int

    def is_newer(self, value: Any) -> bool:
        """Tell whether a newer Holdfast wrote the file."""
        return type(value) is int and value > self.number

    @property
    def type(self) -> ValueType:
        """The type of the number."""
        return scalar({"const": self.number}, self._fault)

    def _fault(self, value: Any) -> str:
        if type(value) is int and value == self.number:
            return ""
        if self.is_newer(value):
            reads = f"this Holdfast reads {self.number}; upgrade Holdfast"
            return f"this {self.what} has format {value}, and {reads}"
        given = quoted(value) if isinstance(value, str) else "this"
        return f"{given} is not a {self.what} format; write `{self.key}: {self.number}`"


def text(pattern: str = "", *, empty: bool = False) -> ValueType:
    """Return the type of a text. Editors check its `pattern` while typing; `empty` says that it may be empty."""

    def read(value: Any, at: Where, problems: Problems) -> str | None:
        fault = "" if empty and value == "" else _text_fault(value)
        if not fault:
            return str(value)
        # A number or a boolean is usually a text without its quotes.
        problems.add(at, fault, quote=isinstance(value, bool | int | float))
        return None

    length = {} if empty else {"minLength": 1}
    return ValueType({"type": "string", **length, **({"pattern": f"^{pattern}$"} if pattern else {})}, read)


def _text_fault(value: Any) -> str:
    if isinstance(value, bool | int | float):
        return f"must be a text, but this reads as {kind_of(value)}"
    if not isinstance(value, str):
        return _wrong_kind(value, "a text")
    if not value or value.isspace():
        return "is empty; write a text, or remove the key"
    if "\0" in value:
        return "contains a NUL character; remove it"
    if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
        return "contains half of a surrogate pair, which is no character; remove it"
    return ""


def _host_fault(value: Any) -> str:
    if fault := _text_fault(value):
        return fault
    is_good = re.fullmatch(HOST_PATTERN, value)
    return (
        ""
        if is_good
        else f"{quoted(value)} is no host; write api.example.com, *.example.com or 127.0.0.1:8000"
    )


HOST = scalar({"type": "string", "pattern": f"^{HOST_PATTERN}$"}, _host_fault)
"""A host of the network, as `HOST_PATTERN` says."""


def choice(options: tuple[str, ...]) -> ValueType:
    """Return the type of one of a few words."""
    expected = "one of " + ", ".join(options)

    def fault(value: Any) -> str:
        if not isinstance(value, str):
            return _wrong_kind(value, expected)
        if value in options:
            return ""
        return f"{quoted(value)} is not {expected}{did_you_mean(value, options)}"

    return scalar({"enum": list(options)}, fault)


def word_of(options: tuple[str, ...]) -> ValueType:
    """Return the type of one of a few words, one of which is `off`: without quotes, YAML reads that as false."""
    named = choice(options)

    def read(value: Any, at: Where, problems: Problems) -> Any:
        return named.read("off" if value is False else value, at, problems)

    return ValueType({"enum": [*options, False]}, read)


def count(most: int = 10_000) -> ValueType:
    """Return the type of a whole number, from one to a bound that catches typing errors."""

    def fault(value: Any) -> str:
        is_good = type(value) is int and 1 <= value <= most
        return "" if is_good else _wrong_number(value, f"a whole number from 1 to {most}")

    return scalar({"type": "integer", "minimum": 1, "maximum": most}, fault)


def share(most: float) -> ValueType:
    """Return the type of a number from zero to a bound, both allowed."""

    def fault(value: Any) -> str:
        is_good = _is_number(value) and 0 <= value <= most
        return "" if is_good else _wrong_number(value, f"a number from 0 to {most:g}")

    return scalar({"type": "number", "minimum": 0, "maximum": most}, fault, float)


def amount() -> ValueType:
    """Return the type of a number above zero."""

    def fault(value: Any) -> str:
        is_good = _is_number(value) and 0 < value < float("inf")
        return "" if is_good else _wrong_number(value, "a number above 0")

    return scalar({"type": "number", "exclusiveMinimum": 0}, fault, float)


def size() -> ValueType:
    """Return the type of an amount of memory such as `512MB` or `4GB`, or of a number of bytes; read as bytes."""

    def fault(value: Any) -> str:
        is_good = _bytes(value) is not None
        return "" if is_good else _wrong_number(value, "a size such as 512MB or 4GB, at least 1MB")

    number = {"type": "integer", "minimum": _UNIT_BYTES["MB"]}
    return scalar({"oneOf": [number, {"type": "string", "pattern": f"^{_SIZE.pattern}$"}]}, fault, _bytes)


def _bytes(value: Any) -> int | None:
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    read = int(found[1]) * _UNIT_BYTES[found[2]] if found else value
    return read if type(read) is int and _UNIT_BYTES["MB"] <= read <= _UNIT_BYTES["TB"] * 1024 else None


def _wrong_number(value: Any, expected: str) -> str:
    return f"is {value}; write {expected}" if _is_number(value) else _wrong_kind(value, expected)


def duration(*, zero: bool = False) -> ValueType:
    """Return the type of a time such as `90s`, `1h30m` or `2d`, or of a number of seconds; read as seconds."""

    def fault(value: Any) -> str:
        seconds = _seconds(value)
        if seconds is None:
            is_text = isinstance(value, str)
            wrong = f"{quoted(value)} is not a time" if is_text else f"must be a time, not {kind_of(value)}"
            return f"{wrong}; write it like 90s, 60m, 1h30m or 2d, or as a number of seconds"
        if not (0 <= seconds <= _MAX_SECONDS) or (seconds == 0 and not zero):
            return f"must be {'at least' if zero else 'above'} 0 and at most 365d"
        return ""

    bound = {"minimum": 0} if zero else {"exclusiveMinimum": 0}
    number = {"type": "number", **bound, "maximum": _MAX_SECONDS}
    return scalar({"oneOf": [number, {"type": "string", "pattern": _DURATION_SCHEMA}]}, fault, _seconds)


def _seconds(value: Any) -> float | None:
    if _is_number(value):
        return float(value)
    found = _DURATION.fullmatch(value) if isinstance(value, str) and value else None
    if found is None:
        return None
    return sum(float(part) * unit for part, unit in zip(found.groups(), _UNIT_SECONDS, strict=True) if part)


# -- lists and maps ------------------------------------------------------------------------------------------


def texts(item: ValueType = text(), *, single: bool = False) -> ValueType:  # noqa: B008 - frozen
    """Return the type of a list of texts. With `single`, one text alone is a list of one."""

    def read(value: Any, at: Where, problems: Problems) -> tuple[str, ...] | None:
        if isinstance(value, str) and single:
            alone = item.read(value, at, problems)
            return (alone,) if alone is not None else None
        if isinstance(value, list):
            return _read_items(repeat(item), value, at, problems)
        is_short = isinstance(value, str) and len(value) < 60
        problems.add(
            at, _wrong_kind(value, f"a list: [{json.dumps(value)}]" if is_short else "a list of texts")
        )
        return None

    many = {"type": "array", "items": item.schema}
    return ValueType({"oneOf": [item.schema, many]} if single else many, read)


def _read_argv(value: Any, at: Where, problems: Problems) -> tuple[str, ...] | None:
    """Read a command. A single line is refused with the spelling that runs it in a shell."""
    if isinstance(value, list) and value:
        # Only the program, which comes first, must not be empty.
        return _read_items(chain([text()], repeat(text(empty=True))), value, at, problems)
    fault = _wrong_kind(value, "a list of arguments")
    if isinstance(value, str):
        line = json.dumps(value, ensure_ascii=False) if len(value) < 60 and value.isprintable() else '"…"'
        shell = f'{at[-1]}: ["sh", "-c", {line}]'
        fault = f"must be a list of arguments, not one line; write {shell}"
    elif isinstance(value, list):
        fault = 'is an empty list; write the program and its arguments: ["make", "generate"]'
    problems.add(at, fault)
    return None


ARGV = ValueType({"type": "array", "minItems": 1, "items": {"type": "string"}}, _read_argv)
"""A command as the list of its arguments. It never reaches a shell unless it names one."""


def _read_items(
    items: Iterable[ValueType], values: list[Any], at: Where, problems: Problems
) -> tuple[str, ...] | None:
    """Return the texts, or None if one is bad: the positions of the others would be wrong."""
    pairs = enumerate(zip(items, values, strict=False))
    read = [item.read(value, (*at, index), problems) for index, (item, value) in pairs]
    return None if None in read else tuple(read)


def map_of(
    item: FieldType, example: str, names: str = ID_PATTERN, name_fault: FindFault = lambda _: ""
) -> ValueType:
    """Return the type of a mapping of names to values. `example` is what to write instead of a wrong value.

    Editors check that names match `names`.
    """

    def read(value: Any, at: Where, problems: Problems) -> dict[str, Any] | None:
        if not isinstance(value, dict):
            problems.add(at, _wrong_kind(value, f"a mapping such as {example}"))
            return None
        for name in value:
            if fault := name_fault(name):
                problems.add((*at, name), fault)
        parts = {name: item.read(part, (*at, name), problems) for name, part in value.items()}
        return {name: part for name, part in parts.items() if part is not None}

    schema = {"propertyNames": {"pattern": f"^{names}$"}, "additionalProperties": item.schema}
    return ValueType({"type": "object", **schema}, read)


def variable_fault(name: str) -> str:
    """Return what is wrong with the name of an environment variable, or an empty text."""
    is_bad = "=" in name or _text_fault(name)
    return "is not the name of a variable; use letters, digits and `_`" if is_bad else ""


# -- records -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a record: its type, its help for editors, and the struct field it fills (`into`).

    `other_names` are words that people write in its place: they are refused, and the key is offered.
    """

    type: FieldType
    help: str
    required: bool = False
    into: str = ""
    default: Any = None
    other_names: tuple[str, ...] = ()

    @property
    def schema(self) -> Schema:
        """Describes the key."""
        default = {} if self.default is None else {"default": self.default}
        return {"description": self.help, **self.type.schema, **default}


@dataclass(frozen=True, slots=True)
class RecordType:
    """A mapping with known keys. If `one_of` is given, exactly one of its keys must be there."""

    name: str
    fields: Mapping[str, Field]
    one_of: tuple[str, ...] = ()

    def read(self, value: Any, at: Where, problems: Problems) -> dict[str, Any] | None:
        """Return the given, valid values by struct field. Absent keys stay absent."""
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
                problems.add((*at, key), f"unknown key {quoted(key)}{self._meant_by(key)}")
        self._check_missing(value, at, problems)
        return read

    def _meant_by(self, key: str) -> str:
        """Return the key that was probably meant, by its other names or its letters, else all keys."""
        known = next((name for name, field in self.fields.items() if key in field.other_names), "")
        return (
            f"; did you mean {quoted(known)}?" if known else did_you_mean(key, self.fields, len(self.fields))
        )

    def _check_missing(self, value: dict[str, Any], at: Where, problems: Problems) -> None:
        for key, field in self.fields.items():
            if field.required and key not in value:
                problems.add((*at, key), f"this key is missing; add `{key}:` ({field.help})")
        given = [key for key in self.one_of if key in value]
        if self.one_of and len(given) != 1:
            both, between = ("both", "and") if given else ("neither", "nor")
            pair = f" {between} ".join(f"`{key}:`" for key in self.one_of)
            problems.add(at, f"this {self.name} has {both} {pair}; give exactly one of them")

    @property
    def schema(self) -> Schema:
        """Describes the keys, with their help and defaults."""
        properties = {key: field.schema for key, field in self.fields.items()}
        described: Schema = {"type": "object", "additionalProperties": False, "properties": properties}
        if required := [key for key, field in self.fields.items() if field.required]:
            described["required"] = required
        if self.one_of:
            described["oneOf"] = [{"required": [key]} for key in self.one_of]
        return described

    @property
    def ref(self) -> ValueType:
        """The same type; its schema refers to the definition by its name."""
        return ValueType({"$ref": f"#/$defs/{self.name}"}, self.read)


def list_of(record: RecordType) -> ValueType:
    """Return the type of a list of records, at least one.

    An empty record in place of a bad one keeps the positions.
    """

    def read(value: Any, at: Where, problems: Problems) -> list[dict[str, Any]] | None:
        if not isinstance(value, list):
            problems.add(at, f"must be a list, not {kind_of(value)}; start each {record.name} with `- `")
            return None
        if not value:
            problems.add(at, f"is empty; add at least one {record.name}")
        rows: list[dict[str, Any]] = []
        for index, row in enumerate(value):
            if problems.full:
                break
            rows.append(record.read(row, (*at, index), problems) or {})
        return rows

    return ValueType({"type": "array", "minItems": 1, "items": record.ref.schema}, read)
