"""A run of ours as people and status lines of Auto-Claude see it: the status file, the progress notes, the spec."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from holdfast.core.plan import Stage
from holdfast.core.status import RunStatus
from holdfast.formats.loose import Node, line
from holdfast.formats.model import SETTLED, Claim, RunView, Standing
from holdfast.formats.stamps import stamp

_STATES = {
    RunStatus.PENDING: "idle",
    RunStatus.RUNNING: "building",
    RunStatus.COMPLETED: "complete",
    RunStatus.BLOCKED: "error",
    RunStatus.ABANDONED: "error",
}
_HEADING = "=== HOLDFAST PROGRESS ==="
_LINE_CHARS = 100


def write_status(view: RunView, name: str, status: Node, claims: Mapping[str, Claim]) -> Node:
    """Return the status file of the project, with what else was in it if it was about the same spec."""
    base = status if status.get("spec") == name else {}
    counted = Counter(claim.standing for claim in claims.values())
    number, stage = _phase_at_hand(view, claims)
    failed = counted[Standing.FAILED] + counted[Standing.ABANDONED]
    return base | {
        "active": view.live,
        "spec": name,
        "state": _STATES.get(view.row.status, "paused"),
        "subtasks": {
            "completed": counted[Standing.DONE] + counted[Standing.SKIPPED],
            "total": len(claims),
            "in_progress": counted[Standing.RUNNING],
            "failed": failed,
        },
        "phase": {
            "current": stage.title or stage.id if stage else "",
            "id": number,
            "total": len(view.plan.stages),
        },
        "workers": {"active": counted[Standing.RUNNING] if view.live else 0, "max": view.plan.limits.jobs},
        "session": {"number": view.row.epoch, "started_at": stamp(view.started)},
        "last_update": stamp(view.updated),
    }


def _phase_at_hand(view: RunView, claims: Mapping[str, Claim]) -> tuple[int, Stage | None]:
    for number, stage in enumerate(view.plan.stages, 1):
        if any(claims[task.id].standing not in SETTLED for task in stage.tasks):
            return number, stage
    return 0, None


def progress_notes(view: RunView, claims: Mapping[str, Claim], before: str) -> str:
    """Return the progress notes: what was noted before, then where each phase and subtask stands."""
    lines = [_HEADING, "", f"Project: {view.plan.goal}", f"Updated: {stamp(view.updated)}", ""]
    for stage in view.plan.stages:
        done = sum(claims[task.id].standing in SETTLED for task in stage.tasks)
        lines += [f"Phase progress: {stage.title or stage.id} {done}/{len(stage.tasks)} subtasks"]
        lines += [
            f"Subtask completed: {claims[task.id].native} - {line(task.title or task.prompt, _LINE_CHARS)}"
            for task in stage.tasks
            if claims[task.id].standing is Standing.DONE
        ]
    left = [task for _, task in view.plan.tasks() if claims[task.id].standing not in SETTLED]
    if left:
        lines += [
            "",
            f"Next subtask: {claims[left[0].id].native} - {line(left[0].title or left[0].prompt, _LINE_CHARS)}",
        ]
    return "\n".join([*([before.rstrip(), ""] if before.strip() else []), *lines, ""])


def spec_text(view: RunView) -> str:
    """Return the spec of a run that had none: Auto-Claude passes over a spec folder without one."""
    tasks = "\n".join(
        f"- {task.id}: {line(task.title or task.prompt, _LINE_CHARS)}" for _, task in view.plan.tasks()
    )
    criteria = [f"- {line}" for _, task in view.plan.tasks() for line in task.acceptance]
    sections = {
        "Overview": view.plan.goal,
        "Workflow Type": "feature",
        "Task Scope": tasks,
        "Success Criteria": "\n".join(criteria) or "Every subtask is completed.",
    }
    told = "\n\n".join(f"## {title}\n\n{words}" for title, words in sections.items())
    return f"# {line(view.plan.goal, _LINE_CHARS)}\n\n{told}\n"
