"""huey: a list as the queue, a hash for the results. A task that is begun is out of the queue: a crash loses it.

`python -m bench.peers.huey TASKS`; the consumer imports `QUEUE` from here.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.peers.worker import JOBS, NAME_VARIABLE, URL_VARIABLE, await_results, in_threads, report, workers

QUEUE: Any = import_module("huey").RedisHuey(os.environ[NAME_VARIABLE], url=os.environ[URL_VARIABLE])


def nothing(number: int) -> int:
    """The task. Its result is stored, which huey does for everything but None."""
    return number


TASK = QUEUE.task(name="nothing")(nothing)


def main(tasks: int) -> None:
    """Start a consumer with eight threads, wait until it works, and let it do the tasks."""
    consumer = Path(sys.executable).with_name("huey_consumer")
    options = ["--worker-type", "thread", "--workers", str(JOBS), "--no-periodic", "--quiet"]
    with workers([str(consumer), "bench.peers.huey.QUEUE", *options]) as session:
        TASK(0).get(blocking=True, timeout=60)

        def work() -> None:
            in_threads(tasks, TASK)
            await_results(QUEUE.storage.result_store_size, tasks)

        report(tasks, work, session)
    QUEUE.storage.flush_all()
