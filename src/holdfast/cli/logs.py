"""`logs`: what the agents of a run printed, readable or byte by byte, and as it comes."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.agents.presets import agent_of_attempt, presets_of
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.cli.arguments import OPTIONAL_TASK, RUN, Arguments, flag, one_of, option, positive
from holdfast.cli.log_output import LogOutput, make_output
from holdfast.cli.open_repo import choose_run_or_task
from holdfast.core.facts import Presence
from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import TASK_IS_OVER
from holdfast.errors import ExitCode, HoldfastError
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import AGENT_STEP, Fleet, LaunchKey
from holdfast.journal.protocol import StoredRun
from holdfast.views.event_text import event_sentence
from holdfast.views.read_only_repo import ReadOnlyRepo, open_read_only
from holdfast.views.text import count

_FOLLOW_POLL_S = 0.2
_PIECE_BYTES = 1024 * 1024

ARGUMENTS: Arguments = (
    RUN,
    OPTIONAL_TASK,
    flag("-f --follow", "follow, over all attempts, until the task is settled or the run rests"),
    option("--attempt", "N", "an earlier attempt (the newest)", type=positive),
    one_of(
        flag("--raw", "print the very bytes that agents printed"),
        flag("--json", "print each entry as a line of JSON"),
    ),
)


def execute(args: Namespace) -> int:
    """Print what the agents of a run, or of one task, printed. Agents' event streams become readable lines.

    Without a task, the lines of all tasks come with the task's name before them. What is told about the log itself goes to
    standard error.
    """
    opened = open_read_only()
    stored, task = choose_run_or_task(opened, args.run, args.task)
    state = stored.state()
    if args.attempt is not None and task is None:
        raise HoldfastError("--attempt needs a task", "`holdfast logs RUN TASK --attempt N`")
    _require_started(stored, task, args.attempt)
    names = state.names if task is None else [task]
    shown = _ShownLogs(opened, stored.row.run, names, args.attempt, args)
    if args.follow:
        shown.follow(stored.last_seq)
    else:
        shown.print_all(state)
    shown.close()
    return ExitCode.DONE


def _require_started(stored: StoredRun, task: str | None, wanted: int | None) -> None:
    tasks = stored.state().tasks
    newest = max((row.attempt for row in tasks.values() if task in (None, row.id)), default=0)
    if wanted is not None and wanted > newest:
        raise HoldfastError(
            f"task {task} has had {count(newest, 'attempt')}, not {wanted}",
            "leave out --attempt for the newest",
        )
    if newest == 0:
        what = f"task {task} has not been started" if task else "no task has been started"
        raise HoldfastError(what, f"`holdfast status {stored.row.run}` shows what it waits for")


@dataclass(slots=True)
class _AttemptLog:
    """The output of one attempt, as far as it was printed."""

    key: LaunchKey
    output: LogOutput
    seen: int = 0
    printed: int = 0

    def print_more(self, fleet: Fleet) -> None:
        """Print what is new. What is no longer kept is told, and left out."""
        while True:
            piece = fleet.output(self.key, self.seen, _PIECE_BYTES)
            if piece.data and piece.start > self.seen:
                gap = f"{piece.start - self.seen:,} bytes of output"
                _note(
                    f"{self.key.owner}: {gap} of attempt {self.key.attempt} are not kept any more and left out."
                )
                self.output.skip()
            self.seen = piece.start + len(piece.data)
            self.printed += len(piece.data)
            self.output.write(piece.data)
            if not piece.data or self.seen >= piece.end:
                return


@dataclass(slots=True)
class _ShownLogs:
    """The logs of some tasks of a run, as they are printed."""

    opened: ReadOnlyRepo
    run: str
    names: list[str]
    only: int | None
    args: Namespace
    logs: dict[str, _AttemptLog] = field(default_factory=dict)
    fleet: Fleet = field(init=False)

    def __post_init__(self) -> None:
        self.fleet = open_fleet(self.opened.state_dir.fleet)

    def print_all(self, state: RunState) -> None:
        """Print the newest attempt of each task, in the order of their starts."""
        rows = [state.tasks[name] for name in self.names if state.tasks[name].attempt]
        for row in sorted(rows, key=lambda row: row.latest.started_at):
            self._print_attempt(state, row, self.only or row.attempt)

    def _is_elsewhere(self) -> bool:
        """Tell whether no agent of the run worked on this machine: what they printed is where they did."""
        is_shared = self.opened.require_journal().durability is not None
        return is_shared and not self.opened.directory(self.run).attempts.is_dir()

    def follow(self, seq: int) -> None:
        """Print output as it comes, attempt after attempt, until nothing more can come."""
        while True:
            stored = self.opened.require_journal().load(self.run)
            state = stored.state()
            # Asked before the output is read, so the last output is included.
            over = self._is_over(state) and not any(map(self._is_alive, self._rows(state)))
            for row in self._rows(state):
                self._print_new(state, row)
            seq = self._tell_events(seq)
            if over:
                return
            time.sleep(_FOLLOW_POLL_S)

    def close(self) -> None:
        """Print what was held back, and say who was silent if one task was asked for, or if nobody said anything."""
        for log in self.logs.values():
            log.output.close()
        silent = [log.key for log in self.logs.values() if not log.printed]
        if silent and self._is_elsewhere():
            _note(
                f"What the agents of {self.run} printed is not on this machine: logs stay where they worked. "
                f"`holdfast inspect {self.run}` names it."
            )
        elif len(self.names) == 1:
            for key in silent:
                _note(f"{key.owner} printed nothing in attempt {key.attempt}.")
        elif len(silent) == len(self.logs):
            _note(f"No task of {self.run} printed anything.")

    def _rows(self, state: RunState) -> Iterator[TaskRow]:
        return (state.tasks[name] for name in self.names if state.tasks[name].attempt)

    def _is_over(self, state: RunState) -> bool:
        if self.only is not None or self.opened.holder(self.run) is None:
            return True
        return all(state.tasks[name].status in TASK_IS_OVER for name in self.names)

    def _is_alive(self, row: TaskRow) -> bool:
        key = self._key(row.id, self.only or row.attempt)
        return self.fleet.inspect(key).presence is Presence.ALIVE

    def _print_new(self, state: RunState, row: TaskRow) -> None:
        """Print the rest of the attempt that was shown last, and those after it."""
        begun = self.logs[row.id].key.attempt if row.id in self.logs else self.only or row.attempt
        for attempt in range(begun, (self.only or row.attempt) + 1):
            self._print_attempt(state, row, attempt)

    def _print_attempt(self, state: RunState, row: TaskRow, attempt: int) -> None:
        log = self.logs.get(row.id)
        if log is None or log.key.attempt != attempt:
            if log is not None:
                log.output.close()
            log = self.logs[row.id] = _AttemptLog(
                self._key(row.id, attempt), self._output(state, row, attempt)
            )
        log.print_more(self.fleet)

    def _key(self, task: str, attempt: int) -> LaunchKey:
        return LaunchKey(self.run, task, attempt, AGENT_STEP)

    def _output(self, state: RunState, row: TaskRow, attempt: int) -> LogOutput:
        agent = agent_of_attempt(state, row.id, attempt, presets_of(self.opened.checkout))
        prefix = f"{row.id} | " if len(self.names) > 1 else ""
        stream = "raw" if agent is None else agent.stream
        patterns = ErrorPatterns() if agent is None else agent.error_patterns()
        about = {"task": row.id, "attempt": attempt} if self.args.json else None
        return make_output("raw" if self.args.raw else stream, patterns, prefix, about)

    def _tell_events(self, seq: int) -> int:
        """Say what became of the followed tasks since an event: checks, retries, landings."""
        for record in self.opened.require_journal().events(self.run, after=seq):
            seq = record.seq
            if getattr(record.event, "task", "") in self.names and (words := event_sentence(record.event)):
                _note(f"-- {words}")
        return seq


def _note(words: str) -> None:
    sys.stdout.flush()
    print(words, file=sys.stderr, flush=True)
