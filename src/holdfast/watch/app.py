"""The screen of `holdfast watch`: what needs the user, the run, its stages and tasks as a tree, and the selected task.

It shows what the feed hands on (`run_feed.py`). A key that changes something starts a command of the command line, as a
process, and shows its answer. Text is always given as text, never as markup: much of it is an agent's.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Footer, RichLog, Static, Tab, Tabs, Tree

from holdfast.core.status import TaskStatus
from holdfast.errors import HoldfastError
from holdfast.process.programs import run_command
from holdfast.views.actions import ActionView, argv_of, run_actions, task_actions
from holdfast.views.command_answer import command_answer, own_argv
from holdfast.watch.action_screens import ActionChoice, ActionForm, KeyList
from holdfast.watch.run_feed import RunFeed, ShownRun
from holdfast.watch.run_text import CYAN, GREEN, RED, inbox_line, run_lines, task_lines
from holdfast.watch.task_tree import TaskTree

if TYPE_CHECKING:
    from holdfast.watch.shown_log import ShownLog

_COMMAND_S = 180.0
_OUTPUT_BYTES_MAX = 8 * 2**20
_TICK_S = 2.0
_LOG_S = 0.5
_LOG_LINES_MAX = 5000
_PANES: dict[str, tuple[str, ...]] = {
    "now": (),
    "log": (),
    "diff": ("review", "--patch"),
    "checks": ("review",),
    "brief": ("inspect", "--brief"),
    "history": ("inspect",),
}
"""What the panel shows about a task. What has words is the output of that command."""
_KEYS = {
    "r": ("resume", "resume"),
    "p": ("pause", "pause"),
    "s": ("stop", "stop"),
    "a": ("answer", "answer"),
    "t": ("retry", "retry"),
    "x": ("skip", "skip"),
    "h": ("take", "take"),
    "b": ("give", ""),
    "l": ("land", "land"),
}
"""The keys of steering commands: the action, and its word in the footer, which has no room for all in 80 columns."""


class WatchApp(App[None]):
    """The view of one run."""

    TITLE = "holdfast"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH = "watch.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "keys", "keys", key_display="?"),
        Binding("q", "quit", "quit"),
        Binding("full_stop", "choose", "do", key_display="."),
        *(Binding(key, f"steer('{name}')", word, show=bool(word)) for key, (name, word) in _KEYS.items()),
        *(Binding(str(number), f"pane('{name}')", show=False) for number, name in enumerate(_PANES, 1)),
        Binding("j", "move(1)", show=False),
        Binding("k", "move(-1)", show=False),
        Binding("n", "next_need", "next that needs you", show=False),
    ]

    def __init__(self, checkout: Path, run: str) -> None:
        super().__init__()
        self._checkout, self._run_id = checkout, run
        self._now: ShownRun | None = None
        self._shown_log: ShownLog | None = None
        self._header: tuple[Text, ...] = ()
        self._lines: list[Text] = []
        self._drawn = 0.0
        self._feed = RunFeed(checkout, run, lambda now: self.call_from_thread(self._take, now))

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Static(Text("…", style="dim"), id="inbox")
        yield Static(Text(f"{self._run_id}  reading the journal …", style="dim"), id="run")
        with Horizontal():
            yield TaskTree(self._run_id)
            with Vertical(id="panel"):
                yield Tabs(*(Tab(name, id=name) for name in _PANES))
                yield RichLog(
                    id="pane", min_width=0, wrap=True, markup=False, highlight=False, max_lines=_LOG_LINES_MAX
                )
        yield Footer(compact=True)

    def on_mount(self) -> None:
        """Begin to follow the run."""
        self.query_one(TaskTree).focus()
        self._feed.start()
        self.set_interval(_TICK_S, self._tick)
        self.set_interval(_LOG_S, self._read_log)

    def on_unmount(self) -> None:
        """Stop following."""
        self._feed.end()

    # -- what is shown ----------------------------------------------------------------------------------------

    def _take(self, now: ShownRun | HoldfastError) -> None:
        """Show how the run stands now. If that is not known, show what was known, and what is wrong."""
        if isinstance(now, HoldfastError):
            self.query_one("#inbox", Static).update(Text(f"{now.message}; trying again", style=f"bold {RED}"))
            return
        first, self._now = self._now is None, now
        self._show_run(now)
        if first:
            self._show_pane()

    def _tick(self) -> None:
        """Show times that pass although nothing happens."""
        if self._now is None or time.monotonic() - self._drawn < _TICK_S:
            return
        if any(task.status is TaskStatus.RUNNING for task in self._now.status.tasks):
            self._show_run(self._now)

    def _show_run(self, now: ShownRun) -> None:
        self._drawn = time.monotonic()
        self._show_header(now)
        self.query_one(TaskTree).show(now)
        if self._pane == "now":
            self._show_task(now)

    def _show_header(self, now: ShownRun) -> None:
        """Show the header, if it says something else: its lines are laid out anew only if their number changes."""
        width = max(self.size.width - 2, 20)
        before, self._header = self._header, (inbox_line(now.inbox, width), *run_lines(now, width))
        if now.status.run.held_by:
            # A line that comes and goes, as the merge queue does, would move all that is below it.
            self._header += (Text(),) * (len(before) - len(self._header))
        if self._header != before:
            inbox, *lines = self._header
            self.query_one("#inbox", Static).update(inbox, layout=False)
            run = self.query_one("#run", Static)
            run.update(Text("\n").join(lines), layout=len(self._header) != len(before))

    def on_resize(self) -> None:
        """Fit the texts to the screen."""
        if self._now is not None:
            self._header, self._lines = (), []
            self.call_after_refresh(self._show_run, self._now)

    @property
    def _pane(self) -> str:
        return self.query_one(Tabs).active or "now"

    @property
    def _selected(self) -> str:
        return self.query_one(TaskTree).selected_task

    def on_tree_node_highlighted(self, _: Tree.NodeHighlighted[str]) -> None:
        """Show the task that was moved to."""
        self._show_pane()

    def on_tabs_tab_activated(self, _: Tabs.TabActivated) -> None:
        """Show another side of the task."""
        self._show_pane()

    def _show_pane(self) -> None:
        pane, self._shown_log = self.query_one("#pane", RichLog), None
        if self._now is None:
            return
        pane.auto_scroll = self._pane == "log"
        pane.clear()
        self._lines = []
        if self._pane == "log":
            self._begin_log(pane)
        elif words := _PANES[self._pane]:
            pane.write(Text("…", style="dim"))
            self._show_command(self._selected, self._pane, words)
        else:
            self._show_task(self._now)

    def _show_task(self, now: ShownRun) -> None:
        """Show what is going on with the selected task, if that is something else than before."""
        lines = list(task_lines(now, self._selected, time.time())) if self._selected else []
        if lines != self._lines:
            pane, self._lines = self.query_one("#pane", RichLog), lines
            pane.clear()
            for line in lines:
                pane.write(line)

    def _begin_log(self, pane: RichLog) -> None:
        if self._now is None or not self._selected or not self._now.state.tasks[self._selected].attempt:
            pane.write(Text("nothing was printed yet", style="dim"))
            return
        # Imported here because it knows the streams of all agents: the screen is there a tenth sooner.
        from holdfast.watch.shown_log import ShownLog

        self._shown_log = ShownLog(self._checkout, self._now.state, self._selected)
        if self._shown_log.is_empty:
            pane.write(Text("nothing was printed yet", style="dim"))
        if self._shown_log.skipped:
            pane.write(Text(f"… {self._shown_log.skipped:,} bytes before this are left out", style="dim"))
        self._read_log()

    def _read_log(self) -> None:
        """Show what was printed since; a new attempt begins a new log."""
        if self._shown_log is None or self._now is None:
            return
        row = self._now.state.tasks[self._shown_log.key.owner]
        if row.attempt != self._shown_log.key.attempt:
            self._show_pane()
            return
        pane = self.query_one("#pane", RichLog)
        for line in self._shown_log.new_lines():
            pane.write(Text(line, style=RED if line.startswith("! ") else ""))

    @work(thread=True, exclusive=True, group="pane")
    def _show_command(self, task: str, pane: str, words: tuple[str, ...]) -> None:
        """Show what a command prints that only looks."""
        verb, *options = words
        argv = [verb, self._run_id, *([task] if task else []), *options]
        done = run_command(own_argv(argv), self._checkout, _COMMAND_S, _OUTPUT_BYTES_MAX)
        self.call_from_thread(self._show_output, task, pane, done.out if done.code == 0 else done.err)

    def _show_output(self, task: str, pane: str, text: str) -> None:
        """Show a command's output, unless the user has gone on meanwhile."""
        if (task, pane) != (self._selected, self._pane):
            return
        log = self.query_one("#pane", RichLog)
        log.clear()
        for line in text.splitlines()[:_LOG_LINES_MAX]:
            log.write(Text(line, style=_line_style(line) if pane == "diff" else ""))
        log.scroll_home(animate=False)

    # -- what is done -----------------------------------------------------------------------------------------

    def action_pane(self, name: str) -> None:
        """Show another side of the task."""
        self.query_one(Tabs).active = name

    def action_move(self, by: int) -> None:
        """Move in the tree."""
        tree = self.query_one(TaskTree)
        tree.cursor_line += by

    def action_next_need(self) -> None:
        """Move to the next task that waits for the user."""
        if self._now is not None:
            self.query_one(TaskTree).select_next([item.task for item in self._now.inbox if item.task])

    def action_keys(self) -> None:
        """Show the keys."""
        steering = [(key, name.replace("_", " ")) for key, (name, _) in _KEYS.items()]
        rest = [
            (".", "every action that is possible now"),
            ("1-6", "now, log, diff, checks, brief, history of the task"),
            ("j k ↓ ↑", "move"),
            ("n", "the next task that needs you"),
            ("enter", "fold or unfold a stage"),
            ("q", "leave; the run goes on"),
        ]
        self.push_screen(KeyList([*steering, *rest]))

    def _possible(self) -> list[ActionView]:
        """Return what can be done now about the selected task, then about the run."""
        if self._now is None:
            return []
        state, view = self._now.state, self._now.status
        of_task = task_actions(state, self._selected, view.run) if self._selected else ()
        return [*of_task, *run_actions(state, view)]

    def action_steer(self, name: str) -> None:
        """Begin an action, if it is possible now."""
        found = next((action for action in self._possible() if action.name == name), None)
        if found is None:
            about = f" for {self._selected}" if self._selected else ""
            self.notify(f"{name} is not possible now{about}; . shows what is", markup=False)
            return
        self._begin(found)

    def action_choose(self) -> None:
        """Show everything that can be done now."""
        if possible := self._possible():
            self.push_screen(ActionChoice(possible), lambda chosen: self._begin(chosen) if chosen else None)
        else:
            self.notify("nothing can be done about this run any more", markup=False)

    def _begin(self, action: ActionView) -> None:
        """Start an action; ask before if it needs to be told something or is hard to take back."""
        if not (action.fields or action.confirm):
            self._start(action, {})
            return

        def begin(said: dict[str, str] | None) -> None:
            if said is not None:
                self._start(action, said)

        self.push_screen(ActionForm(action), begin)

    @work(thread=True)
    def _start(self, action: ActionView, said: dict[str, str]) -> None:
        """Run the command of an action and show its answer."""
        try:
            words = argv_of(action.name, self._run_id, action.task, said)
        except HoldfastError as error:
            self.call_from_thread(self.notify, error.message, severity="error", markup=False)
            return
        done = run_command(own_argv(words), self._checkout, _COMMAND_S, _OUTPUT_BYTES_MAX)
        answer = command_answer(words, done.code, done.out, done.err)
        text = "\n".join(filter(None, (answer.message or answer.command, answer.hint)))
        severity = "information" if answer.ok else "error"
        self.call_from_thread(self.notify, text, severity=severity, markup=False, timeout=8)


def _line_style(line: str) -> str:
    """Return the style of a line of a patch."""
    styles = (
        ("+++", "bold"),
        ("---", "bold"),
        ("diff ", "bold"),
        ("@@", CYAN),
        ("+", GREEN),
        ("-", RED),
    )
    return next((style for beginning, style in styles if line.startswith(beginning)), "")
