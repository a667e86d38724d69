"""The stages and tasks of a run as a tree. Only rows that changed are drawn again."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.text import Text
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from holdfast.core.status import TaskStatus
from holdfast.views.status import TaskView
from holdfast.watch.run_feed import ShownRun
from holdfast.watch.run_text import NAME_MAX, stage_label, task_label

_INDENT = 7
"""What the lines of the tree and its scroll bar take of the width."""


class TaskTree(Tree[str]):
    """A node per stage and per task; the data of a task's node is its id, that of a stage's is empty."""

    def __init__(self, run: str) -> None:
        super().__init__(Text(run), data="")
        self.show_root = False
        self.guide_depth = 2
        self._plan = ""
        self._stages: dict[str, TreeNode[str]] = {}
        self._tasks: dict[str, TreeNode[str]] = {}
        self._shown: dict[str, tuple[TaskView, int, int]] = {}

    @property
    def selected_task(self) -> str:
        """The task under the cursor; empty if that is a stage, or nothing."""
        node = self.cursor_node
        return (node.data or "") if node is not None else ""

    def show(self, now: ShownRun) -> None:
        """Show how the stages and tasks stand."""
        if now.state.row.plan_hash != self._plan:
            self._make_nodes(now)
        for stage in now.status.stages:
            _set(self._stages[stage.id], stage_label(stage))
        width, at = self.size.width - _INDENT, time.time()
        name_width = min(
            NAME_MAX, max((len(task.id) for task in now.status.tasks), default=1), max(width // 3, 8)
        )
        for task in now.status.tasks:
            shown = (task, name_width, width)
            # A working task gets older although nothing happens. To compare the others is cheaper than to word them.
            if task.status is TaskStatus.RUNNING or self._shown.get(task.id) != shown:
                self._shown[task.id] = shown
                label = task_label(task, now.state.tasks[task.id], name_width, width, at)
                _set(self._tasks[task.id], label)

    def select_next(self, wanted: Sequence[str]) -> None:
        """Move to the next of these tasks after the one under the cursor."""
        lines = sorted(self._tasks[name].line for name in wanted if name in self._tasks)
        after = [line for line in lines if line > self.cursor_line]
        if lines:
            self.cursor_line = (after or lines)[0]

    def _make_nodes(self, now: ShownRun) -> None:
        """Make the nodes of a plan, which an amendment may have changed."""
        before = self.selected_task
        self.clear()
        self._plan = now.state.row.plan_hash
        self._stages, self._tasks, self._shown = {}, {}, {}
        for stage in now.state.plan.stages:
            node = self._stages[stage.id] = self.root.add(Text(stage.id), data="", expand=True)
            for task in stage.tasks:
                self._tasks[task.id] = node.add_leaf(Text(task.id), data=task.id)
        if chosen := self._tasks.get(before) or next(iter(self._tasks.values()), None):
            self._move_now(chosen)

    def _move_now(self, node: TreeNode[str]) -> None:
        """Move before the new nodes are drawn: a key that is pressed at sight of a task is about that task."""
        _ = self.last_line  # A node has its line once the lines are counted.
        self.move_cursor(node)


def _set(node: TreeNode[str], label: Text) -> None:
    """Give a node its text, if it has another one: drawing costs more than comparing."""
    if node.label != label:
        node.set_label(label)
