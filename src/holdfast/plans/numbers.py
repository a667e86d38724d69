"""The kinds of number a plan file can hold: counts, amounts and times."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from holdfast.core.ids import ID_PATTERN
from holdfast.core.plan_rules import Where
from holdfast.core.wording import shown
from holdfast.plans.problems import Problems
from holdfast.plans.shapes import Schema, kind_of, wrong_kind

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
class Counts:
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
                f"{shown(value)} is not a time"
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
