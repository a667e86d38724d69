"""W7: single checkpoints, alternating with a plain append and fdatasync: time until durable, and size."""

from __future__ import annotations

import os
import time
from contextlib import closing
from pathlib import Path
from queue import Queue
from threading import Thread

from bench.measurement import Figure, scratch
from bench.store import is_server, journal_in
from holdfast.core import events as ev
from holdfast.core.event_codec import encode_event
from holdfast.core.ids import run_branch
from holdfast.core.plan import Limits, Plan, Stage, Task, plan_hash
from holdfast.core.run_transitions import first_row
from holdfast.core.state import RunState
from holdfast.journal import open_journal
from holdfast.journal.protocol import Journal

_ROW = b"x" * 256
_BOUND_MS = 10


def measure(*, quick: bool) -> list[Figure]:
    """Return the 99th percentile of a checkpoint and of the plain append, and the size of an event."""
    times = 200 if quick else 2000
    with scratch() as folder:
        checkpoints, floors = _alternately(folder, times)
    with scratch() as folder:
        delays = _delays(folder, times // 10)
    size = len(encode_event(_saved(1)))
    ours, bare = _percentile_ms(checkpoints, 0.99), _percentile_ms(floors, 0.99)
    return [
        Figure(
            "W7",
            "checkpoint, 99th percentile",
            ours,
            "ms",
            bound=_BOUND_MS if is_server() else None,
            sense="<=",
        ),
        Figure("W7", "append 256 B + fdatasync, 99th percentile", bare, "ms"),
        Figure("W7", "checkpoint above that floor", max(0.0, ours - bare), "ms", bound=_BOUND_MS, sense="<="),
        Figure(
            "W7",
            "acknowledged to seen by a reader, 95th percentile",
            _percentile_ms(delays, 0.95),
            "ms",
            bound=100,
            sense="<=",
        ),
        Figure("W7", "one event", size, "bytes", bound=1024, sense="<="),
    ]


def _alternately(folder: Path, times: int) -> tuple[list[float], list[float]]:
    """Alternate both measurements, so that other work on the machine affects both equally."""
    journal, state = _running(folder)
    floor = os.open(folder / "floor", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    checkpoints, floors = [], []
    for number in range(times):
        event = _saved(number)
        state.apply(event)
        began = time.perf_counter()
        journal.append(state.row.run, 1, [event], state.row, state.take_changed(), time.time())
        between = time.perf_counter()
        os.write(floor, _ROW)
        os.fdatasync(floor)
        checkpoints.append(between - began)
        floors.append(time.perf_counter() - between)
    os.close(floor)
    journal.close()
    return checkpoints, floors


def _running(folder: Path) -> tuple[Journal, RunState]:
    """Return a journal and a run whose only task is being worked on."""
    plan = Plan(
        goal="Checkpoint", limits=Limits(), stages=(Stage(id="s", tasks=(Task(id="t", prompt="p"),)),)
    )
    run = "01-checkpoint"
    started = ev.RunStarted(
        run=run, goal=plan.goal, plan_hash=plan_hash(plan), base="b" * 40, branch=run_branch(run)
    )
    state = RunState(plan, first_row(started))
    journal = open_journal(journal_in(folder))
    journal.create_run(plan, state.row, started, time.time())
    epoch = journal.take_epoch(state.row.run)
    begun: list[ev.Event] = [
        ev.RunnerAttached(epoch=epoch, pid=1, host="h", boot_id="b"),
        ev.StageOpening(stage="s"),
        ev.StageOpened(stage="s"),
        ev.AttemptStarted(task="t", attempt=1, token="k", workspace_number=0, start="b"),
    ]
    for event in begun:
        state.apply(event)
    journal.append(state.row.run, epoch, begun, state.row, state.take_changed(), time.time())
    return journal, state


def _saved(number: int) -> ev.Event:
    return ev.ProgressReported(
        task="t",
        attempt=1,
        progress=float(number % 100),
        file="src/auth/tokens.py",
        line=number,
        section_done="validateToken",
        section_next="refreshToken",
        confidence=0.9,
    )


def _delays(folder: Path, times: int) -> list[float]:
    """Return how long after each append returned a reader in another thread had its event."""
    journal, state = _running(folder)
    first, seen = journal.append(state.row.run, 1, [], state.row, [], time.time()), Queue[float]()

    def follow() -> None:
        with closing(journal.reader()) as reader, closing(reader.follow(state.row.run, first)) as followed:
            for batch in followed:
                for _ in batch:
                    seen.put(time.perf_counter())
                if batch and batch[-1].seq >= first + times:
                    return

    reading = Thread(target=follow)
    reading.start()
    delays = []
    for number in range(times):
        journal.append(state.row.run, 1, [_saved(number)], state.row, [], time.time())
        acknowledged = time.perf_counter()
        delays.append(max(0.0, seen.get() - acknowledged))
    reading.join()
    journal.close()
    return delays


def _percentile_ms(spans: list[float], share: float) -> float:
    return sorted(spans)[int(len(spans) * share)] * 1000
