"""Escapes in the text of others: decoded, to judge what a reader would see, or made harmless, to show it to one.

A secret after `\\n` in JSON, in colours, or percent-encoded is still one: who looks for it looks at the decoded text. A
leaf module, as small as can be: every supervisor has it in its memory.
"""

from __future__ import annotations

from bisect import bisect_right

_MARKS = bytes.maketrans(b"\x1b%", b"\\\\")
_MARK = b"\\"
_ESC, _PERCENT = 0x1B, ord("%")
_LINE_ENDS = ((b"\\n", b" \n"), (b"\\r", b" \r"), (b"\\t", b" \t"), (b'\\"', b' "'))
"""The usual escapes of JSON, each with what stands for it at the same length: most need no note of their place."""
_ESCAPES = {b"u": (1, 4, 16), b"x": (1, 2, 16), b"0": (0, 3, 8)}
"""Where the digits of `\\u001b`, `\\x1b` and `\\033` begin, how many there are, and their base."""
_PARAMETERS = b"0123456789;:?<=>"
ESCAPE_BYTES_MAX = 16
"""No escape is longer, but for a colour with very many parameters."""


_LINE_BREAK = "\r\n"
_STEERING = {
    code: "�"
    for codes in (range(9), range(11, 32), range(0x7F, 0xA0), range(0x202A, 0x202F), range(0x2066, 0x206A))
    for code in codes
}
"""Characters that move the cursor, begin a command of the terminal, or turn the direction of reading."""


def without_controls(text: str) -> str:
    """Return a text that cannot steer the terminal it is shown on; tabs and line ends stay."""
    return _LINE_BREAK.join([line.translate(_STEERING) for line in text.split(_LINE_BREAK)])


class DecodedText:
    """Bytes without their escapes, in `text`, and where each of its characters stands in the bytes."""

    def __init__(self, data: bytes) -> None:
        if _MARK in data:
            for escape, same_length in _LINE_ENDS:
                data = data.replace(escape, same_length)
        parts = data.translate(_MARKS).split(_MARK)
        self._views, self._places, self._widths = [0], [0], [1]
        self.text = self._decode(data, parts) if len(parts) > 1 else data

    def is_after_escape(self, at: int) -> bool:
        """Tell whether an escape stands directly before a character."""
        piece = bisect_right(self._views, at) - 1
        return piece > 0 and self._views[piece] == at

    def length_of(self, place: int) -> int:
        """Return how many characters of the text stand before a place in the bytes."""
        piece = bisect_right(self._places, place - 1) - 1
        end = self._views[piece + 1] if piece + 1 < len(self._views) else len(self.text)
        return min(self._views[piece] + place - self._places[piece], end)

    def place(self, begin: int, end: int) -> tuple[int, int]:
        """Return where a part of the text stands in the bytes."""
        first = bisect_right(self._views, begin) - 1
        last = bisect_right(self._views, end - 1) - 1
        within = end - 1 - self._views[last]
        return (
            self._places[first] + begin - self._views[first],
            self._places[last] + (within + 1 if within else self._widths[last]),
        )

    def _decode(self, data: bytes, parts: list[bytes]) -> bytes:
        """Return the text of the parts between the marks of escapes, and note where each piece of it stands."""
        out, views, places, widths = [parts[0]], self._views, self._places, self._widths
        view = place = len(parts[0])
        for part in parts[1:]:
            char, used = _decoded(data[place], part)
            if char:
                views.append(view)
                places.append(place)
                widths.append(1 + used)
                out.append(char)
                view += 1
            views.append(view)
            places.append(place + 1 + used)
            widths.append(1)
            out.append(part[used:] if used else part)
            view += len(part) - used
            place += 1 + len(part)
        return b"".join(out)


def _decoded(mark: int, part: bytes) -> tuple[bytes, int]:
    """Return the character that an escape stands for, if any, and how many bytes after its mark belong to it."""
    if mark == _ESC:
        return b"", _control_sequence(part, 0)
    if mark == _PERCENT:
        code = _number(part[:2], 16)
        return (bytes([code]), 2) if code is not None and len(part) >= 2 else (b"%", 0)
    if part[:2] == b"e[":
        return b"", _control_sequence(part, 1)
    first, digits, base = _ESCAPES.get(part[:1], (0, 0, 0))
    code = _number(part[first : first + digits], base) if digits and len(part) >= first + digits else None
    if code is None:
        return b"", 0  # a backslash before anything else only protects it
    if code == _ESC:
        return b"", _control_sequence(part, first + digits)
    return bytes([code]) if code < 128 else b"?", first + digits


def _control_sequence(part: bytes, at: int) -> int:
    """Return where the terminal's control sequence ends that began before `at`: `[1;31m` and the like."""
    if part[at : at + 1] != b"[":
        return at
    rest = part[at + 1 :]
    end = at + 1 + len(rest) - len(rest.lstrip(_PARAMETERS))
    return min(end + 1, len(part))


def _number(digits: bytes, base: int) -> int | None:
    try:
        return int(digits, base) if digits.isalnum() else None
    except ValueError:
        return None
