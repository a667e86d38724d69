"""Reads JSON that models and people wrote by hand, with aliases and odd types; also truncated JSON.

Nothing is trusted, and nothing odd is fatal. A document that is not JSON raises `BrokenFileError`, which says
what is wrong and what to do. Times are here too: seconds since 1970 in Holdfast, ISO 8601 in UTC in the
files.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.errors import HoldfastError

_APPLE_DOUBLE = b"\x00\x05\x16\x07"
_RESTORE = (
    "Restore it from a backup or from git history, or adopt the folder: what else is there may be enough."
)
_NUMBER_MAX = 10**9
_COMMIT = re.compile(r"[0-9A-Za-z][0-9A-Za-z-]{3,63}")
_MINUTE = re.compile(r"\s*(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})")
_CLOSERS = {"{": "}", "[": "]"}
_TRIES = 50
"""A truncated file is broken at its end.

A text that does not parse without its last fifty values never will.
"""

_DEPTH_MAX = 100

Node = dict[str, Any]
"""An object of a foreign document. It never leaves `formats/`: readers turn it into a `ForeignRun`."""


class BrokenFileError(HoldfastError):
    """A file of another system cannot be read. It is left exactly as it is."""


def parse_object(path: str, data: bytes) -> Node:
    """Return the JSON object that a file holds. Raises BrokenFileError with the reason and the remedy."""
    _refuse_unreadable(path, data)
    try:
        encoding = "utf-16" if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig"
        found = msgspec.json.decode(data.decode(encoding))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        is_cut_off = "truncated" in str(error) or data.rstrip()[-1:] not in b"}]"
        reason = "the JSON breaks off in the middle" if is_cut_off else "this is no valid JSON"
        raise BrokenFileError(f"{path}: {reason} ({error})", _RESTORE) from None
    if not isinstance(found, dict):
        kind = type(found).__name__
        raise BrokenFileError(
            f"{path}: an object was expected, not a {kind}", "Point adopt at the state file."
        )
    return found


def object_in(path: str, data: bytes) -> Node:
    """Return the JSON object that a file holds, or an empty one if it holds none."""
    try:
        return parse_object(path, data)
    except BrokenFileError:
        return {}


def _refuse_unreadable(path: str, data: bytes) -> None:
    for is_so, reason, way_out in (
        (not data.strip(), "the file is empty", _RESTORE),
        (
            data.startswith(_APPLE_DOUBLE),
            "this is an AppleDouble companion (._…), not the file itself",
            "Point adopt at the file of the same name without `._`.",
        ),
        (
            has_conflict(data),
            "it holds an unresolved merge conflict (<<<<<<<)",
            "Choose a side in a copy of the file and adopt that copy; the original is left as it is.",
        ),
    ):
        if is_so:
            raise BrokenFileError(f"{path}: {reason}", way_out)


def has_conflict(data: bytes) -> bool:
    """Tell whether a file has unresolved merge conflicts."""
    return re.search(rb"^(<{7}|>{7}) ", data, re.MULTILINE) is not None


class Key:
    """One value of foreign documents under all its names, the current one first: a row of aliases."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def raw(self, entry: Node) -> Any:
        """Return the first value under one of the names that is not empty, unchanged; else None."""
        found = (entry.get(name) for name in self.names)
        return next((value for value in found if value or value == 0), None)

    def text(self, entry: Node) -> str:
        """Return the value as text."""
        return text(self.raw(entry))

    def text_or_self(self, value: Any) -> str:
        """Return the text of an object's value, or a bare text itself: lists often hold both."""
        return text(self.raw(value) if isinstance(value, dict) else value)

    def texts(self, entry: Node) -> tuple[str, ...]:
        """Return the texts of the value: a list or a single text."""
        return texts(self.raw(entry))

    def count(self, entry: Node) -> int:
        """Return the value as a number of things."""
        return count(self.raw(entry))

    def node(self, entry: Node) -> Node:
        """Return the value as an object, or an empty one."""
        return node(self.raw(entry))

    def nodes(self, entry: Node) -> list[Node]:
        """Return the objects of the value: a list of them or an object that maps names to them."""
        return nodes(self.raw(entry))

    def all_texts(self, entry: Node) -> tuple[str, ...]:
        """Return the texts under all names, each once."""
        return tuple(dict.fromkeys(each for name in self.names for each in texts(entry.get(name))))


_UPDATED = Key(
    "updated_at",
    "updatedAt",
    "last_updated",
    "lastUpdated",
    "last_update",
    "last_checkpoint",
    "lastCheckpoint",
)
_MESSAGE = Key("message", "error", "type")
_HASH = Key("hash", "sha", "commit")


def text(value: Any) -> str:
    """Return a name, a sentence or a number as text; anything else is empty."""
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < _NUMBER_MAX:
        value = int(value)
    return str(value).strip() if isinstance(value, str | int | float) else ""


def line(said: str, most: int) -> str:
    """Return a text as one line, with a limit on its length."""
    flat = " ".join(said.split())
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def message(error: Any) -> str:
    """Return the message of an error: a sentence or an object with one."""
    return _MESSAGE.text_or_self(error)


def count(value: Any) -> int:
    """Return a count in any notation. Invalid or negative values are 0."""
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,9}\s*", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        return 0
    return int(min(max(value, 0), _NUMBER_MAX))


