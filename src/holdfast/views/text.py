"""Formats text: columns, single lines, counts, times. Nothing here knows about runs or streams."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from holdfast.escapes import without_controls

_GAP = "  "
_LAST_COLUMN_MIN = 24
_NOTHING = ("", "-")
_UNSEEN = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\U00016fe4\U0001d159"
    + "".join(map(chr, (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
"""Characters that count as printable, and of which nothing is seen: fillers, blanks and variants of others."""
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_STYLING = re.compile(r"\x1b\[[0-9;:]*[mK]")
"""A colour, or the order to empty the rest of a line that tools print beside it."""
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Return rows as aligned columns; the first row is the heading. Trailing space is left out."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))] if rows else []
    return [
        (indent + _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]


def wrapped_table(
    rows: Sequence[Sequence[str]], width: int, indent: str = "  ", room: int = _LAST_COLUMN_MIN
) -> list[list[str]]:
    """Return each row as lines of at most `width` characters.

    The last column is wrapped. If the others leave it no `room`, it goes below them, and they are cut.
    """
    firsts = table([row[:-1] for row in rows], indent)
    column = max((len(line) for line in firsts), default=0) + len(_GAP)
    if width - column >= room:
        return [
            _wrapped(row[-1], width, line.ljust(column), " " * column) or [line]
            for line, row in zip(firsts, rows, strict=True)
        ]
    below = indent * 2
    return [
        [_cut(line, width), *_wrapped(row[-1], width, below, below)]
        for line, row in zip(firsts, rows, strict=True)
    ]


def titled_table(rows: Sequence[Sequence[str]], width: int, indent: str = "  ") -> list[list[str]]:
    """Return each row as lines of at most `width` characters, the heading first. Nothing that somebody has is cut.

    Where there is no room, columns in which nobody has anything are left out. If that is not enough, the last column goes
    below its row, and so do others, with their names, as many as must.
    """
    if _has_room_for_last(rows, width, indent):
        return wrapped_table(rows, width, indent)
    kept = [at for at in range(len(rows[0])) if any(row[at] not in _NOTHING for row in rows[1:])]
    rows = [[row[at] for at in kept] for row in rows] if len(kept) > 1 else rows
    if _has_room_for_last(rows, width, indent):
        return wrapped_table(rows, width, indent)
    shown = len(rows[0]) - 1
    while shown > 1 and max(map(len, table([row[:shown] for row in rows], indent))) > width:
        shown -= 1
    lines = table([row[:shown] for row in rows], indent)
    heading, below = rows[0], indent + _GAP
    return [
        [
            _cut(line, width),
            *_wrapped(_named_cells(heading[shown:-1], row[shown:-1]) if at else "", width, below, below),
            *_wrapped(row[-1], width, below, below),
        ]
        for at, (line, row) in enumerate(zip(lines, rows, strict=True))
    ]


def _has_room_for_last(rows: Sequence[Sequence[str]], width: int, indent: str) -> bool:
    """Tell whether the last column fits beside the others, with none of its words broken: paths and ids stay whole."""
    firsts = table([row[:-1] for row in rows], indent)
    longest = max((len(word) for row in rows for word in row[-1].split()), default=0)
    return width - max(map(len, firsts)) - len(_GAP) >= max(longest, _LAST_COLUMN_MIN)


def _named_cells(names: Sequence[str], cells: Sequence[str]) -> str:
    found = zip(names, cells, strict=True)
    return ", ".join(f"{name.lower()} {cell}" for name, cell in found if cell not in _NOTHING)


def _wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    from textwrap import wrap

    return wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)


def paragraph(text: str, width: int, indent: str = "  ") -> list[str]:
    """Return a text as indented lines of at most `width` characters. No word is broken that fits."""
    return _wrapped(text, width, indent, indent)


def one_line(text: str, width: int = 100) -> str:
    """Return a text of an agent or a tool as one bounded line, without characters that could control a terminal."""
    flat = " ".join(_STYLING.sub("", text).split())
    safe = "".join(c if c.isprintable() else "�" for c in flat)
    return _cut(safe, width)


def shortened(name: str, width: int) -> str:
    """Return a name in at most `width` characters. Its middle goes: names that begin alike differ at their end."""
    if len(name) <= width:
        return name
    end = (width - 1) // 2
    return f"{name[: width - 1 - end]}…{name[len(name) - end :]}" if width > 1 else "…"[:width]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def command_line(text: str) -> str:
    """Return a command as one line of any length; what is not seen, could control a terminal or hide a part is escaped."""
    return "".join(
        c if c.isprintable() and c not in _UNSEEN else c.encode("unicode_escape", "replace").decode()
        for c in text
    )


def wrapped(text: str, width: int, first: str, rest: str) -> list[str]:
    """Return a line as lines of at most `width` characters, with nothing left out, not even spaces."""
    room = max(width - max(len(first), len(rest)), 20)
    lines: list[str] = []
    while len(text) > room:
        at = text.rfind(" ", room // 2, room) + 1 or room
        lines.append(text[:at])
        text = text[at:]
    return [(rest if number else first) + line for number, line in enumerate([*lines, text])]


def block(text: str, indent: str) -> list[str]:
    """Return a text of several lines, indented, without characters that could control a terminal."""
    lines = _STYLING.sub("", text).rstrip().splitlines()
    return [indent + "".join(c if c.isprintable() or c == "\t" else "�" for c in line) for line in lines]


def terminal_safe(text: str) -> str:
    """Return what an agent printed without the characters that would control a terminal; colours stay."""
    parts = _COLOUR.split(text)  # every second one is a colour
    return "".join(part if at % 2 else without_controls(part) for at, part in enumerate(parts))


def percent(share: float | None) -> str:
    """Return `40 %`, or a dash if it is unknown."""
    return "-" if share is None else f"{share:g} %"


def count(number: int, noun: str, plural: str = "") -> str:
    """Return `1 task`, `2 tasks`; `plural` is for nouns that do not just get an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {plural or f'{noun}s'}"


