"""DBOS: each task is a workflow of its own, recorded when it begins and when it ends, from eight threads of one process.

A workflow without steps is the least that DBOS writes for the promise: after a crash, those that ended are not done again.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from bench.peers.worker import JOBS, NAME_VARIABLE, URL_VARIABLE, in_threads, report


def nothing(number: int) -> int:
    """The task."""
    return number


def main(tasks: int) -> None:
    """Start DBOS in this process, let it do one task, and then the tasks."""
    system: Any = import_module("dbos").DBOS
    system(
        config={
            "name": "bench",
            "system_database_url": os.environ[URL_VARIABLE],
            "dbos_system_schema": "bench_dbos",
            "executor_id": os.environ[NAME_VARIABLE],
            "application_version": "1",
            "sys_db_pool_size": 2 * JOBS,
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )
    task = system.workflow(name="nothing")(nothing)
    system.launch()
    task(0)
    report(tasks, lambda: in_threads(tasks, task))
    system.destroy()