def node(value: Any) -> Node:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return a list: a single value becomes a list of one, nothing an empty list."""
    if isinstance(value, list):
        return value
    return [] if value in (None, "", {}) else [value]


def nodes(value: Any) -> list[Node]:
    """Return the objects of a list, or of an object that maps names to objects, with `id` filled in."""
    if isinstance(value, dict):
        return [{"id": key, **child} for key, child in value.items() if isinstance(child, dict)]
    return [child for child in items(value) if isinstance(child, dict)]


def texts(value: Any) -> tuple[str, ...]:
    """Return the texts of a list; a single text is a list of one."""
    return tuple(found for child in items(value) if (found := text(child)))


def commits(value: Any) -> tuple[str, ...]:
    """Return the commits of a list, each once: texts, or objects with one. A text counts if it could be
    the beginning of a hash; git must not read it as an option or a range. A number is a count, not a
    commit."""
    said = (_HASH.raw(each) if isinstance(each, dict) else each for each in items(value))
    found = (each.strip() for each in said if isinstance(each, str))
    return tuple(dict.fromkeys(each for each in found if _COMMIT.fullmatch(each)))


def walk(value: Any) -> Iterator[Any]:
    """Yield every value of a document, without recursion: the file may be nested to any depth."""
    waiting = [value]
    while waiting:
        at = waiting.pop()
        yield at
        waiting.extend(at.values() if isinstance(at, dict) else at if isinstance(at, list) else ())


def to_json(document: Node) -> bytes:
    """Return a document as readable JSON: indented by two spaces, one newline at the end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def truncated_object(data: bytes) -> Node:
    """Return the readable beginning of a truncated file as an object; an empty one if there is none.

    A file with a merge conflict gives an empty one: only a person can choose between the sides.
    """
    return _longest_part(data, _value_ends)


def beginning(data: bytes) -> Node:
    """Return all that a truncated file still says, also of objects that are cut off; an empty object if it says nothing.

    Entries of lists are taken whole or not at all: of half an entry nobody knows what it would have said.
    """
    return _longest_part(data, _member_ends)


def _longest_part(data: bytes, ends: Callable[[str], list[tuple[int, str]]]) -> Node:
    """Return the object up to the last of these ends at which the file can be read."""
    if has_conflict(data):
        return {}
    content = data.decode("utf-8-sig", "replace")
    for at, closers in reversed(ends(content)[-_TRIES:]):
        if found := object_in("", (content[:at] + closers).encode()):
            return found
    return {}


def _member_ends(text: str) -> list[tuple[int, str]]:
    """Return each position where a member of an object may end, and of each list where an entry does, with the brackets
    that close the rest.

    A position inside of an entry of a list is none.
    """
    return [
        (at if sign == "," else at + 1, "".join(reversed(open_at)))
        for at, sign, open_at in _ends(text)
        if open_at and "]" not in open_at[:-1]
    ]


def time_in(data: bytes) -> float:
    """Return when a state says that it was last changed, in seconds since 1970; 0 if it does not say so.

    Its own word is at its top; else the newest of the objects in it counts.
    """
    document = object_in("", data) or beginning(data)
    parts = [part for part in document.values() if isinstance(part, dict)]
    inner = [one for part in parts for one in part.values() if isinstance(one, dict)]
    for level in ([document], parts, inner):
        if times := [at for part in level if (at := parse_time(_UPDATED.text(part)))]:
            return max(times)
    return 0.0


def _value_ends(text: str) -> list[tuple[int, str]]:
    """Return each position where an object or a list ends, with the brackets that close the rest."""
    return [
        (at + 1, "".join(reversed(open_at))) for at, sign, open_at in _ends(text) if sign in _CLOSERS.values()
    ]


def _ends(text: str) -> Iterator[tuple[int, str, list[str]]]:
    """Yield each quote, comma and bracket that ends something, and the brackets that close what is open there.

    Nothing is looked for behind nesting that no system writes: its brackets would take the square of its depth.
    """
    open_at: list[str] = []
    in_string = escaped = False
    for at, sign in enumerate(text):
        if in_string:
            in_string = escaped or sign != '"'
            escaped = sign == "\\" and not escaped
            if not in_string:
                yield at, sign, open_at
        elif sign == '"':
            in_string = True
        elif sign in _CLOSERS:
            if len(open_at) == _DEPTH_MAX:
                return
            open_at.append(_CLOSERS[sign])
        elif sign == ",":
            yield at, sign, open_at
        elif open_at and sign == open_at[-1]:
            open_at.pop()
            yield at, sign, open_at


def iso_time(seconds: float | None) -> str | None:
    """Return a time as `2025-01-11T10:00:00Z`, or None if it is unknown."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def minute(seconds: float) -> str:
    """Return a time as people read it in a table: `2026-01-23 14:45`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def minute_of(written: str) -> str:
    """Return a time from a file as a minute; an invalid time is shown unchanged but shortened."""
    found = _MINUTE.match(written)
    return f"{found[1]} {found[2]}" if found else written.strip()[:16]


def parse_time(written: str) -> float:
    """Return a time from a file as seconds since 1970; an invalid time counts as very old."""
    try:
        at = datetime.fromisoformat(written)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0
