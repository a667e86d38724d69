"""What the peers share: their tasks are sent by eight threads, done by workers in other processes, and awaited in the server.

It runs in the environment of a peer, and needs nothing but Python.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

JOBS = 8
URL_VARIABLE = "HOLDFAST_BENCH_PEER_URL"
NAME_VARIABLE = "HOLDFAST_BENCH_PEER_NAME"
"""What the peer puts before its keys, so that nothing is left from an earlier measurement."""
_DEADLINE_S = 300.0
_LOOK_S = 0.01
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def workers(argv: list[str]) -> Iterator[int]:
    """Start the workers of a peer, and end them with all their children. Yields their session."""
    process = subprocess.Popen(argv, start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        yield process.pid
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def report(tasks: int, work: Callable[[], object], session: int | None = None) -> None:
    """Do the work, and print how long it took and the processor time of this process and of a session."""
    began, used = time.perf_counter(), _cpu_s(session)
    work()
    wall, cpu = time.perf_counter() - began, _cpu_s(session) - used
    print(json.dumps({"completed": tasks, "wall_s": wall, "cpu_s": cpu}))


def in_threads(tasks: int, act: Callable[[int], Any]) -> list[Any]:
    """Call with each number, eight at a time."""
    with ThreadPoolExecutor(JOBS) as pool:
        return list(pool.map(act, range(tasks)))


def await_results(stored: Callable[[], int], wanted: int) -> None:
    """Wait until the server holds so many results."""
    deadline = time.monotonic() + _DEADLINE_S
    while stored() < wanted:
        assert time.monotonic() < deadline, "the workers do not finish"
        time.sleep(_LOOK_S)


def _cpu_s(session: int | None) -> float:
    return (
        time.process_time()
        + sum(_ticks(path, session) for path in Path("/proc").glob("[0-9]*/stat")) / _TICKS
    )


def _ticks(path: Path, session: int | None) -> int:
    """Return the processor time of a process if it is of the session, also while it ends."""
    try:
        fields = path.read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12]) if int(fields[3]) == session else 0
