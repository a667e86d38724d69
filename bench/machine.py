"""The machine's own limits, measured in the same run. Compare Holdfast's figures with these."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

from bench.measurement import Figure, median_seconds, scratch, timed

_ROW = b"x" * 256
_JOBS = 8


def measure(*, quick: bool) -> list[Figure]:
    """Return what the machine can do without Holdfast."""
    times = 200 if quick else 2000
    with scratch() as folder:
        syncs, commits = syncs_per_s(folder, times), commits_per_s(folder, times)
    python = bare_python_s(3 if quick else 15)
    return [
        Figure("raw", "append 256 B + fdatasync", syncs, "/s"),
        Figure("raw", "SQLite WAL FULL, one row per commit", commits, "/s"),
        Figure("raw", "posix_spawn /bin/true, 8 at a time", spawns_per_s(times), "/s"),
        Figure("raw", "python -c pass", python * 1000, "ms"),
    ]


def syncs_per_s(folder: Path, times: int) -> float:
    """Append and sync, one after the other."""
    fd = os.open(folder / "appended", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with timed() as span:
        for _ in range(times):
            os.write(fd, _ROW)
            os.fdatasync(fd)
    os.close(fd)
    return times / span.wall_s


def commits_per_s(folder: Path, times: int) -> float:
    """Insert one row per transaction, as durable as the journal."""
    with closing(sqlite3.connect(folder / "raw.db", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        with timed() as span:
            for _ in range(times):
                db.execute("INSERT INTO rows (body) VALUES (?)", (_ROW,))
    return times / span.wall_s


def spawns_per_s(times: int) -> float:
    """Start the smallest possible program, eight at a time, without a supervisor."""
    with timed() as span:
        spawn_bare(times)
    return times / span.wall_s


def spawn_bare(times: int) -> None:
    """Run `/bin/true` that many times, eight at a time."""
    for number in range(times):
        if number >= _JOBS:
            os.wait()
        os.posix_spawn("/bin/true", ["/bin/true"], {})
    for _ in range(min(times, _JOBS)):
        os.wait()


def bare_python_s(times: int) -> float:
    """Return how long the interpreter takes to start and end."""
    return median_seconds(times, lambda: subprocess.run([sys.executable, "-c", "pass"], check=True))
