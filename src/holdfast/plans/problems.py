"""Problems of a plan or workflow file: collected during reading, and reported in one error, in line order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from holdfast.core.plan_rules import Where
from holdfast.errors import PlanError, quoted
from holdfast.plans.source import SourceMarks, SourceText, plan_error

MAX_REPORTED = 20


class Problem(NamedTuple):
    """One thing to correct. `quote` offers the value's own spelling in quotes; `first` is the place it clashes with."""

    at: Where
    what: str
    quote: bool = False
    first: Where | None = None


class Problems:
    """The problems found so far. Once it is full, the reader stops looking for more."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    @property
    def full(self) -> bool:
        """Whether more were found than are reported."""
        return len(self.found) > MAX_REPORTED

    def add(self, at: Where, what: str, *, quote: bool = False, first: Where | None = None) -> None:
        """Note one problem."""
        if not self.full:
            self.found.append(Problem(at, what, quote, first))


def problems_error(source: SourceText, problems: Iterable[Problem], marks: SourceMarks) -> PlanError:
    """Return the error that names every problem by file, line and field."""
    twice = [(line, _duplicate_line(source, at, line, marks)) for at, line in marks.twice]
    others = [(marks.line(problem.at), _problem_line(source, problem, marks)) for problem in problems]
    lines = [text for _, text in sorted(twice + others, key=lambda entry: entry[0])]
    more = ["… and more; these come first"] if len(lines) > MAX_REPORTED else []
    return plan_error(source.name, lines[:MAX_REPORTED] + more)


def _duplicate_line(source: SourceText, at: Where, line: int, marks: SourceMarks) -> str:
    first = marks.line(at)
    return f"{source.name}:{line}: {field_path(at)}: this key was already given on line {first}; keep one of them"


def _problem_line(source: SourceText, problem: Problem, marks: SourceMarks) -> str:
    place = f"{field_path(problem.at)}: " if problem.at else ""
    quote = f"; quote it: {quoted(marks.texts.get(problem.at, ''))}" if problem.quote else ""
    first = f" (first on line {marks.line(problem.first)})" if problem.first else ""
    return f"{source.name}:{marks.line(problem.at)}: {place}{problem.what}{quote}{first}"


def field_path(at: Where) -> str:
    """Spell a place as `stages[0].tasks[2].needs`; a key that could confuse a terminal is quoted."""
    spelled = ""
    for part in at:
        if isinstance(part, int):
            spelled += f"[{part}]"
        else:
            simple = part.isprintable() and 0 < len(part) <= 64 and "." not in part
            spelled += ("." if spelled else "") + (part if simple else quoted(part))
    return spelled
