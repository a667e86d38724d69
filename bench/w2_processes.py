"""W2: like W1, with a real supervised process per task, compared to processes without supervision."""

from __future__ import annotations

from pathlib import Path

from bench.machine import spawn_bare
from bench.measurement import Figure, Span, in_own_process, scratch, timed
from bench.noop import Outcome

_ROUNDS = 3


def measure(*, quick: bool) -> list[Figure]:
    """Alternate both, so that other work on the machine slows both equally."""
    tasks = 100 if quick else 1_000
    # One folder for all rounds: some file systems are slow to make files right after many were removed.
    with scratch() as folder:
        rounds = [(_supervised(folder / str(number), tasks), _bare(tasks)) for number in range(_ROUNDS)]
    ours, bare = sorted(rounds, key=lambda pair: pair[1].wall_s / pair[0].span.wall_s)[_ROUNDS // 2]
    supervised = ours.span.children_cpu_s / tasks
    return [
        Figure("W2", f"{tasks:,} supervised /bin/true", tasks / ours.span.wall_s, "tasks/s"),
        Figure("W2", "bare posix_spawn, same moment", tasks / bare.wall_s, "/s"),
        Figure("W2", "supervised / bare, wall", bare.wall_s / ours.span.wall_s, "x", bound=0.4),
        Figure("W2", "bare process, CPU", bare.children_cpu_s / tasks * 1000, "ms/task"),
        Figure("W2", "supervisor, CPU", (supervised - bare.children_cpu_s / tasks) * 1000, "ms/task"),
        Figure("W2", "loop, journal and fleet, CPU", ours.span.own_cpu_s / tasks * 1000, "ms/task"),
    ]


def _supervised(folder: Path, tasks: int) -> Outcome:
    return in_own_process(Outcome, "bench.noop", str(folder), "--tasks", str(tasks), "--processes")


def _bare(tasks: int) -> Span:
    with timed() as span:
        spawn_bare(tasks)
    return span
