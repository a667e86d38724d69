"""When snapshots are taken: while an agent works, and after it was lost. How they are taken is in `repo/snapshots.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from holdfast.core import events as ev, ids
from holdfast.core.projection import TaskRow
from holdfast.fleet.protocol import LaunchKey
from holdfast.repo.landing import trailers
from holdfast.repo.repository import Repository
from holdfast.repo.snapshots import count_snapshots, take_snapshot
from holdfast.repo.uncollected_work import WayOut, capture_or_move_aside, capture_safely
from holdfast.repo.workspace import Workspace, WorkspaceGoneError
from holdfast.reporting.snapshot_message import snapshot_message
from holdfast.runner.attempts.confined_reading import read_confined
from holdfast.runner.context import RunContext

T = TypeVar("T")


def save_snapshot(context: RunContext, task: TaskRow) -> str:
    """Take a snapshot while the agent works; return the newest one, or "" if there is none.

    Without a change in the workspace there is no new commit.
    """
    ref = ids.snapshot_ref(context.run, task.id)

    def message(files: Sequence[str]) -> str:
        number = count_snapshots(context.repo, ref) + 1
        return snapshot_message(task, number, files, trailers(context.run, task.id, task.attempt))

    workspace = context.workspaces.of(task)
    sandbox = context.sandbox
    confined = {"read_files": partial(read_confined, sandbox, workspace.path)} if sandbox else {}
    return take_snapshot(context.repo, workspace, ref, message, **confined) or task.latest.snapshot


def save_last_snapshot(context: RunContext, task: TaskRow) -> str:
    """Take the snapshot of an attempt that was cut short. Its workspace will be used again, so this must succeed.

    Raises UncollectedError if it does not, unless the workspace is gone: then the earlier snapshots count.
    """
    try:
        return capture_work(context, task, partial(_take_last, context, task))
    except WorkspaceGoneError:
        keep_set_aside(context, task, task.latest.snapshot)
        return task.latest.snapshot


def capture_work(context: RunContext, task: TaskRow, capture: Callable[[], T]) -> T:
    """Commit the workspace of a task by `capture`. Raises UncollectedError if it fails and the run is to go on."""
    workspace = context.workspaces.path(task)
    if not context.launches:
        again = f"Give the command again, or go on with the run: `holdfast resume {context.run}`."
        return capture_or_move_aside(context.workspaces.pool, workspace.name, capture, WayOut(again))
    way_out = WayOut(
        f"`holdfast resume {context.run}` tries again; without {workspace} the task would begin again.",
        f"To leave it: `holdfast reset {context.run} {task.id}` and `holdfast abandon {context.run}` move it aside.",
    )
    return capture_safely(workspace, capture, way_out)


def keep_set_aside(context: RunContext, task: TaskRow, commit: str) -> None:
    """Keep half-done work at a ref of its own if the next attempt may start without it.

    The snapshots of that attempt will not contain it, and replace it at the task's snapshot ref. Idempotent.
    """
    if commit and context.state.starts_clean_if_lost(task):
        context.repo.keep(ids.cut_short_ref(context.run, task.id, task.attempt), commit)


def keep_torn_work(context: RunContext, task: TaskRow) -> str:
    """Keep the files of an attempt that a power cut may have torn, apart from its snapshots; return their commit.

    Empty if nothing was there beyond the start. A workspace that still holds an earlier attempt's work needs nothing.
    """
    workspace = context.workspaces.of(task)
    if workspace.start() != task.latest.start:
        return ""
    take = partial(take_torn_files, context.repo, workspace, LaunchKey.of_agent(context.run, task))
    try:
        return capture_work(context, task, take)
    except WorkspaceGoneError:
        return ""


def take_torn_files(repo: Repository, workspace: Workspace, agent: LaunchKey) -> str:
    """Commit what is in the workspace of an agent that a reboot ended; return the commit, empty if there is nothing."""
    attempt = (agent.run, agent.owner, agent.attempt)
    message = f"{agent.owner}: files that a power cut may have torn\n\n{trailers(*attempt)}"
    return take_snapshot(repo, workspace, ids.cut_short_ref(*attempt), message)


def snapshot_saved(task: TaskRow, commit: str) -> list[ev.Event]:
    """Return the event of a snapshot, unless the journal knows it or there is none."""
    if not commit or commit == task.latest.snapshot:
        return []
    return [ev.SnapshotSaved(task=task.id, attempt=task.attempt, commit=commit)]


def _take_last(context: RunContext, task: TaskRow) -> str:
    commit = save_snapshot(context, task)
    keep_set_aside(context, task, commit)
    return commit
