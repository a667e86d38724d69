"""Measures time and memory; results are figures with units, some with a bound."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Literal, TypeVar

import msgspec

from holdfast.core.status import SandboxLevel
from holdfast.runner.sandbox_setting import SANDBOX_VARIABLE

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results"
T = TypeVar("T", bound=msgspec.Struct)


class Span(msgspec.Struct, kw_only=True):
    """How long something took: wall time, and processor time of this process and of those it waited for."""

    wall_s: float = 0.0
    own_cpu_s: float = 0.0
    children_cpu_s: float = 0.0

    @property
    def cpu_s(self) -> float:
        """All processor time. Other work on the machine hardly affects it."""
        return self.own_cpu_s + self.children_cpu_s

    def __iadd__(self, other: Span) -> Span:
        self.wall_s += other.wall_s
        self.own_cpu_s += other.own_cpu_s
        self.children_cpu_s += other.children_cpu_s
        return self


@contextmanager
def timed() -> Iterator[Span]:
    """Measure the body of the `with` statement."""
    span = Span()
    began = time.perf_counter()
    own, children = _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN)
    yield span
    span.wall_s = time.perf_counter() - began
    span.own_cpu_s = _cpu(resource.RUSAGE_SELF) - own
    span.children_cpu_s = _cpu(resource.RUSAGE_CHILDREN) - children


def _cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def peak_rss_mb() -> float:
    """Return the peak resident memory of this process. (`ru_maxrss` would count its parent's too.)"""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1024


def environment() -> dict[str, str]:
    """Return an environment that caches compiled modules, as in any installation, and asks for no sandbox.

    What a sandbox costs is a figure of its own. `HOLDFAST_SANDBOX=workspace` measures everything with it.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env.setdefault(SANDBOX_VARIABLE, SandboxLevel.OFF)
    return env | {"PYTHONPYCACHEPREFIX": str(RESULTS / "compiled")}


def in_own_process(kind: type[T], module: str, *args: str) -> T:
    """Run `python -m module args` and return what it prints as JSON."""
    argv = [sys.executable, "-m", module, *args]
    done = subprocess.run(argv, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=kind)


def median_run(times: int, measure: Callable[[], T], by: Callable[[T], float]) -> T:
    """Measure several times and return the median measurement."""
    taken = sorted((measure() for _ in range(times)), key=by)
    return taken[len(taken) // 2]


def median_seconds(times: int, act: Callable[[], object]) -> float:
    """Return the median wall time of several calls."""
    taken = []
    for _ in range(times):
        with timed() as span:
            act()
        taken.append(span.wall_s)
    return median(taken)


@contextmanager
def scratch() -> Iterator[Path]:
    """A temporary folder beside the results: `/tmp` may be in memory, where a sync costs nothing."""
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=RESULTS, prefix="scratch-") as folder:
        yield Path(folder)


class Figure(msgspec.Struct, frozen=True, omit_defaults=True):
    """One measured number. It must be at least (`>=`) or at most (`<=`) its `bound`, if it has one."""

    workload: str
    name: str
    value: float
    unit: str
    bound: float | None = None
    sense: Literal[">=", "<="] = ">="
    note: str = ""

    @property
    def reached(self) -> bool | None:
        """Whether the bound is kept, or None when there is none."""
        if self.bound is None:
            return None
        return self.value >= self.bound if self.sense == ">=" else self.value <= self.bound


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and its load during the measurement: other work makes figures worse, never better."""

    cpus: int
    python: str
    git: str
    load_before: tuple[float, float, float]
    load_after: tuple[float, float, float]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the benchmark. `skipped` gives the reason for each workload that could not be measured."""

    taken_at: str
    command: str
    quick: bool
    machine: Machine
    figures: list[Figure]
    skipped: dict[str, str]


def table(figures: list[Figure]) -> str:
    """Return the figures as Markdown, one row each."""
    rows: list[tuple[str, ...]] = [("", "figure", "value", "unit", "to reach", "", "note"), ("-",) * 7]
    rows += [_row(figure) for figure in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(7)]
    return "\n".join(_line(row, widths) for row in rows)


def _row(figure: Figure) -> tuple[str, ...]:
    bound = "" if figure.bound is None else f"{figure.sense} {_number(figure.bound)}"
    verdict = {True: "reached", False: "NOT reached", None: ""}[figure.reached]
    return (
        figure.workload,
        figure.name,
        _number(figure.value),
        figure.unit,
        bound,
        verdict,
        figure.note,
    )


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    fill = "-" if row[0] == "-" else " "
    cells = (
        cell.rjust(width, fill) if column in (2, 4) else cell.ljust(width, fill)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return f"| {' | '.join(cells)} |"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
