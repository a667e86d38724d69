"""The names of runs and tasks in a SQLite journal, read with nothing but SQLite and JSON.

For shells that complete while somebody types: to load the types of events and rows takes five times as long as the rest.
Everything else reads a journal through `protocol.py`.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import NamedTuple

from holdfast.journal.sqlite_read import consistent_read

_KEY_BITS = 32  # as in sqlite_schema.py, which would load everything
_NOT_STARTED = "pending"
"""The status of rows that are not stored, or are without one."""


class NamedRun(NamedTuple):
    """A run by its name."""

    run: str
    status: str
    goal: str


class NamedTask(NamedTuple):
    """A task by its name."""

    task: str
    status: str
    title: str


def named_runs(journal: Path) -> list[NamedRun]:
    """Return every run, oldest first."""
    rows = consistent_read(journal, lambda db: db.execute("SELECT row FROM runs ORDER BY key").fetchall())
    found = [json.loads(row) for (row,) in rows]
    return [NamedRun(row["run"], row.get("status", _NOT_STARTED), row["goal"]) for row in found]


def named_tasks(journal: Path, run: str) -> list[NamedTask]:
    """Return the tasks of a run, in the order of its plan."""

    def query(db: sqlite3.Connection) -> tuple[bytes, list[tuple[bytes]]]:
        key, row = db.execute("SELECT key, row FROM runs WHERE run = ?", (run,)).fetchone()
        digest = json.loads(row)["plan_hash"]
        (plan,) = db.execute("SELECT body FROM plans WHERE hash = ?", (digest,)).fetchone()
        begun = (key << _KEY_BITS, ((key + 1) << _KEY_BITS) - 1)
        return plan, db.execute("SELECT row FROM tasks WHERE key BETWEEN ? AND ?", begun).fetchall()

    plan, rows = consistent_read(journal, query)
    statuses = {row["id"]: row.get("status", _NOT_STARTED) for row in (json.loads(body) for (body,) in rows)}
    tasks = [task for stage in json.loads(plan)["stages"] for task in stage["tasks"]]
    return [
        NamedTask(one["id"], statuses.get(one["id"], _NOT_STARTED), one.get("title", "")) for one in tasks
    ]
