"""A command of the program, started by a view as a process of its own: its words, and what became of it.

Who starts it is the view's part. What a command prints with `--json` is its result.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

_COMPLAINT = "holdfast: "
_NOT_SHOWN = ("--json", "--yes")


class CommandAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a command: what it printed as JSON, its exit code, and, if it was refused, why and what to do.

    `message` of one that succeeded is what it says for people.
    """

    ok: bool
    exit_code: int
    command: str
    result: Any
    message: str
    hint: str


def own_argv(words: Sequence[str]) -> list[str]:
    """Return what starts this program with these words."""
    # Without -P, a folder named `holdfast` in the user's repository would be run in our place.
    return [sys.executable, "-P", "-m", "holdfast", *words]


def command_answer(words: Sequence[str], code: int, out: str, err: str) -> CommandAnswer:
    """Return what became of a command that ended with this code and said this."""
    result = _parsed(out)
    message, hint = _complaint(err)
    if code == 0:
        detail = result.get("detail") if isinstance(result, dict) else None
        message, hint = detail if isinstance(detail, str) else err.strip(), ""
    shown = [word for word in words if word not in _NOT_SHOWN]
    return CommandAnswer(
        ok=code == 0,
        exit_code=code,
        command=shlex.join(["holdfast", *shown]),
        result=result,
        message=message,
        hint=hint,
    )


def _parsed(out: str) -> Any:
    """Return what a command printed: one value, or its last line if it printed several. None if that is no JSON."""
    for text in (out, out.rstrip().rpartition("\n")[2]):
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError):
            continue
    return None


def _complaint(err: str) -> tuple[str, str]:
    """Return the error and the hint of what a command said on standard error: the hint is what is indented below it."""
    before, found, said = err.rpartition(_COMPLAINT)
    if not found:
        return before.strip() or said.strip(), ""
    lines = said.rstrip().split("\n")
    first = next((at for at, line in enumerate(lines) if at and line.startswith("  ")), len(lines))
    return "\n".join(lines[:first]).strip(), " ".join(line.strip() for line in lines[first:])
