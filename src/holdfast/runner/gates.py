"""The gates of a stage: what must hold before it opens and before it closes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from holdfast.core import events as ev
from holdfast.core.events import Gate
from holdfast.core.status import TaskStatus
from holdfast.repo.history import branch_facts
from holdfast.runner.checks import ChecksCutShort, run_checks
from holdfast.runner.workshop import GATE_WORKSPACE, Workshop


async def check_gate(shop: Workshop, stage: str, gate: Gate) -> list[ev.AnyEvent]:
    """Check a gate on the run branch as it is now. Checking it again is harmless."""
    problem = await asyncio.to_thread(_broken_promise, shop, stage, gate)
    if problem:
        return [ev.StageGateFailed(stage=stage, gate=gate, error=problem)]
    commands = shop.state.stages[stage].entry if gate == "entry" else shop.state.stages[stage].exit
    if commands:
        async with shop.gate_lock:
            return [await _run_commands(shop, stage, gate, commands)]
    return [_held(stage, gate)]


async def _run_commands(shop: Workshop, stage: str, gate: Gate, commands: tuple[str, ...]) -> ev.AnyEvent:
    where = await asyncio.to_thread(shop.workspaces.prepare, GATE_WORKSPACE, shop.state.row.tip)
    try:
        failed = await run_checks(shop, commands, where, owner=f"@{stage}", attempt=1, label=gate)
    except ChecksCutShort:
        return ev.StageGateReset(stage=stage, gate=gate)
    if failed is None:
        return _held(stage, gate)
    return ev.StageGateFailed(stage=stage, gate=gate, error=failed.error, detail=failed.output)


def _held(stage: str, gate: Gate) -> ev.AnyEvent:
    return ev.StageOpened(stage=stage) if gate == "entry" else ev.StageClosed(stage=stage)


def _broken_promise(shop: Workshop, stage: str, gate: Gate) -> str:
    """Return what the stages before (entry) or this one (exit) promised and git does not show."""
    stages = shop.state.stages[stage].needs if gate == "entry" else (stage,)
    return next((p for name in stages for p in _unkept(shop, name)), "")


def _unkept(shop: Workshop, stage: str) -> Iterator[str]:
    state = shop.state
    completed = [t for t in state.stages[stage].tasks if state.tasks[t.id].status is TaskStatus.COMPLETED]
    if not completed:
        return
    facts = branch_facts(shop.repo, state.row.branch, state.row.base, shop.run)
    landed = {landing.task for landing in facts.landings}
    if missing := [task.id for task in completed if task.id not in landed]:
        yield f"recorded as landed but not on the run branch: {', '.join(missing)}"
    for task in completed:
        for path in task.files:
            if shop.repo.file_at(facts.tip, path) is None:
                yield f"{path}, delivered by {task.id}, is not on the run branch"