def data_size(size: int) -> str:
    """Return a number of bytes in its largest unit: `4 KiB`, `12 MiB`, `1.5 GiB`."""
    if size >= 2**30:
        return f"{size / 2**30:.1f} GiB"
    if size >= 2**20:
        return f"{size // 2**20} MiB"
    return f"{size // 2**10} KiB" if size >= 2**10 else count(size, "byte")


_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def timestamp(at: float) -> str:
    """Return a wall-clock time for programs: UTC, to the millisecond, with a Z."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_of_day(at: float) -> str:
    """Return the time of day for people, in their own time zone."""
    return f"{datetime.fromtimestamp(at).astimezone():%H:%M:%S}"


def local_time(stamp: str) -> str:
    """Return what `timestamp` made, to the second in the reader's own time zone."""
    return f"{_local(stamp):%Y-%m-%d %H:%M:%S}"


def when(stamp: str, now: float | None = None) -> str:
    """Return what `timestamp` made, for people: `3 min ago`, `14:02`, `yesterday 21:38`, `3 Nov 21:38`, `2025-11-03`."""
    at, today = _local(stamp), datetime.fromtimestamp(time.time() if now is None else now).astimezone()
    ago = (today - at).total_seconds()
    if 0 <= ago < _HOUR:
        return f"{int(ago)} s ago" if ago < _MINUTE else f"{int(ago) // _MINUTE} min ago"
    days = (at.date() - today.date()).days
    if days in (-1, 0, 1):
        return f"{('', 'tomorrow ', 'yesterday ')[days]}{at:%H:%M}"
    near = abs(at - today) < timedelta(days=300)
    return f"{at.day} {at:%b %H:%M}" if near else f"{at:%Y-%m-%d}"


def with_local_times(text: str) -> str:
    """Return a text in which each time that `timestamp` made is one for people."""
    return _TIMESTAMP.sub(lambda found: when(found[0]), text)


def _local(stamp: str) -> datetime:
    return datetime.fromisoformat(stamp).astimezone()


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units: `0.4s`, `12s`, `3m 05s`, `2h 10m`, `3d 4h`."""
    if seconds < 0.95:
        return f"{max(seconds, 0.0):.1f}s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d {whole % _DAY // _HOUR}h"
