"""The text of a plan file with its name: decoded, bounded, and able to word an error about itself."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.errors import PlanError

MAX_SIZE = 16 * 1024 * 1024
"""Characters of a plan, aliases counted as often as they are used. Ten thousand tasks take about two million."""

MAX_DEPTH = 64
"""Levels of nesting; a valid plan has seven."""


@dataclass(frozen=True, slots=True)
class Source:
    """One plan file's text."""

    name: str
    text: str

    @property
    def is_json(self) -> bool:
        """Whether the name says JSON; everything else is read as YAML."""
        return self.name.lower().endswith(".json")

    def error(self, line: int, message: str) -> PlanError:
        """Return the error that ends the reading of this text at a line."""
        return plan_error(self.name, [f"{self.name}:{line}: {message}"])


def plan_error(name: str, lines: list[str]) -> PlanError:
    """Return the error that reports these lines about the file `name`."""
    return PlanError(
        "\n".join(lines), f"correct {name}, then look at it with `holdfast run {name} --dry-run`"
    )


def decode(data: bytes, name: str) -> Source:
    """Return the text of a plan's bytes, which must be UTF-8."""
    if len(data) > MAX_SIZE:
        raise Source(name, "").error(1, f"the file is larger than {MAX_SIZE >> 20} MiB; split the plan")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fault = f"byte {error.start} is not UTF-8 text; save the plan as UTF-8"
        raise Source(name, "").error(line, fault) from None
    if not text.strip():
        raise Source(name, text).error(1, "the file is empty; a plan starts with `holdfast: 1` and a `goal:`")
    return Source(name, text)
