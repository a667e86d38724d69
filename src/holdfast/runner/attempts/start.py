"""Briefs: written for an attempt that begins, and foretold for one that has not begun."""

from __future__ import annotations

from pathlib import Path

import msgspec

from holdfast.core.brief import BriefFacts, build_brief
from holdfast.core.projection import TaskRow
from holdfast.core.retry import kind_of_next_attempt
from holdfast.core.state import RunState
from holdfast.repo.repository import Repository
from holdfast.runner.context import RunContext

_DIFF_BYTES = 32_000


def write_brief(context: RunContext, task: TaskRow) -> Path:
    """Write the brief of a task's present attempt and return its file. Written again, it says the same."""
    path = context.directory.brief(task.id, task.attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(build_brief(context.state, task, _earlier_work(context.repo, task)), encoding="utf-8")
    return path


def next_brief(repo: Repository, state: RunState, task: TaskRow) -> str:
    """Return the brief that the next attempt at a task would get if it began now."""
    start = task.carry or state.row.tip
    upcoming = msgspec.structs.replace(
        task,
        attempt=task.attempt + 1,
        start=start,
        base=task.base or start,
        reason=kind_of_next_attempt(task),
        last_report=task.latest.report or task.last_report,
    )
    return build_brief(state, upcoming, _earlier_work(repo, upcoming))


def _earlier_work(repo: Repository, task: TaskRow) -> BriefFacts:
    if task.latest.start == task.base:
        return BriefFacts()
    return BriefFacts(
        earlier_diff=repo.diff(task.base, task.latest.start, _DIFF_BYTES),
        earlier_files=repo.changed_files(task.base, task.latest.start),
    )
