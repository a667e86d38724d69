"""Check boxes in Markdown, and a plain checklist: headings are stages, boxes are tasks, from top to bottom.

Lines and boxes indented below a box are part of its task, which is not done while a part is open. Only boxes
numbered like `1.2` below a box `1` are separate tasks: then the outer box is only a heading. People work a
list from top to bottom, so each task waits for the previous one, unless the user asks for parallel tasks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from posixpath import basename

from holdfast.formats.lists.model import ImportedPlan, ImportOptions, ListEntry, into_plan, words
from holdfast.formats.lists.points import ListPoint, exact_text, point_names
from holdfast.formats.markdown import HEADING, decoded, paragraphs, plain_lines, title
from holdfast.formats.model import ClaimedStatus
from holdfast.formats.plan_assembly import StageDraft

_BOX = re.compile(r"(\s*)(?:[-*+]|\d+[.)])\s+\[([^\]\[])\]\s+(.*)")
_STRUCK = re.compile(r"~~.+~~\W*")
_COMMENT = ("<!--", "-->")
_TAB = "    "
_MARKS = {**dict.fromkeys("xX✓✔✅", ClaimedStatus.DONE), **dict.fromkeys("-~", ClaimedStatus.SKIPPED)}
_NUMBER = re.compile(r"(\d{1,6}(?:\.\d{1,6}){1,5})[.):]?\s+")
_ANY_NUMBER = re.compile(r"\A(\d{1,6}(?:\.\d{1,6}){0,5})[.):]?\s+")
_NO_STAGE = "tasks"
_TICK = "x"
_SAID = {ClaimedStatus.DONE: "ticked", ClaimedStatus.SKIPPED: "struck out"}


@dataclass(slots=True)
class CheckBox:
    """One check box. `mark` is the sign in it, `below` the indented lines that belong to it.

    `line` is the number of its line, `outer` the texts of the boxes around it; `point` is its name in a plan.
    """

    text: str
    mark: str
    indent: int
    headings: tuple[str, ...]
    below: list[str] = field(default_factory=list)
    line: int = 0
    outer: tuple[str, ...] = ()
    point: str = ""

    @property
    def status(self) -> ClaimedStatus:
        """What the mark means: ticked, struck out, or open. An unknown mark means nothing."""
        if self.mark == " " and _STRUCK.fullmatch(self.text):
            return ClaimedStatus.SKIPPED
        return _MARKS.get(self.mark, ClaimedStatus.PENDING)

    @property
    def said(self) -> str:
        """The mark in words."""
        return _SAID.get(self.status, f"[{self.mark}]")


def without_comments(text: str) -> str:
    """Return a text without HTML comments, with the same line numbers."""
    kept, at = "", 0
    while (begin := text.find(_COMMENT[0], at)) >= 0 and (end := text.find(_COMMENT[1], begin)) >= 0:
        kept += text[at:begin] + "\n" * text.count("\n", begin, end)
        at = end + len(_COMMENT[1])
    return kept + text[at:]


def boxes(text: str) -> list[CheckBox]:
    """Return every check box of a text, in order. Lines indented below one belong to it."""
    found: list[CheckBox] = []
    headings: list[tuple[int, str]] = []
    is_open = False
    for number, line in enumerate(plain_lines(without_comments(text).replace("\r\n", "\n"))):
        line = line.replace("\t", _TAB)
        if heading := HEADING.match(line):
            headings = [above for above in headings if above[0] < len(heading[1])]
            headings.append((len(heading[1]), heading[2]))
            is_open = False
        elif box := _BOX.match(line):
            titles = tuple(words for _, words in headings)
            found.append(CheckBox(box[3].strip(), box[2], len(box[1]), titles, line=number))
            is_open = True
        elif is_open and line.strip():
            is_open = line.startswith(" ")
            if is_open:
                found[-1].below.append(line.strip())
    _name_points(found)
    return found


def _name_points(found: list[CheckBox]) -> None:
    """Note around each box which boxes it is in, and what a plan calls it."""
    around: list[CheckBox] = []
    for box in found:
        around = [one for one in around if one.indent < box.indent and one.headings == box.headings]
        box.outer = tuple(one.text for one in around)
        around.append(box)
    for box, name in zip(found, point_names([_path(box) for box in found]), strict=True):
        box.point = name


def _path(box: CheckBox) -> tuple[str, ...]:
    return (*box.headings, *box.outer, box.text)


def points(data: bytes) -> tuple[str, list[ListPoint]]:
    """Return the text of a list, and where the mark of each of its boxes is."""
    text, begin = exact_text(data)
    starts, lines = [begin], text[begin:].split("\n")
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    found: list[ListPoint] = []
    for box in boxes(text[begin:]):
        if there := _BOX.match(lines[box.line]):
            at = starts[box.line] + there.start(2)
            found.append(ListPoint(_path(box), at, at + 1, _TICK, box.status))
    return text, found


def first_heading(text: str) -> str:
    """Return the title of a text: its first heading."""
    return title(without_comments(text))


def read(path: str, documents: Mapping[str, bytes], options: ImportOptions) -> ImportedPlan:
    """Return the plan of a checklist."""
    text = decoded(documents.get(path, b""))
    goal = first_heading(text) or basename(path)
    entries: list[ListEntry] = []
    taken: set[str] = set()
    for whole, box, parts in _grouped(boxes(text)):
        entry = _entry(len(entries) + 1, goal, whole, box, parts)
        if entry.native in taken:
            entry.native += f"-{len(entries) + 1}"
        taken.add(entry.native)
        entries.append(entry)
    if not options.parallel:
        _wait_in_order(entries)
    names = dict.fromkeys(entry.stage for entry in entries)
    stages = [StageDraft(native=name, title="" if name == _NO_STAGE else name) for name in names]
    return into_plan(path, goal, stages, entries, options)


def _grouped(found: list[CheckBox]) -> list[tuple[str, CheckBox, list[CheckBox]]]:
    """Return each task as its heading, its box, and the boxes of its parts."""
    groups: list[tuple[str, CheckBox, list[CheckBox]]] = []
    outer: CheckBox | None = None
    for box in found:
        if outer is None or box.indent <= outer.indent or box.headings != outer.headings:
            outer = box
            groups.append(("", box, []))
        elif _NUMBER.match(box.text):
            if groups[-1][1] is outer and not groups[-1][2]:
                groups.pop()
            groups.append((outer.text, box, []))
        else:
            groups[-1][2].append(box)
    return groups


def _entry(place: int, goal: str, whole: str, box: CheckBox, parts: list[CheckBox]) -> ListEntry:
    title = _ANY_NUMBER.sub("", box.text, count=1) or box.text
    number = _ANY_NUMBER.match(box.text)
    name = number[1] if number else f"{place:02}"
    # The nearest heading is the stage, unless it is the title of the document.
    stage = next((heading for heading in reversed(box.headings) if heading != goal), _NO_STAGE)
    section = "" if stage == _NO_STAGE else f", under “{stage}”"
    done = [part.text for part in parts if part.status is ClaimedStatus.DONE]
    left = [part for part in parts if part.status is ClaimedStatus.PENDING]
    overlooked = bool(left) and box.status is ClaimedStatus.DONE
    return ListEntry(
        native="-".join(filter(None, (name, words(title)))),
        stage=stage,
        title=title or f"Item {place}",
        prompt=paragraphs(
            title,
            "\n".join(box.below),
            *("\n".join([f"- {part.text}", *part.below]) for part in left),
            "The point itself is ticked, but these parts of it are not: do them." if overlooked else "",
            f"These parts are done already: {'; '.join(done)}." if done else "",
            f"It is part of: {_ANY_NUMBER.sub('', whole, count=1)}." if whole else "",
            f"This is one point of the list “{goal}”{section}. Do this point only.",
        ),
        status=ClaimedStatus.PENDING if overlooked else box.status,
        said=box.said,
        points=tuple(filter(None, (one.point for one in (box, *left)))),
    )


def _wait_in_order(entries: list[ListEntry]) -> None:
    """Let each task wait for the last open one before it in its stage, else for the previous one."""
    last_open = ""
    for before, entry in pairwise(entries):
        if before.stage != entry.stage:
            last_open = ""
            continue
        if before.status is ClaimedStatus.PENDING:
            last_open = before.native
        entry.needs = (last_open or before.native,)
