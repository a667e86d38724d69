"""Reads and writes the specification of a SpecFlow run, in Markdown: its goal and its task groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.formats import markdown
from holdfast.formats.exported_run import ExportedRun
from holdfast.formats.lenient_json import minute
from holdfast.formats.plan_assembly import levels

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")
_NO_NAMES = ("none", "n/a", "nothing", "no", "and", "all", "wave")
_GROUP = ("group", "id")
_TASKS = ("tasks", "task", "description")
_NEEDS = ("dependencies", "depends on", "depends_on", "deps")
_WHOLE_CHARS = 12_000


@dataclass(frozen=True, slots=True)
class SpecGroup:
    """One row of the task groups: its name, what it does, the groups it builds on, and its wave."""

    name: str
    tasks: str
    needs: tuple[str, ...]
    wave: int


@dataclass(frozen=True, slots=True)
class Spec:
    """The parts of a specification that a run needs."""

    id: str
    title: str
    status: str
    task: str
    criteria: tuple[str, ...]
    groups: tuple[SpecGroup, ...]

    @property
    def whole(self) -> str:
        """What an agent is told about the specification as a whole."""
        criteria = markdown.bulleted("Acceptance criteria of the whole", self.criteria)
        return markdown.paragraphs(self.title, self.task, criteria)[:_WHOLE_CHARS]


def parse_spec(text: str) -> Spec:
    """Return what a specification says; what is missing is empty."""
    front = markdown.front_matter(text)
    title = markdown.title(text)
    named, rest = re.findall(r"(?:SPEC:\s*)?(SPEC-[\w.-]+)?:?\s*(.*)", title)[0]
    return Spec(
        id=front.get("id") or named,
        title=rest or title,
        status=front.get("status", ""),
        task=markdown.section(text, "Task") or markdown.section(text, "Requirements"),
        criteria=markdown.bullets(markdown.section(text, "Acceptance Criteria")),
        groups=tuple(_groups(text)),
    )


def _groups(text: str) -> list[SpecGroup]:
    """Return the task groups. Without a wave column, a group comes one wave after the last group it needs."""
    table = _group_table(text)
    if table is None:
        return []
    rows = {row[0].strip("`* "): row for row in table.select(_GROUP, _TASKS, _NEEDS, ("wave",))}
    found = {name: row for name, row in rows.items() if _NAME.fullmatch(name)}
    needs = {name: _names(row[2]) for name, row in found.items()}
    waves = levels(needs)
    return [
        SpecGroup(name, row[1], needs[name], _first_number(row[3]) or waves[name])
        for name, row in found.items()
    ]


def _group_table(text: str) -> markdown.Table | None:
    """Return the table of groups: the one with dependencies, because audits repeat the other columns."""
    candidates = [table for table in markdown.tables(text) if table.column("group") >= 0]
    with_needs = [table for table in candidates if table.column(*_NEEDS) >= 0]
    return next(iter(with_needs or candidates), None)


def _names(cell: str) -> tuple[str, ...]:
    """Return the groups that a cell names; a dash or `none` names no group."""
    words = (word.strip("`*()") for word in re.split(r"[,;&+\s]+", cell))
    return tuple(word for word in words if _NAME.fullmatch(word) and word.casefold() not in _NO_NAMES)


def _first_number(cell: str) -> int:
    found = re.search(r"\d{1,4}", cell)
    return int(found[0]) if found else 0


def spec_text(view: ExportedRun, name: str) -> str:
    """Return a Holdfast plan as a specification, so that SpecFlow itself can continue the run."""
    return "\n".join((*_head(view, name), *_group_rows(view), *_group_sections(view))) + "\n"


def _head(view: ExportedRun, name: str) -> tuple[str, ...]:
    goal = view.plan.goal
    status = "done" if view.is_complete else "running"
    front = (f"id: {name}", "type: feature", f"status: {status}", f"created: {minute(view.started)[:10]}")
    title = f"# {' '.join(goal.split())}"
    return ("---", *front, "---", "", title, "", "## Task", "", goal, "", "## Implementation Tasks", "")


def _group_rows(view: ExportedRun) -> Iterator[str]:
    yield from ("### Task Groups", "", "| Group | Wave | Tasks | Dependencies |")
    yield "|-------|------|-------|--------------|"
    for number, stage in enumerate(view.plan.stages, 1):
        for task in stage.tasks:
            asked = task.title or task.prompt.split("\n")[0]
            yield markdown.as_row((task.id, str(number), asked, ", ".join(task.needs) or "—"))


def _group_sections(view: ExportedRun) -> Iterator[str]:
    for _, task in view.plan.tasks():
        yield from ("", f"### Group {task.id}", "", task.prompt or " ".join(task.run))
        yield from ("", *(f"- [ ] {criterion}" for criterion in task.acceptance)) if task.acceptance else ()
