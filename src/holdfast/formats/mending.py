"""What is left of a JSON file that breaks off in the middle: everything that was written to its end."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.formats.loose import Node, has_conflict, object_in

_CLOSERS = {"{": "}", "[": "]"}
_TRIES = 50
"""The end of the file is where it broke; what does not parse when fifty values less are taken never will."""


def whole_part(data: bytes) -> Node:
    """Return the object that a broken file holds up to where it breaks off; an empty one if nothing is left of it.

    Between the sides of a merge conflict only a person can choose: nothing is taken of such a file.
    """
    if has_conflict(data):
        return {}
    beginnings = _closed_beginnings(data.decode("utf-8", "replace"))
    return next(filter(None, (object_in("", text.encode()) for text in beginnings)), {})


def _closed_beginnings(text: str) -> Iterator[str]:
    """Yield beginnings of a broken text, each closed where a value ended, the longest first."""
    for at, closers in reversed(_value_ends(text)[-_TRIES:]):
        yield text[:at] + closers


def _value_ends(text: str) -> list[tuple[int, str]]:
    """Return each place after which an object or a list has just ended, with what would close the rest."""
    found: list[tuple[int, str]] = []
    open_at: list[str] = []
    in_string = escaped = False
    for at, sign in enumerate(text, 1):
        if in_string:
            in_string = escaped or sign != '"'
            escaped = sign == "\\" and not escaped
        elif sign == '"':
            in_string = True
        elif sign in _CLOSERS:
            open_at.append(_CLOSERS[sign])
        elif open_at and sign == open_at[-1]:
            open_at.pop()
            found.append((at, "".join(reversed(open_at))))
    return found
