"""W4: a run is killed half-way and resumed.

How soon does a remaining task start or land? Is anything done twice?
"""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.measurement import ROOT, Figure, environment, scratch
from bench.noop import RUN
from bench.project import Project
from bench.store import is_server, journal_in
from holdfast.core import events as ev
from holdfast.journal import open_reader
from holdfast.journal.protocol import JournalReader

_LOOK_S = 0.01


@dataclass(frozen=True, slots=True)
class _Resumed:
    """What the journal says about a resume."""

    completed_before: int
    first_start_s: float
    redone: int
    unfinished: int


def measure(*, quick: bool) -> list[Figure]:
    """Kill a large run of no-op tasks, and a small run with real processes and git."""
    noops, real = (400, 24) if quick else (10_000, 60)
    with scratch() as folder:
        figures = _figures(f"{noops:,} no-op tasks", _noop(folder, noops))
    if is_server():
        return figures
    with scratch() as folder:
        figures += _figures(f"{real} real tasks", _real(folder, real))
    return figures


def _figures(what: str, resumed: _Resumed) -> list[Figure]:
    note = f"killed with {resumed.completed_before} done"
    return [
        Figure(
            "W4",
            f"{what}: resume to first task continued",
            resumed.first_start_s,
            "s",
            bound=1,
            sense="<=",
            note=note,
        ),
        Figure("W4", f"{what}: completed, redone", resumed.redone, "tasks", bound=0, sense="<="),
        Figure("W4", f"{what}: never finished", resumed.unfinished, "tasks", bound=0, sense="<="),
    ]


def _noop(folder: Path, tasks: int) -> _Resumed:
    argv = [sys.executable, "-m", "bench.noop", str(folder)]
    killed = subprocess.run(
        [*argv, "--tasks", str(tasks), "--kill-after", str(tasks // 2)],
        cwd=ROOT,
        env=environment(),
        check=False,
    )
    assert killed.returncode < 0, "the run ended before it could be killed"
    began = time.time()
    subprocess.run(argv, cwd=ROOT, env=environment(), check=True, stdout=subprocess.DEVNULL)
    return _judge(open_reader(journal_in(folder)), RUN, tasks, began)


def _real(folder: Path, tasks: int) -> _Resumed:
    project = Project(folder / "repo")
    project.call("list")  # compiles what the commands need
    project.write_plan("resume", tasks)
    runner = project.start("run", str(project.plan), "--yes")
    while project.completed() < tasks // 2:
        assert runner.poll() is None, "the run ended before it could be killed"
        time.sleep(_LOOK_S)
    runner.kill()
    runner.wait()
    began = time.time()
    project.call("resume", "--yes")
    reader = project.reader()
    return _judge(reader, reader.runs()[-1].row.run, tasks, began)


def _judge(reader: JournalReader, run: str, tasks: int, began: float) -> _Resumed:
    """Read from the journal what landed before the second runner started, and what that runner started."""
    recorded = list(reader.events(run))
    takeover = [i for i, entry in enumerate(recorded) if isinstance(entry.event, ev.RunnerAttached)][-1]
    before = {entry.event.task for entry in recorded[:takeover] if isinstance(entry.event, ev.TaskLanded)}
    after = {entry.event.task for entry in recorded if isinstance(entry.event, ev.TaskLanded)}
    begun = [e for e in recorded[takeover:] if isinstance(e.event, ev.AttemptStarted | ev.LandingStarted)]
    redone = {e.event.task for e in begun if isinstance(e.event, ev.AttemptStarted)} & before
    return _Resumed(len(before), begun[0].at - began, len(redone), tasks - len(after))
