"""A run's workspaces as its runner uses them: which task works where, and what this runner knows about each.

This knowledge lasts as long as the runner. A new runner knows nothing and prepares workspaces again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState
from holdfast.fleet.protocol import remove_in_background
from holdfast.repo.files import remove_if_allowed, remove_within
from holdfast.repo.workspace import Workspace
from holdfast.repo.workspaces import Workspaces

_LANDING = "landing"
_GATE = "gate"
_AT_ONCE_S = 0.5
"""How long a user waits for the prompt without wondering."""


class TaskWorkspaces:
    """A pool of workspaces: numbered ones for tasks, more for their validators, and one each for merged trees and for gates."""

    def __init__(self, pool: Workspaces, state: RunState) -> None:
        self.pool = pool
        self._state = state
        self._left_behind: dict[tuple[str, int], tuple[str, ...]] = {}
        self._collected: dict[str, str] = {}
        self._vacant: set[str] = set()
        self.gate_lock = asyncio.Lock()
        """Held while the commands of a gate use the gate's workspace."""
        self.hand_over_lock = asyncio.Lock()
        """Held while the workspace of a person is made."""

    def path(self, task: TaskRow) -> Path:
        """Return the folder that a task's current attempt works in."""
        return self.pool.path(_name(task))

    def of(self, task: TaskRow) -> Workspace:
        """Return the workspace that a task's current attempt works in."""
        return self.pool.get(_name(task))

    async def prepare(self, task: TaskRow, commit: str) -> Path:
        """Bring a task's workspace to a commit. Idempotent."""
        path = await self._prepare(_name(task), commit)
        self._collected.pop(_name(task), None)
        return path

    async def prepare_checks(self, task: TaskRow) -> Path:
        """Bring the workspace in which a task's work is checked to that work.

        It is the task's own, unless something is kept in it that its agent may have changed: no check must hold because
        of that. Then it is one in which no agent ever works.
        """
        if self._state.plan.workspace.keep:
            return await self._prepare(f"{_name(task)}-checks", task.latest.head)
        return await self.prepare(task, task.latest.head)

    def mark_left_behind(self, task: TaskRow, paths: tuple[str, ...]) -> None:
        """Remember that an attempt left files that are not in its commit: a check that fails may have needed them."""
        if paths:
            self._left_behind[task.id, task.attempt] = paths

    def left_behind(self, task: TaskRow) -> tuple[str, ...]:
        """Return what a task's current attempt left beside its commit, as far as this runner knows."""
        return self._left_behind.get((task.id, task.attempt), ())

    def is_vacant(self, task: TaskRow) -> bool:
        """Tell whether supervisors have ended all that worked in a task's workspace, as far as this runner knows."""
        return _name(task) in self._vacant

    def mark_vacant(self, task: TaskRow) -> None:
        """Remember that no process of an earlier attempt works in a task's workspace."""
        self._vacant.add(_name(task))

    def mark_lost(self, task: TaskRow) -> None:
        """Remember that a task's supervisor died: nobody knows what it has left running in the workspace."""
        self._vacant.discard(_name(task))

    async def prepare_validation(self, task: TaskRow, position: int) -> Path:
        """Bring the workspace of one of a task's validators to the task's work. Each has its own, so that none writes to another's."""
        return await self._prepare(f"{_name(task)}-validator-{position}", task.latest.head)

    async def prepare_landing(self, commit: str) -> Path:
        """Bring the workspace in which merged trees are checked to a commit."""
        return await self._prepare(_LANDING, commit)

    async def prepare_gate(self, commit: str) -> Path:
        """Bring the workspace in which gates are checked to a commit. The caller holds `gate_lock`."""
        return await self._prepare(_GATE, commit)

    async def _prepare(self, name: str, commit: str) -> Path:
        """Bring a workspace to a commit. A content filter that fails on the user's own commit is for the user to repair."""
        by_agents = commit != self._state.row.base
        return await asyncio.to_thread(self.pool.prepare, name, commit, or_raw=by_agents)

    def mark_collected(self, task: TaskRow, commit: str) -> None:
        """Remember that Holdfast writes nothing to a task's workspace after this commit of it."""
        self._collected[_name(task)] = commit

    def collected(self) -> Iterator[tuple[str, str]]:
        """Yield each idle workspace whose work was collected, with the commit of that."""
        for name, commit in list(self._collected.items()):
            if self.is_collected(name, commit):
                yield name, commit

    def is_collected(self, name: str, commit: str) -> bool:
        """Tell whether a workspace is idle and still holds what was collected as this commit."""
        return not self.is_busy(name) and self._collected.get(name) == commit

    def forget_collected(self, name: str) -> None:
        """Stop comparing a workspace with what was collected from it."""
        self._collected.pop(name, None)

    def task_workspaces(self) -> list[str]:
        """Return the names of the workspaces that are for tasks."""
        return [name for name in self.pool.names() if name.isdigit()]

    def is_busy(self, name: str) -> bool:
        """Tell whether a task uses a workspace now."""
        return any(_name(task) == name for task in list(self._state.active.values()))


def remove_soon(pool: Workspaces, keep: Collection[str] = (), at_once_s: float = _AT_ONCE_S) -> None:
    """Delete all workspaces of a run that is over but those to `keep`: in a moment, or, if there is much to delete, by a process that outlives us.

    The caller has committed all work, and no process works in one. After a kill, what is left is deleted by the next command
    that removes the run's workspaces: `resume`, `clean`, `doctor --fix`.
    """
    deadline = time.monotonic() + at_once_s
    left = []
    for path in pool.put_aside_all(keep):
        if not remove_within(path, deadline):
            if time.monotonic() > deadline:
                left.append(path)
            else:
                remove_if_allowed(path)  # an agent closed its folders
    if left:
        remove_in_background(left)
    else:
        pool.remove_if_empty()


def _name(task: TaskRow) -> str:
    return str(task.latest.workspace_number)
