"""The kinds of value that have parts: a record of known keys, a list of records, a mapping of records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.ids import ID_PATTERN
from holdfast.core.plan_rules import Where
from holdfast.errors import did_you_mean, quoted
from holdfast.plans.field_types import FieldType, Schema, kind_of
from holdfast.plans.problems import Problems


@dataclass(frozen=True, slots=True)
class Field:
    """One key of a record: what it holds, what editors say about it, and the struct field it fills."""

    shape: FieldType
    help: str
    required: bool = False
    into: str = ""
    default: Any = None


@dataclass(frozen=True, slots=True)
class RecordType:
    """A mapping with known keys. Exactly one key of `one_of`, if that is given, must be there."""

    name: str
    fields: Mapping[str, Field]
    one_of: tuple[str, ...] = ()

    def read(self, value: Any, at: Where, problems: Problems) -> dict[str, Any] | None:
        """Return what was given and good, by struct field; what is absent is absent here too."""
        if not isinstance(value, dict):
            problems.add(
                at, f"must be a mapping ({', '.join(list(self.fields)[:3])}, …), not {kind_of(value)}"
            )
            return None
        read: dict[str, Any] = {}
        for key, part in value.items():
            field = self.fields.get(key)
            if field is None:
                self._unknown(key, at, problems)
            elif (good := field.shape.read(part, (*at, key), problems)) is not None:
                read[field.into or key] = good
        self._absent(value, at, problems)
        return read

    def schema(self) -> Schema:
        """Describe the keys, with their help and defaults."""
        described: Schema = {
            "type": "object",
            "additionalProperties": False,
            "properties": {key: _described(field) for key, field in self.fields.items()},
        }
        if required := [key for key, field in self.fields.items() if field.required]:
            described["required"] = required
        if self.one_of:
            described["oneOf"] = [{"required": [key]} for key in self.one_of]
        return described

    def _unknown(self, key: str, at: Where, problems: Problems) -> None:
        if not problems.full:
            problems.add((*at, key), f"unknown key {quoted(key)}{did_you_mean(key, self.fields)}")

    def _absent(self, value: dict[str, Any], at: Where, problems: Problems) -> None:
        for key, field in self.fields.items():
            if field.required and key not in value:
                problems.add((*at, key), f"this key is missing; add `{key}:` ({field.help})")
        if self.one_of:
            given = [key for key in self.one_of if key in value]
            if len(given) != 1:
                both, between = ("both", "and") if given else ("neither", "nor")
                pair = f" {between} ".join(f"`{key}:`" for key in self.one_of)
                problems.add(at, f"this {self.name} has {both} {pair}; give exactly one of them")


def _described(field: Field) -> Schema:
    default = {} if field.default is None else {"default": field.default}
    return {"description": field.help, **field.shape.schema(), **default}


@dataclass(frozen=True, slots=True)
class RecordList:
    """A list of records, at least one. Where one is bad, an empty record keeps the others' places."""

    record: RecordType

    def read(self, value: Any, at: Where, problems: Problems) -> list[dict[str, Any]] | None:
        """Return the records; reading ends early when there are enough problems to report."""
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
        return {"type": "array", "minItems": 1, "items": {"$ref": f"#/$defs/{self.record.name}"}}


@dataclass(frozen=True, slots=True)
class RecordMap:
    """A mapping of names to records."""

    record: RecordType

    def read(self, value: Any, at: Where, problems: Problems) -> dict[str, dict[str, Any]] | None:
        """Return the records by name."""
        if not isinstance(value, dict):
            problems.add(
                at, f"must be a mapping of names, not {kind_of(value)}; write `NAME:` and its keys below"
            )
            return None
        read = {name: self.record.read(part, (*at, name), problems) for name, part in value.items()}
        return {name: part for name, part in read.items() if part is not None}

    def schema(self) -> Schema:
        """Describe the mapping."""
        names = {"pattern": f"^{ID_PATTERN}$"}
        return {
            "type": "object",
            "propertyNames": names,
            "additionalProperties": {"$ref": f"#/$defs/{self.record.name}"},
        }
