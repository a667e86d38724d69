"""Check boxes in Markdown: each with its text, its depth, the headings above it and the lines below it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from holdfast.formats.markdown import HEADING, plain_lines, title
from holdfast.formats.model import Standing

_BOX = re.compile(r"(\s*)(?:[-*+]|\d+[.)])\s+\[([^\]\[])\]\s+(.*)")
_STRUCK = re.compile(r"~~.+~~\W*")
_COMMENT = ("<!--", "-->")
_TAB = "    "
_MARKS = {**dict.fromkeys("xX✓✔✅", Standing.DONE), **dict.fromkeys("-~", Standing.SKIPPED)}


@dataclass(slots=True)
class Box:
    """One check box. `mark` is what stands in it, `below` the indented lines that belong to it."""

    text: str
    mark: str
    indent: int
    headings: tuple[str, ...]
    below: list[str] = field(default_factory=list)

    @property
    def standing(self) -> Standing:
        """What the mark says: ticked, struck out, or still to be done. A mark that nobody knows says nothing."""
        if self.mark == " " and _STRUCK.fullmatch(self.text):
            return Standing.SKIPPED
        return _MARKS.get(self.mark, Standing.PENDING)

    @property
    def said(self) -> str:
        """How a person would say what the mark is."""
        return {Standing.DONE: "ticked", Standing.SKIPPED: "struck out"}.get(self.standing, f"[{self.mark}]")


def without_comments(text: str) -> str:
    """Return a text without HTML comments, its line numbers as they were."""
    kept, at = "", 0
    while (begin := text.find(_COMMENT[0], at)) >= 0 and (end := text.find(_COMMENT[1], begin)) >= 0:
        kept += text[at:begin] + "\n" * text.count("\n", begin, end)
        at = end + len(_COMMENT[1])
    return kept + text[at:]


def boxes(text: str) -> list[Box]:
    """Return every check box of a text, in order. Lines that are indented below one belong to it."""
    found: list[Box] = []
    headings: list[tuple[int, str]] = []
    is_open = False
    for line in plain_lines(without_comments(text).replace("\r\n", "\n")):
        line = line.replace("\t", _TAB)
        if heading := HEADING.match(line):
            headings = [above for above in headings if above[0] < len(heading[1])]
            headings.append((len(heading[1]), heading[2]))
            is_open = False
        elif box := _BOX.match(line):
            titles = tuple(words for _, words in headings)
            found.append(Box(box[3].strip(), box[2], len(box[1]), titles))
            is_open = True
        elif is_open and line.strip():
            is_open = line.startswith(" ")
            if is_open:
                found[-1].below.append(line.strip())
    return found


def first_heading(text: str) -> str:
    """Return the title of a text: its first heading."""
    return title(without_comments(text))
