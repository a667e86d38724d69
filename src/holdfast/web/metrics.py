"""Figures for Prometheus, in its text format: how many runs and tasks there are in which status, and what they used."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from holdfast.core.status import RunStatus, TaskStatus
from holdfast.reporting.displayed_status import QueuePlace
from holdfast.views.run_list import RunLine
from holdfast.views.status import StatusView
from holdfast.web.overview import RepositoryOverview

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
METRICS: dict[str, tuple[str, str]] = {
    "holdfast_up": ("gauge", "Whether the repository can be read."),
    "holdfast_runs": ("gauge", "Runs by status."),
    "holdfast_tasks": ("gauge", "Tasks of a run by status."),
    "holdfast_tasks_landed": ("gauge", "Tasks of a run that landed."),
    "holdfast_attempts": ("gauge", "Attempts of a run."),
    "holdfast_redone": ("gauge", "Attempts of a run that left nothing to build on."),
    "holdfast_tokens": ("gauge", "Tokens that the agents of a run told of."),
    "holdfast_cost_usd": ("gauge", "US dollars that the agents of a run told of."),
    "holdfast_agents_at_work": ("gauge", "Agents of a run at work."),
    "holdfast_merge_queue": ("gauge", "Tasks of a run in the merge queue."),
    "holdfast_needs_you": ("gauge", "Things that wait for a person."),
    "holdfast_held": ("gauge", "Whether a live runner holds the run."),
    "holdfast_event_number": ("gauge", "Number of the newest event of a run."),
    "holdfast_last_event_seconds": ("gauge", "Seconds since the newest event of a run."),
}
"""Every figure: its type and what it says."""


@dataclass(slots=True)
class _Samples:
    """The samples of each figure, in the order of `METRICS`."""

    found: dict[str, list[str]] = field(default_factory=lambda: {name: [] for name in METRICS})

    def add(self, name: str, value: float, **labels: str) -> None:
        """Add a sample."""
        said = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        self.found[name].append(f"{name}{{{said}}} {_number(value)}")

    def lines(self) -> Iterator[str]:
        """Yield all of them, each figure with its explanation."""
        for name, (kind, words) in METRICS.items():
            yield f"# HELP {name} {words}"
            yield f"# TYPE {name} {kind}"
            yield from self.found[name]


def metrics_text(parts: Iterable[RepositoryOverview]) -> str:
    """Return the figures of repositories as they were looked at last. Runs that are over are only counted."""
    samples = _Samples()
    for part in parts:
        repository = part.served.id
        view = part.view
        samples.add("holdfast_up", float(view is not None and view.error is None), repository=repository)
        samples.add("holdfast_needs_you", len(part.inbox), repository=repository)
        found = part.statuses()
        for status, number in _counts(RunStatus, (line.status for line, _ in found)).items():
            samples.add("holdfast_runs", number, repository=repository, status=status)
        for line, status_now in found:
            if status_now is not None:
                _add_run(samples, repository, line, status_now, part.last_seq(line.id))
    return "\n".join([*samples.lines(), ""])


def _add_run(samples: _Samples, repository: str, line: RunLine, view: StatusView, seq: int) -> None:
    labels = {"repository": repository, "run": line.id}
    for status, number in _counts(TaskStatus, (task.status for task in view.tasks)).items():
        samples.add("holdfast_tasks", number, **labels, status=status)
    running = sum(task.status is TaskStatus.RUNNING for task in view.tasks)
    queued = sum(one.status in (QueuePlace.READY, QueuePlace.MERGING) for one in view.merge_queue)
    held = view.run.held_by is not None
    figures: dict[str, float | None] = {
        "holdfast_tasks_landed": view.metrics.completed,
        "holdfast_attempts": view.metrics.attempts,
        "holdfast_redone": view.metrics.redone,
        "holdfast_tokens": view.metrics.tokens,
        "holdfast_cost_usd": view.metrics.cost_usd,
        "holdfast_agents_at_work": running if held else 0,
        "holdfast_merge_queue": queued,
        "holdfast_held": float(held),
        "holdfast_event_number": seq,
        "holdfast_last_event_seconds": max(0.0, time.time() - _seconds(line.updated_at)),
    }
    for name, value in figures.items():
        if value is not None:  # no agent told of tokens or money: that is not the same as none
            samples.add(name, value, **labels)


def _counts(kinds: Iterable[str], found: Iterable[str]) -> Mapping[str, int]:
    """Return how many there are of each kind, also of those of which there are none."""
    return {str(kind): 0 for kind in kinds} | {str(kind): number for kind, number in Counter(found).items()}


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _number(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
