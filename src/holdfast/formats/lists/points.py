"""The points of a list as a plan names them, and how one is ticked where it stands.

Pure over bytes. Only what says that a point is open changes: every other byte stays. A point is named by its text, so one
that was reworded or removed is not found again and nothing is ticked in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from holdfast.formats.lists.model import clean
from holdfast.formats.model import ClaimedStatus

_NAME_CHARS = 100
_CUT = "…"
_BELOW = " > "
_BYTE_ORDER_MARK = "\ufeff"


class ListPoint(NamedTuple):
    """A point where it stands in a text.

    `path` has the texts above it, outermost first, and its own. Its status is said by the characters from `start` to `end`;
    `done` takes their place.
    """

    path: tuple[str, ...]
    start: int
    end: int
    done: str
    status: ClaimedStatus


class TickedText(msgspec.Struct, frozen=True, kw_only=True):
    """A file after a tick: its bytes, and for each point that is in it what prevented the tick, or an empty text."""

    content: bytes
    found: dict[str, str]


def one_spaced(text: str) -> str:
    """Return a text as a plan can hold it, on one line with single spaces."""
    return " ".join(clean(text).split())


def point_names(paths: Sequence[tuple[str, ...]]) -> list[str]:
    """Return for each path the shortest name that no other has: its own text, else with what is above it.

    A long name is cut if it stays its own. Points that cannot be told apart have an empty name.
    """
    forms = [_forms(path) for path in paths]
    used: dict[str, int] = {}
    for form in (form for of_one in forms for form in set(of_one)):
        used[form] = used.get(form, 0) + 1
    return [next((form for form in of_one if form and used[form] == 1), "") for of_one in forms]


def _forms(path: tuple[str, ...]) -> list[str]:
    """Return every name of a point, the shortest first: with more and more of what is above it, cut and whole."""
    texts = [one_spaced(text) for text in path]
    wholes = [_BELOW.join(texts[at:]) for at in reversed(range(len(texts)))]
    cut = [f"{whole[:_NAME_CHARS].rstrip()}{_CUT}" for whole in wholes if len(whole) > _NAME_CHARS]
    return [*(whole for whole in wholes if len(whole) <= _NAME_CHARS), *cut, *wholes]


def ticked(text: str, points: Sequence[ListPoint], names: Iterable[str]) -> TickedText:
    """Tick the points with these names, unless somebody did, or decided otherwise about one."""
    by_form: dict[str, list[ListPoint]] = {}
    for point in points:
        for form in dict.fromkeys(_forms(point.path)):
            by_form.setdefault(form, []).append(point)
    found: dict[str, str] = {}
    chosen: set[ListPoint] = set()
    for name in names:
        matching = by_form.get(one_spaced(name), [])
        if len(matching) == 1 and matching[0].status is ClaimedStatus.PENDING:
            chosen.add(matching[0])
        if matching:
            found[name] = _obstacle(matching)
    for point in sorted(chosen, key=lambda point: point.start, reverse=True):
        text = text[: point.start] + point.done + text[point.end :]
    return TickedText(content=text.encode("utf-8", "surrogateescape"), found=found)


def _obstacle(matching: list[ListPoint]) -> str:
    if len(matching) > 1:
        return f"{len(matching)} points of the list have this text"
    status = matching[0].status
    is_fine = status in (ClaimedStatus.PENDING, ClaimedStatus.DONE)
    return "" if is_fine else f"somebody marked it as {status.value}"


def exact_text(data: bytes) -> tuple[str, int]:
    """Return a file's text, from which the same bytes can be made again, and where it begins after a byte order mark."""
    text = data.decode("utf-8", "surrogateescape")
    return text, len(_BYTE_ORDER_MARK) if text.startswith(_BYTE_ORDER_MARK) else 0
