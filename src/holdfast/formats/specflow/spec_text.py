"""A plan of ours as a specification, so that SpecFlow itself can carry the run on."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.formats import markdown
from holdfast.formats.model import RunView
from holdfast.formats.rows import is_complete
from holdfast.formats.stamps import minute


def spec_text(view: RunView, name: str) -> str:
    """Return the specification: what the run is for, its groups, their waves, and what each group is asked."""
    return "\n".join(_lines(view, name)) + "\n"


def _lines(view: RunView, name: str) -> Iterator[str]:
    yield from (
        "---",
        f"id: {name}",
        "type: feature",
        f"status: {'done' if is_complete(view) else 'running'}",
    )
    yield from (
        f"created: {minute(view.started)[:10]}",
        "---",
        "",
        f"# {' '.join(view.plan.goal.split())}",
        "",
    )
    yield from ("## Task", "", view.plan.goal, "", "## Implementation Tasks", "", "### Task Groups", "")
    yield from ("| Group | Wave | Tasks | Dependencies |", "|-------|------|-------|--------------|")
    for number, stage in enumerate(view.plan.stages, 1):
        for task in stage.tasks:
            asked = task.title or task.prompt.split("\n")[0]
            yield markdown.as_row((task.id, str(number), asked, ", ".join(task.needs) or "—"))
    for _, task in view.plan.tasks():
        yield from ("", f"### Group {task.id}", "", task.prompt or " ".join(task.run))
        yield from ("", *(f"- [ ] {criterion}" for criterion in task.acceptance)) if task.acceptance else ()
