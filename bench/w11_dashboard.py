"""W11: twenty people watch a run in the dashboard: how soon they see an event, and what that costs the run and the machine.

The run is a real one of another process. An event counts from the time that the journal has of it, before it is synced, until
its message has arrived; with each viewer.
"""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles

from bench.measurement import Figure, Span, environment, scratch, timed
from bench.project import Project

_VIEWERS = 20
_LATENCY_MAX_MS = 300
_MEMORY_MAX_MB = 80
_SHARE_MAX = 3
_PATIENCE_S = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class _Watched:
    """What was measured of the runs with viewers: how late each event arrived, the server's memory and processor time."""

    delays_s: list[float] = field(default_factory=list)
    memory_mb: float = 0.0
    server_cpu_s: float = 0.0
    wall_s: float = 0.0


def measure(*, quick: bool) -> list[Figure]:
    """Run the same tasks in turn without and with viewers. The first run of each is not counted."""
    tasks, rounds = (8, 1) if quick else (120, 8)
    alone: list[Span] = []
    seen: list[Span] = []
    watched = _Watched()
    with scratch() as folder:
        project = Project(folder / "repo")
        for number in range(rounds + 1):
            project.write_plan(f"alone {number}", tasks)
            with timed() as span:
                project.call("run", "--yes", str(project.plan))
            alone.append(span)
            project.write_plan(f"watched {number}", tasks)
            seen.append(_run_watched(project, watched, counts=number > 0))
    counted = slice(1, None)
    bare = min(span.cpu_s for span in alone[counted])
    more = min(span.cpu_s for span in seen[counted]) / bare - 1
    p95 = quantiles(watched.delays_s, n=20)[-1] * 1000
    return [
        Figure("W11", "an event on the page, median", median(watched.delays_s) * 1000, "ms", note=f"{_VIEWERS} viewers"),
        Figure("W11", "an event on the page, p95", p95, "ms", bound=_LATENCY_MAX_MS, sense="<=", note=f"{_VIEWERS} viewers"),
        Figure("W11", "memory of the server (PSS)", watched.memory_mb, "MB", bound=_MEMORY_MAX_MB, sense="<="),
        Figure(
            "W11",
            "CPU of the run, watched against alone",
            max(more, 0.0) * 100,
            "% more",
            bound=_SHARE_MAX,
            sense="<=",
            note=f"{tasks} tasks that do nothing",
        ),
        Figure("W11", "CPU of the server meanwhile", watched.server_cpu_s / watched.wall_s * 100, "% of a core"),
    ]  # fmt: skip


def _run_watched(project: Project, watched: _Watched, *, counts: bool) -> Span:
    """Execute a run while viewers watch it, and note when they saw its events."""
    with _serving(project.checkout) as (process, port, token):
        before = len(project.reader().runs())
        with timed() as span:
            runner = project.start("run", "--yes", str(project.plan))
            run = _new_run(project, before)
            arrivals: list[tuple[float, int, int]] = []
            viewers = [_viewer(port, token, run, arrivals) for _ in range(_VIEWERS)]
            assert runner.wait() == 0
        last = project.reader().load(run).last_seq
        _await_all(arrivals, last)
        if counts:
            watched.memory_mb = max(watched.memory_mb, _pss_mb(process.pid))
            watched.server_cpu_s += _cpu_s(process.pid)
            watched.wall_s += span.wall_s
            watched.delays_s += _delays(project, run, arrivals)
    for viewer in viewers:
        viewer.join(_PATIENCE_S)
    return span


def _delays(project: Project, run: str, arrivals: list[tuple[float, int, int]]) -> list[float]:
    """Return for each event, and each viewer that saw it come, how long that took."""
    at = {record.seq: record.at for record in project.reader().events(run)}
    return [came - at[seq] for came, first, last in arrivals for seq in range(first, last + 1)]


def _new_run(project: Project, before: int) -> str:
    deadline = time.monotonic() + _PATIENCE_S
    while len(runs := project.reader().runs()) == before:
        assert time.monotonic() < deadline, "no run"
        time.sleep(0.01)
    return runs[-1].row.run


def _await_all(arrivals: list[tuple[float, int, int]], last: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while sum(upto == last for _, _, upto in list(arrivals)) < _VIEWERS:
        assert time.monotonic() < deadline, "an event never arrived"
        time.sleep(0.05)


def _viewer(port: int, token: str, run: str, arrivals: list[tuple[float, int, int]]) -> threading.Thread:
    """Watch a run in a thread. Each change is noted with the events that it has: those after the message before it."""

    def watch() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port)
        path = f"/api/v1/repositories/repo/runs/{run}/stream"
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer, seen, number = connection.getresponse(), 0, 0
        while line := answer.readline():
            if line.startswith(b"id: "):
                number = int(line[4:])
            elif line == b"\n" and number:
                if seen and number > seen:
                    arrivals.append((time.time(), seen + 1, number))
                seen, number = max(seen, number), 0

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


@contextmanager
def _serving(checkout: Path) -> Iterator[tuple[subprocess.Popen[bytes], int, str]]:
    argv = [sys.executable, "-m", "holdfast", "serve", "--port", "0"]
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(
                argv, cwd=checkout, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment()
            )
        )
        stack.callback(process.terminate)
        assert process.stdout is not None
        found = re.search(rb":(\d+)/#token=(\S+)", process.stdout.readline())
        assert found, "it does not serve"
        yield process, int(found[1]), found[2].decode()


def _pss_mb(pid: int) -> float:
    found = re.search(r"^Pss:\s+(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
    assert found
    return int(found[1]) / 1024


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
