"""Notices of files that changed where no task may write: in the user's checkout, or in an idle workspace.

A notice names the running tasks and never stops anything: the user may be editing files at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container
from dataclasses import dataclass

from holdfast.core import events as ev
from holdfast.errors import HoldfastError
from holdfast.repo.checkout import CheckoutState, read_checkout
from holdfast.repo.workspace import workspace_changes
from holdfast.runner.context import RunContext
from holdfast.runner.plan_files import is_plan_file

_PATHS_SHOWN = 20
CHECKOUT = "the checkout"


@dataclass(slots=True)
class _IdleWorkspace:
    """A workspace whose task no longer uses it, and the differences in it when that was noted."""

    commit: str
    changes: tuple[str, ...]


class CheckoutMonitor:
    """Compares the places that no task owns with their state at the last look."""

    def __init__(self, context: RunContext, ignored: Container[str]) -> None:
        """`ignored` are paths of the checkout that the runner writes itself."""
        self._context = context
        self._ignored = ignored
        self._last: CheckoutState | None = None
        self._idle: dict[str, _IdleWorkspace] = {}
        self._one_at_a_time = asyncio.Lock()
        self._looks = 0

    async def look_round(self, task: str) -> list[ev.Event]:
        """Return a notice for each place that changed while `task` and others ran. A second look finds none.

        Tasks that end at the same time share a look: one that began after a task had ended has seen what it did.
        """
        before = self._looks
        async with self._one_at_a_time:
            if self._looks > before:
                return []
            self._looks += 1
            suspects = tuple(sorted({task, *self._context.state.active}))
            try:
                found = await asyncio.to_thread(self._changes)
            except HoldfastError:
                return []  # A checkout that cannot be read, mid-rebase or locked, is looked at next time.
            return [
                ev.IntrusionNoticed(tasks=suspects, place=place, paths=paths[:_PATHS_SHOWN])
                for place, paths in found.items()
            ]

    async def begin(self) -> None:
        """Remember how the checkout looks before anything runs."""
        try:
            self._last = await asyncio.to_thread(read_checkout, self._context.repo)
        except HoldfastError:
            self._last = None

    def _changes(self) -> dict[str, tuple[str, ...]]:
        found = {CHECKOUT: self._checkout_changes(), **self._idle_changes()}
        return {place: paths for place, paths in found.items() if paths}

    def _checkout_changes(self) -> tuple[str, ...]:
        before, self._last = self._last, read_checkout(self._context.repo)
        if before is None:
            return ()
        changed = self._last.differences(before)
        # People edit the plan of a run to amend it.
        row = self._context.state.row
        return tuple(path for path in changed if path not in self._ignored and not is_plan_file(row, path))

    def _idle_changes(self) -> dict[str, tuple[str, ...]]:
        """Look at workspaces between tasks. The first look after a task notes what it left; later ones compare."""
        found: dict[str, tuple[str, ...]] = {}
        for name in self._context.workspaces.task_workspaces():
            now = self._idle_state(name)
            before = self._idle.pop(name, None)
            if now is None:
                continue
            self._idle[name] = now
            if before is not None and before.commit == now.commit and before.changes != now.changes:
                found[f"workspace {name}"] = tuple(sorted(set(now.changes) ^ set(before.changes)))
        return found

    def _idle_state(self, name: str) -> _IdleWorkspace | None:
        """Return what an idle workspace holds, or None if somebody uses it, or began to while we looked."""
        if self._context.workspaces.is_busy(name):
            return None
        workspace = self._context.workspaces.pool.get(name)
        commit = workspace.start()
        changes = workspace_changes(self._context.repo, workspace)
        return None if self._context.workspaces.is_busy(name) else _IdleWorkspace(commit, changes)
