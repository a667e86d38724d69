"""A run over time as a picture: SVG without script or style of its own, which a page may contain, and its legend.

Long times in which nothing happened are folded, so that a run that rested for a weekend is still to be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import NamedTuple

from holdfast.reporting.timeline import (
    STEPS,
    Timeline,
    TimelineBand,
    TimelineBar,
    TimelineLane,
    TimelineMark,
    merged_spans,
)
from holdfast.views.markup import Html, element, joined
from holdfast.views.text import count, duration, one_line

WIDTH = 1000
_LABEL, _RIGHT = 172, 10
_AXIS, _STRIP, _FOOT = 34, 20, 22
_ROW, _DENSE_ROW, _DENSEST_ROW = 28, 12, 5
LANES_MAX, _DENSEST_ABOVE = 60, 300
_FOLD_WIDTH, _FOLD_SHARE, _FOLD_MIN_S = 36, 0.2, 30.0
_LABEL_CHARS = 22
_CHAR_WIDTH = 6.2
_TICK_SPACE = 76
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_SIGNS = {"landed": "✓", "failed": "✗", "lost": "…", "interrupted": "…"}
OUTCOMES = {
    "landed": "landed",
    "done": "done, not landed",
    "failed": "failed",
    "lost": "cut short",
    "interrupted": "interrupted",
    "limited": "at a limit",
    "outage": "provider out of reach",
    "blocked": "needs a person",
    "asked": "asked a person",
    "returned": "given back",
    "under way": "under way",
}
"""What became of an attempt, in words. The outcomes are also the classes of the bars."""
_MARKS = {
    "landing": ("landed",),
    "question, answer, or a person's own work": ("question", "answer", "taken", "given"),
    "conflict, refused merge, or given up": ("conflict", "refused", "vanished", "abandoned"),
    "other moment": ("retry", "skip", "score", "interface", "adopted", "restored"),
}
"""What the dots mean. Those of one meaning have one colour."""
BANDS = {"crash": "no runner", "limit": "limit", "outage": "outage", "pause": "at rest"}


class _Piece(NamedTuple):
    begin: float
    end: float
    left: float
    right: float
    folded: bool


@dataclass(frozen=True, slots=True)
class _Scale:
    """Where each moment is: straight within a piece of time, with pieces in which nothing happened folded."""

    pieces: tuple[_Piece, ...]

    @classmethod
    def of(cls, view: Timeline) -> _Scale:
        """Return the scale of a run."""
        spans = _spans(view)
        open_s = sum(end - begin for begin, end, folded in spans if not folded) or 1.0
        room = WIDTH - _LABEL - _RIGHT - _FOLD_WIDTH * sum(folded for *_, folded in spans)
        pieces: list[_Piece] = []
        left = float(_LABEL)
        for begin, end, folded in spans:
            right = left + (_FOLD_WIDTH if folded else room * (end - begin) / open_s)
            pieces.append(_Piece(begin, end, left, right, folded))
            left = right
        return cls(tuple(pieces))

    def x(self, at: float) -> float:
        """Return the place of a moment."""
        for piece in self.pieces:
            if at <= piece.end:
                length = piece.end - piece.begin
                share = max(0.0, at - piece.begin) / length if length else 0.0
                return piece.left + share * (piece.right - piece.left)
        return self.pieces[-1].right if self.pieces else float(_LABEL)


def _spans(view: Timeline) -> list[tuple[float, float, bool]]:
    """Return the time of a run in pieces; those in which nothing happened for long are to be folded."""
    bars = [(bar.begin, view.end if bar.end is None else bar.end) for lane in view.lanes for bar in lane.bars]
    moments = [(mark.at, mark.at) for lane in view.lanes for mark in lane.marks]
    busy = merged_spans([(view.begin, view.begin), *bars, *moments, (view.end, view.end)])
    least = max(_FOLD_MIN_S, _FOLD_SHARE * sum(end - begin for begin, end in busy))
    spans: list[tuple[float, float, bool]] = []
    since = view.begin
    for (_, ended), (begins, _) in pairwise(busy):
        if begins - ended > least:
            spans += [(since, ended, False), (ended, begins, True)]
            since = begins
    return [*spans, (since, max(view.end, since), False)]


def timeline_picture(view: Timeline) -> Html:
    """Return the picture of a run over time. A reader without eyes for it gets what it shows in words, and a table beside."""
    scale, lines = _Scale.of(view), _lines(view)
    row = _row_height(len(lines))
    bottom = _AXIS + _STRIP + row * len(lines)
    told = (
        f"{count(len(view.lanes), 'task')} from {_moment(view.begin)} to {_moment(view.end)} UTC, with "
        f"{count(sum(bar.kind not in STEPS for lane in view.lanes for bar in lane.bars), 'attempt')}. "
        "The table below has all of it."
    )
    return element(
        "svg",
        element("title", "The run over time", id="timeline-title"),
        element("desc", told, id="timeline-desc"),
        *_bands(view, scale, bottom),
        *_axis(scale, bottom),
        *(
            part
            for place, line in enumerate(lines)
            for part in _line(line, scale, _AXIS + _STRIP + place * row, row, view.end)
        ),
        *_moments(view, scale, bottom),
        viewBox=f"0 0 {WIDTH} {bottom + _FOOT}",
        role="img",
        aria_labelledby="timeline-title timeline-desc",
        class_="timeline",
    )


def how_to_read(view: Timeline) -> str:
    """Return what the lines of the picture are."""
    many = len(view.lanes) > LANES_MAX
    lines = "Tasks one after the other share a line" if many else "A line for each task"
    return f"{lines}: a bar for each attempt, thin ones for checks and landings. Times are UTC."


def legend(view: Timeline) -> Html:
    """Return what the colours mean, only those that the picture has."""
    found = {bar.outcome for lane in view.lanes for bar in lane.bars if bar.kind not in STEPS}
    bands = {band.kind for band in view.bands}
    rows = [(f"bar {_class(name)}", words) for name, words in OUTCOMES.items() if name in found]
    rows += [(f"band {name}", words) for name, words in BANDS.items() if name in bands]
    marks = {mark.kind for lane in view.lanes for mark in lane.marks}
    items = [element("li", _swatch(shape), words) for shape, words in rows]
    items += [
        element("li", _dot(kinds[0]), words) for words, kinds in _MARKS.items() if marks.intersection(kinds)
    ]
    return element("ul", *items, class_="legend", aria_label="What the colours mean")


def _swatch(shape: str) -> Html:
    rect = element("rect", class_=shape, width=14, height=14, rx=3)
    return element("svg", rect, viewBox="0 0 14 14", class_="swatch", aria_hidden="true")


def _dot(kind: str) -> Html:
    circle = element("circle", class_=f"mark {kind}", cx=7, cy=7, r=5)
    return element("svg", circle, viewBox="0 0 14 14", class_="swatch", aria_hidden="true")


def _class(outcome: str) -> str:
    return outcome.replace(" ", "-")


def _lines(view: Timeline) -> list[list[TimelineLane]]:
    """Return which lanes share a line: none, or those one after the other if there are too many for a line each."""
    if len(view.lanes) <= LANES_MAX:
        return [[lane] for lane in view.lanes]
    lines: list[list[TimelineLane]] = []
    free_from: list[float] = []
    for lane in sorted(view.lanes, key=lambda lane: _span(lane, view.end)[0]):
        begin, end = _span(lane, view.end)
        place = next((at for at, free in enumerate(free_from) if free < begin), len(lines))
        if place == len(lines):
            lines.append([])
            free_from.append(end)
        lines[place].append(lane)
        free_from[place] = end
    return lines


def _span(lane: TimelineLane, end: float) -> tuple[float, float]:
    """Return from when to when something happened to a task."""
    moments = [mark.at for mark in lane.marks]
    begins = [*(bar.begin for bar in lane.bars), *moments]
    ends = [*(end if bar.end is None else bar.end for bar in lane.bars), *moments]
    return min(begins, default=end), max(ends, default=end)


def _row_height(lines: int) -> int:
    return _ROW if lines <= LANES_MAX else _DENSE_ROW if lines <= _DENSEST_ABOVE else _DENSEST_ROW


def _moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}"


# -- Parts of the picture -----------------------------------------------------------------------------------


def _axis(scale: _Scale, bottom: int) -> Iterator[Html]:
    """Yield the hours, with a line down through all lanes, and the length of each folded time."""
    before, day = -float(_TICK_SPACE), ""
    for piece in scale.pieces:
        if piece.folded:
            middle, words = (piece.left + piece.right) / 2, f"⋯ {duration(piece.end - piece.begin)}"
            yield element("text", words, x=middle, y=bottom + 15, class_="fold", text_anchor="middle")
            continue
        for at in _ticks(piece):
            x = scale.x(at)
            if x - before < _TICK_SPACE:
                continue
            when = datetime.fromtimestamp(at, UTC)
            today, words = f"{when.day} {when:%b}", f"{when:%H:%M:%S}" if at % 60 else f"{when:%H:%M}"
            # At the right end there is no room after the line.
            anchor = "end" if x + len(words) * _CHAR_WIDTH > WIDTH else "start"
            yield element("line", x1=x, x2=x, y1=_AXIS - 4, y2=bottom, class_="grid")
            if today != day:
                yield element("text", today, x=x, y=12, class_="day", text_anchor=anchor)
            yield element("text", words, x=x, y=26, text_anchor=anchor)
            before, day = x, today


def _ticks(piece: _Piece) -> Iterator[float]:
    """Yield the round times within a piece, or where it begins if there is none."""
    length, width = piece.end - piece.begin, piece.right - piece.left
    step = next((s for s in _STEPS_S if length and s * width / length >= _TICK_SPACE), _STEPS_S[-1])
    at = first = -int(-piece.begin // step) * step
    if first > piece.end:
        yield float(int(piece.begin))
    while at <= piece.end:
        yield float(at)
        at += step


def _bands(view: Timeline, scale: _Scale, bottom: int) -> Iterator[Html]:
    """Yield what kept the run, over all lanes."""
    for band in view.bands:
        left, right = scale.x(band.begin), scale.x(view.end if band.end is None else band.end)
        width = max(right - left, 3.0)
        left = min(left, WIDTH - _RIGHT - width)
        told = element("title", _band_words(band))
        place = {"x": left, "y": _AXIS, "width": width, "height": bottom - _AXIS}
        yield element("rect", told, class_=f"band {band.kind}", **place)
        words = BANDS[band.kind]
        if width > len(words) * _CHAR_WIDTH:
            x = left + width / 2
            yield element("text", words, x=x, y=_AXIS + 13, class_="band-name", text_anchor="middle")


def _band_words(band: TimelineBand) -> str:
    lasted = "and goes on" if band.end is None else duration(band.end - band.begin)
    return f"{BANDS[band.kind]}: {one_line(band.label, 200)} ({lasted})"


def _line(lanes: list[TimelineLane], scale: _Scale, top: int, row: int, end: float) -> Iterator[Html]:
    """Yield one line: the name of its task if it has one alone, and the bars and moments of all."""
    if row == _ROW:
        yield element("line", x1=0, x2=WIDTH - _RIGHT, y1=top + row, y2=top + row, class_="grid")
        name = lanes[0].task if len(lanes) == 1 else count(len(lanes), "task")
        yield element("text", one_line(name, _LABEL_CHARS), x=0, y=top + 16, class_="task")
    for lane in lanes:
        for bar in sorted(lane.bars, key=lambda bar: bar.kind in STEPS):
            yield from _bar(lane.task, bar, scale, top, row, end)
        # Where tasks follow each other closely, the dots of their landings would hide the bars.
        shown = [mark for mark in lane.marks if len(lanes) == 1 or mark.kind != "landed"]
        for mark in shown if row == _ROW else ():
            yield _mark(lane.task, mark, scale.x(mark.at), top + 12)


def _bar(task: str, bar: TimelineBar, scale: _Scale, top: int, row: int, end: float) -> Iterator[Html]:
    ended = end if bar.end is None else bar.end
    left, right = scale.x(bar.begin), scale.x(ended)
    width, words = max(right - left, 2.0), OUTCOMES.get(bar.outcome, bar.outcome)
    told = element("title", f"{task}, {one_line(bar.label, 240)} ({words}, {duration(ended - bar.begin)})")
    if bar.kind in STEPS:
        if row == _ROW:
            shape = f"step {_class(bar.outcome)}"
            yield element("rect", told, class_=shape, x=left, y=top + 21, width=width, height=4, rx=1)
        return
    height = 16 if row == _ROW else row - 2
    y = top + (4 if row == _ROW else 1)
    yield element(
        "rect", told, class_=f"bar {_class(bar.outcome)}", x=left, y=y, width=width, height=height, rx=3
    )
    name = f"{bar.attempt} {bar.kind}"
    sign = _SIGNS.get(bar.outcome, "")
    for inside in (f"{name} {sign}".strip(), f"{bar.attempt} {sign}".strip()):
        if row == _ROW and width > len(inside) * _CHAR_WIDTH + 8:
            yield element("text", inside, x=left + 5, y=y + 12, class_="in-bar")
            return


def _mark(task: str, mark: TimelineMark, x: float, y: int) -> Html:
    told = element("title", f"{task}: {one_line(mark.label, 240)}")
    return element("circle", told, class_=f"mark {mark.kind}", cx=x, cy=y, r=4)


def _moments(view: Timeline, scale: _Scale, bottom: int) -> Iterator[Html]:
    """Yield the moments of the whole run, such as an amendment of its plan."""
    for mark in view.marks:
        x, told = scale.x(mark.at), element("title", one_line(mark.label, 240))
        yield element("line", told, x1=x, x2=x, y1=_AXIS, y2=bottom, class_=f"moment {mark.kind}")


def timeline_table(view: Timeline) -> Html:
    """Return all that the picture shows as a table, in the order of time."""
    rows: list[tuple[float, str, str, str, str]] = []
    for lane in view.lanes:
        for bar in lane.bars:
            ended = view.end if bar.end is None else bar.end
            words = OUTCOMES.get(bar.outcome, bar.outcome)
            rows.append((bar.begin, lane.task, one_line(bar.label, 240), duration(ended - bar.begin), words))
        rows += [(mark.at, lane.task, one_line(mark.label, 240), "", "") for mark in lane.marks]
    for band in view.bands:
        lasted = "" if band.end is None else duration(band.end - band.begin)
        rows.append((band.begin, "", f"{BANDS[band.kind]}: {one_line(band.label, 240)}", lasted, ""))
    rows += [(mark.at, "", one_line(mark.label, 240), "", "") for mark in view.marks]
    head = element(
        "tr",
        *(element("th", name, scope="col") for name in ("Time (UTC)", "Task", "What", "How long", "Outcome")),
    )
    body = [
        element("tr", element("td", _moment(at)), *(element("td", cell) for cell in cells))
        for at, *cells in sorted(rows, key=lambda one: one[0])
    ]
    caption = element("caption", "Everything in the picture, in the order of time")
    return element("table", caption, element("thead", head), element("tbody", joined(*body)))
