"""What in other systems' words is a command that can be run as it stands, and what is a path to be delivered."""

from __future__ import annotations

import re

_LINE_CHARS_MAX = 500
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w -]*>|\{[A-Za-z_]\w*\}|\.\.\.|…")
_PROGRAM = re.compile(r"\.{0,2}/?[A-Za-z0-9_][\w./+-]*(=\S*)?")
_PATH = re.compile(r"[\w@.()\[\]+-][\w@.()\[\]+/ -]*")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,12}$")


def is_command(line: str) -> bool:
    """Tell whether a line is a plain command: one line that begins with a program and leaves nothing to fill in."""
    line = line.strip()
    if not line or len(line) > _LINE_CHARS_MAX or not line.isprintable() or _PLACEHOLDER.search(line):
        return False
    return _PROGRAM.fullmatch(line.split()[0]) is not None


def is_path(name: str) -> bool:
    """Tell whether a text is a path below the project: no sentence, no pattern, nothing absolute or above it."""
    name = name.strip()
    if not _PATH.fullmatch(name) or name.startswith("-") or ".." in name.split("/"):
        return False
    last = name.rstrip("/").rsplit("/", 1)[-1]
    return " " not in name and ("/" in name or _ENDING.search(last) is not None or last.startswith("."))


def quoted(line: str) -> tuple[str, ...]:
    """Return what stands between backticks in a line."""
    return tuple(found.strip() for found in re.findall(r"`([^`\n]+)`", line))
