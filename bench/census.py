"""Who belongs to whom in a live run, and what each takes: Holdfast's own processes, and the agents below its supervisors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.process import procfs

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_SUPERVISOR = "hf-supervisor"


@dataclass(slots=True)
class Census:
    """What was seen of a runner and of all below it. Memory is proportional set size, at its peak over all looks."""

    runner: int
    own_mb: float = 0.0
    agents_mb: float = 0.0
    supervisors: int = 0
    runner_cpu_s: float = 0.0
    _supervisor_cpu_s: dict[int, float] = field(default_factory=dict)
    _seen: dict[int, int] = field(default_factory=dict)

    def look(self) -> None:
        """Look once. A process that ends meanwhile is left out."""
        below = procfs.descendants(self.runner)
        supervisors = {pid for pid in below if _read(pid, "comm").strip() == _SUPERVISOR}
        agents = _under({pid: entry.ppid for pid, entry in below.items()}, supervisors)
        self.own_mb = max(self.own_mb, _pss_mb({self.runner, *self._apart(below)} - agents))
        self.agents_mb = max(self.agents_mb, _pss_mb(agents))
        self.supervisors = max(self.supervisors, len(supervisors))
        self.runner_cpu_s = max(self.runner_cpu_s, _cpu_s(self.runner))
        for pid in supervisors:
            self._supervisor_cpu_s[pid] = max(_thread_cpu_s(pid), self._supervisor_cpu_s.get(pid, 0.0))
        self._seen |= {pid: entry.started for pid, entry in below.items()}

    def _apart(self, pids: Iterable[int]) -> list[int]:
        """Leave out children of the runner that are not yet the program they will be: its memory would count twice."""
        runner = _read(self.runner, "cmdline")
        return [pid for pid in pids if _read(pid, "cmdline") != runner]

    @property
    def supervisors_cpu_s(self) -> float:
        """The processor time of all supervisors; what each took after the last look at it is not in it."""
        return sum(self._supervisor_cpu_s.values())

    def survivors(self) -> list[int]:
        """Return who was ever seen and lives on."""
        entries = [entry for entry in map(procfs.stat, self._seen) if entry is not None]
        return [entry.pid for entry in entries if entry.alive and entry.started == self._seen[entry.pid]]


def _under(parents: Mapping[int, int], roots: set[int]) -> set[int]:
    """Return all processes below some others."""
    found: set[int] = set()
    while more := {pid for pid, parent in parents.items() if parent in roots | found} - found:
        found |= more
    return found


def _pss_mb(pids: Iterable[int]) -> float:
    sizes = (re.search(r"^Pss:\s+(\d+) kB", _read(pid, "smaps_rollup"), re.MULTILINE) for pid in pids)
    return sum(int(size[1]) for size in sizes if size) / 1024


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process, in steps of 10 ms."""
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_S if fields else 0.0


def _thread_cpu_s(pid: int) -> float:
    """Return the processor time of a process with one thread, exactly."""
    return int((_read(pid, "schedstat").split() or ["0"])[0]) / 1e9


def _read(pid: int, what: str) -> str:
    try:
        return Path(f"/proc/{pid}/{what}").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
