"""W1 and W3: no-op tasks through loop, core and journal. Started and completed are synced before they are acted on."""

from __future__ import annotations

from bench.machine import commits_per_s
from bench.measurement import Figure, in_own_process, median_run, scratch
from bench.noop import Outcome
from bench.store import is_server, tasks_per_s

_SIZES = (1_000, 10_000, 100_000)
_QUICK_SIZES = (100, 300, 1_000)
_REPEATS = (5, 3, 1)


def measure(*, quick: bool) -> list[Figure]:
    """W1: 1,000, 10,000 and 100,000 tasks in one stage."""
    sizes = _QUICK_SIZES if quick else _SIZES
    commits = _raw_commits(quick=quick)
    outcomes = [run(size, 1, repeats) for size, repeats in zip(sizes, _REPEATS, strict=True)]
    figures = [
        figure for size, outcome in zip(sizes, outcomes, strict=True) for figure in _cost("W1", size, outcome)
    ]
    small, large = outcomes[0], outcomes[-1]
    rates = [outcome.events / outcome.span.wall_s for outcome in outcomes]
    return [
        *figures,
        Figure(
            "W1",
            "events made durable",
            rates[1],
            "/s",
            bound=None if is_server() else commits,
            note="" if is_server() else "bound: single-row commits/s, now",
        ),
        _growth("cost per task, largest / smallest, wall", _wall(large) / _wall(small)),
        _growth("cost per task, largest / smallest, CPU", _cpu(large) / _cpu(small)),
        Figure("W1", "peak memory, largest", large.rss_mb, "MB", bound=400, sense="<="),
        *_size(large),
    ]


def _size(outcome: Outcome) -> list[Figure]:
    per_task = outcome.journal_bytes / outcome.completed
    return [] if is_server() else [Figure("W1", "journal per task", per_task, "bytes")]


def measure_stages(*, quick: bool) -> list[Figure]:
    """W3: 50 stages of 20 tasks, each stage waiting for the one before."""
    stages = 5 if quick else 50
    return _cost("W3", stages * 20, run(stages * 20, stages, 3), f"in {stages} stages")


def run(tasks: int, stages: int, repeats: int) -> Outcome:
    """Measure a run of no-op tasks, each time with a new process and journal."""
    return median_run(repeats, lambda: _once(tasks, stages), by=lambda outcome: outcome.span.wall_s)


def _once(tasks: int, stages: int) -> Outcome:
    with scratch() as folder:
        args = (str(folder), "--tasks", str(tasks), "--stages", str(stages))
        outcome = in_own_process(Outcome, "bench.noop", *args)
    assert outcome.completed == tasks
    return outcome


def _cost(workload: str, tasks: int, outcome: Outcome, note: str = "") -> list[Figure]:
    return [
        Figure(
            workload,
            f"{tasks:,} no-op tasks",
            1 / _wall(outcome),
            "tasks/s",
            bound=tasks_per_s() if workload == "W1" else None,
            note=note,
        ),
        Figure(workload, f"{tasks:,} no-op tasks, CPU", _cpu(outcome) * 1e6, "µs/task"),
    ]


def _growth(name: str, ratio: float) -> Figure:
    return Figure("W1", name, ratio, "x", bound=1.3, sense="<=")


def _wall(outcome: Outcome) -> float:
    return outcome.span.wall_s / outcome.completed


def _cpu(outcome: Outcome) -> float:
    return outcome.span.cpu_s / outcome.completed


def _raw_commits(*, quick: bool) -> float:
    with scratch() as folder:
        return commits_per_s(folder, 200 if quick else 2000)
