"""A run of a thousand tasks that is under way, for what must stay fast with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.command import Cli
from tests.support.runs import Fifo

STAGES = 10


def large_run(path: Path, tasks: int = 1000) -> tuple[Cli, Fifo]:
    """Start a run of so many tasks in ten stages; each agent waits at the gate that is returned."""
    path.mkdir(parents=True, exist_ok=True)
    gate = Fifo(path / "gate")
    script = f'{gate.take}; echo "$HOLDFAST_TASK" > "$HOLDFAST_TASK.txt"'
    each = tasks // STAGES
    stages = [_stage(number, each, script) for number in range(STAGES)]
    cli = Cli.of(path / "p", goal="A thousand tasks", stages=stages, limits={"jobs": 2})
    cli("run", "--detach", "--yes")
    return cli, gate


def _stage(number: int, tasks: int, script: str) -> dict[str, Any]:
    before = [] if number == 0 else [f"s{number - 1}"]
    return {
        "id": f"s{number}",
        "needs": before,
        "tasks": [_task(f"t{number}-{place}", number, place, script) for place in range(tasks)],
    }


def _task(name: str, stage: int, place: int, script: str) -> dict[str, Any]:
    needs = [f"t{stage}-{place - 10}"] if place >= 10 else [f"t{stage - 1}-{place}"] if stage else []
    return {"id": name, "title": f"Part {place} of step {stage}", "run": ["sh", "-c", script], "needs": needs}
