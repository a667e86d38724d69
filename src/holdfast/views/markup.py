"""HTML and SVG as text in which nothing that somebody wrote can be markup: every string is escaped where it is put in.

Only `element` makes markup, and only from names and attributes of our own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from holdfast.views.text import one_line, timestamp

_VOID = frozenset({"br", "link", "meta"})
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_RAW = frozenset({"style"})
"""What browsers do not unescape. It is ours alone: see `raw_style`."""
Attribute = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Html:
    """A piece of markup that is safe to put into another."""

    text: str


Piece = Html | str
"""What an element may contain: other elements, and text, which is escaped."""


def element(name: str, /, *children: Piece, **attributes: Attribute) -> Html:
    """Return an element. `class_` is the attribute `class`; `_` in a name stands for a dash. None and False are left out."""
    if not _NAME.fullmatch(name) or name in _RAW:
        raise ValueError(f"{name} is not an element that can be made here")
    opening = f"<{name}{''.join(map(_attribute, attributes.items()))}>"
    return Html(opening if name in _VOID else f"{opening}{joined(*children).text}</{name}>")


def joined(*parts: Piece) -> Html:
    """Return pieces one after the other; text is escaped."""
    return Html("".join(part.text if isinstance(part, Html) else escape(part) for part in parts))


def raw_style(rules: str) -> Html:
    """Return a style sheet of our own. Nothing in it may end the element."""
    if "<" in rules:
        raise ValueError("a style sheet has no `<`")
    return Html(f"<style>{rules}</style>")


def _attribute(pair: tuple[str, Attribute]) -> str:
    name, value = pair
    if value is None or value is False:
        return ""
    spelled = name.removesuffix("_").replace("_", "-")
    if not _NAME.fullmatch(spelled):
        raise ValueError(f"{spelled} is not an attribute")
    return f" {spelled}" if value is True else f' {spelled}="{escape(_number(value))}"'


def _number(value: str | int | float) -> str:
    """Return a value as it is written: coordinates without digits that nobody sees."""
    return f"{round(value, 1):g}" if isinstance(value, float) else str(value)


# -- Pieces that pages share --------------------------------------------------------------------------------


def data_table(heading: Sequence[str], rows: Sequence[Sequence[Piece]], numbers: Sequence[str] = ()) -> Html:
    """Return a table that scrolls by itself if it is too wide, with the columns of `numbers` to the right."""
    names = [
        element("th", name, scope="col", class_="number" if name in numbers else None) for name in heading
    ]
    body = element("tbody", *(element("tr", *row) for row in rows))
    table = element("table", element("thead", element("tr", *names)), body)
    return element(
        "div", table, class_="scroll", tabindex="0", role="region", aria_label=f"Table: {', '.join(heading)}"
    )


def row_head(name: str) -> Html:
    """Return the name of a row."""
    return element("th", one_line(name, 80), scope="row")


def words_cell(text: str) -> Html:
    """Return a cell for a sentence."""
    return element("td", text, class_="words")


def code(text: str) -> Html:
    """Return a name or a command of a program."""
    return element("code", text)


def time_of(stamp: str) -> Html:
    """Return what `timestamp` made, to the second, for people and for programs."""
    return element("time", stamp[:19].replace("T", " "), datetime=stamp)


def moment_cell(at: float) -> Html:
    """Return a cell with a moment."""
    return element("td", time_of(timestamp(at)), class_="time")
