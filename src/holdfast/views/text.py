"""How text is laid out for a terminal or a pipe: columns, single lines, counts. Nothing here knows about runs."""

from __future__ import annotations

import re
from collections.abc import Sequence

_GAP = "  "
# Colours are welcome. Everything else that a terminal obeys could move the cursor, rename the window or hide a line.
_STEERING = re.compile(r"\x1b(?!\[[0-9;]*m)|\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]")


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Return rows as aligned columns; the first row is the heading. Trailing space is left out."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return [
        (indent + _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]


def one_line(text: str, width: int = 100) -> str:
    """Return a text of an agent or a tool as one bounded line, without characters that could steer a terminal."""
    flat = " ".join(text.split())
    safe = "".join(c if c.isprintable() else "�" for c in flat)
    return safe if len(safe) <= width else safe[: width - 1] + "…"


def block(text: str, indent: str) -> list[str]:
    """Return a text of several lines, indented, without characters that could steer a terminal."""
    lines = text.rstrip().splitlines()
    return [indent + "".join(c if c.isprintable() or c == "\t" else "�" for c in line) for line in lines]


def harmless(text: str) -> str:
    """Return what an agent printed without the characters that would steer a terminal; colours stay."""
    return _STEERING.sub("�", text)


def count(number: int, noun: str) -> str:
    """Return `1 task`, `2 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
