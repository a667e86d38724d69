"""W5: how long `holdfast status`, a run of one small task, and an agent's `holdfast report` take."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median

from bench.machine import bare_python_s
from bench.measurement import Figure, Span, environment, median_seconds, scratch, timed
from bench.project import Project
from holdfast.report_channel import REPORT_FILE, REPORT_VARIABLE


def measure(*, quick: bool) -> list[Figure]:
    """Measure whole processes. The quick ones alternate with an interpreter that does nothing."""
    times = 3 if quick else 15
    with scratch() as folder:
        project = Project(folder / "repo")
        numbers = count(1)
        run = median_seconds(3 if quick else 5, lambda: _one_task(project, next(numbers)))
        rounds = [
            (_spent(lambda: project.call("status")), _spent(lambda: _report(folder)), _spent(_bare_python))
            for _ in range(times)
        ]
    ours, reports, bares = zip(*rounds, strict=True)
    status, bare = (median(span.wall_s for span in spans) for spans in (ours, bares))
    status_cpu, bare_cpu = (median(span.cpu_s for span in spans) for spans in (ours, bares))
    return [
        Figure("W5", "python -c pass", bare * 1000, "ms"),
        Figure(
            "W5",
            "holdfast status",
            status * 1000,
            "ms",
            bound=round(3 * bare * 1000 + 100),
            sense="<=",
            note="bound: 3 x python -c pass + 100 ms",
        ),
        Figure("W5", "python -c pass, CPU", bare_cpu * 1000, "ms"),
        Figure("W5", "holdfast status, CPU", status_cpu * 1000, "ms"),
        Figure(
            "W5",
            "holdfast report, CPU",
            median(span.cpu_s for span in reports) * 1000,
            "ms",
            bound=60,
            sense="<=",
        ),
        Figure("W5", "holdfast run, one task", run * 1000, "ms"),
    ]


def _spent(act: Callable[[], object]) -> Span:
    with timed() as span:
        act()
    return span


def _bare_python() -> None:
    bare_python_s(1)


def _report(workspace: Path) -> None:
    """Report like an agent, without a runner."""
    argv = [sys.executable, "-m", "holdfast", "report", "progress", "40"]
    env = environment() | {REPORT_VARIABLE: str(workspace / ".holdfast" / REPORT_FILE)}
    subprocess.run(argv, cwd=workspace, env=env, check=True)


def _one_task(project: Project, number: int) -> None:
    project.write_plan(f"cold start {number}", 1)
    project.call("run", str(project.plan), "--yes")
