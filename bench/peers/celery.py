"""Celery with a Redis broker and a Redis result backend. A task is taken back from a worker that is lost (`acks_late`).

The workers import `APP` from here.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Any

from bench.peers.worker import JOBS, NAME_VARIABLE, URL_VARIABLE, await_results, in_threads, report, workers

_URL = os.environ[URL_VARIABLE]
_ASKED = 50
_PREFIX = {"global_keyprefix": f"{os.environ[NAME_VARIABLE]}:"}

APP: Any = import_module("celery").Celery("bench", broker=_URL, backend=_URL)
APP.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=4,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options=_PREFIX,
    result_backend_transport_options=_PREFIX,
)


def nothing(number: int) -> int:
    """The task."""
    return number


TASK = APP.task(name="nothing")(nothing)


def main(tasks: int) -> None:
    """Start workers for eight tasks at a time, wait until they work, and let them do the tasks."""
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "ERROR"]
    pool = ["--pool", "threads", "--concurrency", str(JOBS)]
    argv = [sys.executable, "-m", "celery", "--app", "bench.peers.celery:APP", "--quiet", "worker"]
    with workers([*argv, *pool, *quiet]) as session:
        TASK.delay(0).get(timeout=60)
        client: Any = import_module("redis").Redis.from_url(_URL)

        def work() -> None:
            pending = [APP.backend.get_key_for_task(sent.id) for sent in in_threads(tasks, TASK.delay)]

            def stored() -> int:
                """Ask for a few at a time: asking for all of them, again and again, would slow the workers down."""
                while pending and client.exists(*pending[:_ASKED]) == len(pending[:_ASKED]):
                    del pending[:_ASKED]
                return tasks - len(pending)

            await_results(stored, tasks)

        report(tasks, work, session)
        client.delete(*client.scan_iter(f"{_PREFIX['global_keyprefix']}*", count=1000))
