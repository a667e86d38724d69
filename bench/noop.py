"""The real loop, journal and core, around effects that succeed at once: no git, and no process unless asked for.

`python -m bench.noop` runs one such run in a process of its own and prints what it cost.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from bench.measurement import Span, peak_rss_mb, timed
from bench.store import journal_bytes, journal_in
from holdfast.core import events as ev, ids
from holdfast.core.commands import CloseStage, Command, LandTasks, OpenStage, StartAttempt
from holdfast.core.facts import BranchFacts, Exit, ExitReason, Facts, Landing, Presence, Sighting
from holdfast.core.plan import Limits, Plan, Stage, Task, plan_hash
from holdfast.core.reconcile import reconcile
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import LaunchSpec
from holdfast.journal import open_journal
from holdfast.journal.lease import Lease, locker
from holdfast.paths import StateDir
from holdfast.runner.checkout_monitor import CheckoutMonitor
from holdfast.runner.context import Observer, RunContext
from holdfast.runner.held_run import HeldRun
from holdfast.runner.loop import RunLoop

JOBS = 8
RUN = "01-bench"
_BASE = "b" * 40
_TREE = "c" * 40


class Outcome(msgspec.Struct, kw_only=True):
    """What one run cost, and how it ended."""

    completed: int
    events: int
    span: Span
    rss_mb: float
    journal_bytes: int


class NoopLoop(RunLoop):
    """The real loop, but effects are `attempt` and landings without git."""

    def __init__(
        self, context: RunContext, observer: Observer, attempt: Callable[[str], Awaitable[Exit]]
    ) -> None:
        super().__init__(context, _NoMonitor(context, ()), (observer,))
        self._attempt = attempt
        self._commits = count(1)

    async def run(self) -> RunStatus:
        """Like the real one, but the journal answers for git about earlier landings."""
        await self._commit([self._attach(), *_reconcile(self._context.state)])
        for task in list(self._context.state.active.values()):
            if task.status is TaskStatus.RUNNING:
                self._act(
                    StartAttempt(
                        task.id,
                        task.attempt,
                        task.latest.workspace_number,
                        task.latest.start,
                        task.latest.kind,
                    )
                )
        while self._context.state.row.status is RunStatus.RUNNING:
            await self._turn()
            await self._wait()
        return self._context.state.row.status

    def _act(self, command: Command) -> None:
        match command:
            case StartAttempt(task=task):
                self._start(command, self._run_attempt(task))
            case LandTasks():
                self._start(command, self._land(command))
            case OpenStage(stage):
                self._start(command, _at_once(ev.StageOpened(stage=stage)))
            case CloseStage(stage):
                self._start(command, _at_once(ev.StageClosed(stage=stage)))

    async def _run_attempt(self, name: str) -> list[ev.Event]:
        task = self._context.state.tasks[name]
        ended = await self._attempt(name)
        return [
            ev.AttemptDone(
                task=name,
                attempt=task.attempt,
                token=task.latest.token,
                head=f"{next(self._commits):040x}",
                tree=_TREE,
                summary="done",
                duration_s=ended.duration_s,
            )
        ]

    async def _land(self, command: LandTasks) -> list[ev.Event]:
        """Write the intent, wait until it is durable, and report that the branch moved."""
        tip = self._context.state.row.tip
        prepared = [
            ev.MergePrepared(task=task, attempt=attempt, commit=f"{next(self._commits):040x}", onto=tip)
            for task, attempt in command.tasks
        ]
        await self._context.record(prepared)
        tasks = self._context.state.tasks
        return [
            ev.TaskLanded(task=p.task, attempt=p.attempt, commit=p.commit, head=tasks[p.task].latest.head)
            for p in prepared
        ]


class _NoMonitor(CheckoutMonitor):
    """There is no checkout to watch."""

    async def look_round(self, task: str) -> list[ev.Event]:  # noqa: ARG002 - the real one's shape
        return []


async def _at_once(event: ev.Event) -> list[ev.Event]:
    return [event]


def _reconcile(state: RunState) -> list[ev.Event]:
    done = [task for task in state.tasks.values() if task.status is TaskStatus.COMPLETED]
    landings = tuple(
        Landing(task.id, task.attempt, task.merge_commit, task.latest.head, _TREE) for task in done
    )
    sightings = {name: Sighting(Presence.LOST) for name in state.active}
    events = reconcile(state, Facts(branch=BranchFacts(state.row.tip, landings), sightings=sightings))
    for event in events:
        state.apply(event)
    return events


def make_plan(tasks: int, stages: int) -> Plan:
    """Return a plan of no-op tasks, in stages that wait for each other."""
    names = [f"s{number}" for number in range(stages)]
    return Plan(
        goal="bench",
        limits=Limits(jobs=JOBS),
        stages=tuple(
            Stage(
                id=name,
                needs=(names[number - 1],) if number else (),
                tasks=tuple(
                    Task(id=f"{name}-t{i}", title=f"Task {i}", run=("true",)) for i in range(tasks // stages)
                ),
            )
            for number, name in enumerate(names)
        ),
    )


def begin(folder: Path, plan: Plan) -> None:
    """Make the run durable."""
    event = ev.RunStarted(
        run=RUN, goal=plan.goal, plan_hash=plan_hash(plan), base=_BASE, branch=ids.run_branch(RUN)
    )
    journal = open_journal(journal_in(folder))
    journal.create_run(plan, first_row(event), event, time.time())
    journal.close()


def execute(folder: Path, observer: Observer, *, processes: bool = False) -> RunState:
    """Load the run and execute it to its end, as `runner.session` does."""
    directory = StateDir(folder).run(RUN)
    journal = open_journal(journal_in(folder))
    lease = Lease.acquire(directory.lease)
    stored = journal.load(RUN)
    epoch = journal.take_epoch(RUN, locker(directory.lease), hold=True)
    state = stored.state()
    fleet = LocalFleet(StateDir(folder))
    context = RunContext(
        repo=cast("Any", SimpleNamespace(state_dir=StateDir(folder), common_dir=folder, checkout=folder)),
        fleet=fleet,
        held=HeldRun(journal, RUN, epoch),
        lease=lease,
        state=state,
        presets={},
    )
    asyncio.run(_run(context, observer, folder if processes else None))
    fleet.close()
    journal.close()
    lease.release()
    return state


async def _run(context: RunContext, observer: Observer, cwd: Path | None) -> None:
    async def nothing(_task: str) -> Exit:
        return Exit(token="", reason=ExitReason.EXITED, code=0)

    async def process(name: str) -> Exit:
        task = context.state.tasks[name]
        assert cwd is not None
        key = context.agent_key(task)
        await context.fleet.launch(
            LaunchSpec(key, ("/bin/true",), cwd, env={}, secret=context.secrets.pop(task.latest.token))
        )
        ended = (await context.fleet.wait(key)).exit
        assert ended is not None
        assert ended.code == 0
        return ended

    await NoopLoop(context, observer, nothing if cwd is None else process).run()


class _Tally:
    """Counts durable events, and kills this process like a power cut after `kill_after` settled tasks."""

    def __init__(self, kill_after: int) -> None:
        self.events = 0
        self._kill_after = kill_after

    def __call__(self, events: Sequence[ev.Event], state: RunState) -> None:
        self.events += len(events)
        if self._kill_after and state.settled_count >= self._kill_after:
            os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Run it and print the outcome."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tasks", type=int, default=0, help="begin a run of so many; else continue one")
    parser.add_argument("--stages", type=int, default=1)
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--kill-after", type=int, default=0, metavar="COMPLETED")
    options = parser.parse_args()
    plan = make_plan(options.tasks, options.stages)
    tally = _Tally(options.kill_after)
    with timed() as span:
        if options.tasks:
            begin(options.folder, plan)
        state = execute(options.folder, tally, processes=options.processes)
    outcome = Outcome(
        completed=state.settled_count,
        events=tally.events,
        span=span,
        rss_mb=peak_rss_mb(),
        journal_bytes=journal_bytes(options.folder),
    )
    sys.stdout.buffer.write(msgspec.json.encode(outcome))


if __name__ == "__main__":
    main()
