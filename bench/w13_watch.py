"""W13: `watch` on a terminal beside a busy run: how soon the run is on the screen, and what showing it costs.

The terminal is a real one whose output is read as fast as it comes. The run is of another process: eight tasks at a time, each
of which works for a second and lands, so that something happens dozens of times a second.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from bench.measurement import Figure, environment, scratch
from bench.project import Project

_START_MAX_MS = 600
_SHARE_MAX = 3
_ROWS, _COLUMNS = 40, 120
_WORK_S = 1.0
_SETTLED_S = 3.0
_PATIENCE_S = 60.0
_TICKS = os.sysconf("SC_CLK_TCK")
_READ_BYTES = 65536


@dataclass(slots=True)
class _Screen:
    """What a view has drawn: how much, and whether the run is there."""

    terminal: int
    drawn_bytes: int = 0
    shows_run: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        """Take in what is drawn until the terminal is closed."""
        rest = b""
        while piece := self._piece():
            self.drawn_bytes += len(piece)
            if b" landed" in rest + piece:
                self.shows_run.set()
            rest = piece[-16:]

    def _piece(self) -> bytes:
        try:
            return os.read(self.terminal, _READ_BYTES)
        except OSError:  # nobody has the other side any more
            return b""


def measure(*, quick: bool) -> list[Figure]:
    """Open views one after the other while a run is busy, then watch it for a while in one."""
    tasks, starts, watched_s = (200, 1, 2.0) if quick else (400, 7, 20.0)
    with scratch() as folder:
        project = Project(folder / "repo")
        project.write_plan("busy", tasks, _WORK_S)
        runner = project.start("run", "--yes", str(project.plan))
        _await_landing(project)
        began = [_start_s(project) for _ in range(starts)]
        share, events_per_s, drawn = _watched(project, watched_s)
        assert runner.poll() is None, "the run was over before it was measured"
        project.call("stop")
        runner.wait()
    note = f"{tasks} tasks, {events_per_s:.0f} events/s"
    return [
        Figure("W13", "the run is on the screen, median", median(began) * 1000, "ms", bound=_START_MAX_MS, sense="<=", note=note),
        Figure("W13", "CPU of watch", share * 100, "% of a core", bound=_SHARE_MAX, sense="<=", note=note),
        Figure("W13", "drawn on the terminal", drawn / 1000, "kB/s"),
    ]  # fmt: skip


def _start_s(project: Project) -> float:
    """Return how long a view takes from its start until the run is on the screen."""
    began = time.perf_counter()
    with _view(project.checkout):
        return time.perf_counter() - began


def _watched(project: Project, lasting_s: float) -> tuple[float, float, float]:
    """Return which share of a core a view took, how many events there were a second, and how many bytes were drawn."""
    with _view(project.checkout) as (process, screen):
        time.sleep(_SETTLED_S)
        began, cpu, drawn, seq = time.perf_counter(), _cpu_s(process.pid), screen.drawn_bytes, _last(project)
        time.sleep(lasting_s)
        took = time.perf_counter() - began
        return (
            (_cpu_s(process.pid) - cpu) / took,
            (_last(project) - seq) / took,
            (screen.drawn_bytes - drawn) / took,
        )


@contextmanager
def _view(checkout: Path) -> Iterator[tuple[subprocess.Popen[bytes], _Screen]]:
    """Watch the run on a terminal of its own; leave by its key."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (_ROWS, _COLUMNS))
    screen = _Screen(ours)
    with ExitStack() as stack:
        stack.callback(os.close, ours)
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "watch"],
            cwd=checkout,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**environment(), "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(theirs)
        reading = threading.Thread(target=screen.read, daemon=True)
        reading.start()
        assert screen.shows_run.wait(_PATIENCE_S), "the run was never on the screen"
        yield process, screen
        os.write(ours, b"q")
        assert process.wait(_PATIENCE_S) == 0
        reading.join(_PATIENCE_S)


def _await_landing(project: Project) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not project.completed():
        assert time.monotonic() < deadline, "no task landed"
        time.sleep(0.05)


def _last(project: Project) -> int:
    return project.reader().runs()[-1].last_seq


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
