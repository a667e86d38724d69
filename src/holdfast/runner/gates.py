"""The gates of a stage: what must hold before it opens and before it closes."""

from __future__ import annotations

import asyncio

from holdfast.core import events as ev
from holdfast.core.events import Gate
from holdfast.runner.checks import ChecksCutShort, run_checks
from holdfast.runner.promises import broken_promises, survey, syntax_promise
from holdfast.runner.workshop import GATE_WORKSPACE, Workshop


async def check_gate(shop: Workshop, stage: str, gate: Gate) -> list[ev.AnyEvent]:
    """Check a gate on the run branch as it is now. Checking it again is harmless."""
    if problem := await _broken_promise(shop, stage, gate):
        return [ev.StageGateFailed(stage=stage, gate=gate, error=problem)]
    commands = shop.state.stages[stage].entry if gate == "entry" else shop.state.stages[stage].exit
    if commands:
        async with shop.gate_lock:
            return [await _run_commands(shop, stage, gate, commands)]
    return [_held(stage, gate)]


async def _broken_promise(shop: Workshop, stage: str, gate: Gate) -> str:
    """Return the first fact that does not hold, as a sentence; empty if all of them do."""
    ground = await asyncio.to_thread(survey, shop, stage, gate)
    broken = await asyncio.to_thread(lambda: next(broken_promises(shop, stage, gate, ground), ""))
    if broken or gate == "exit":
        return broken
    return await syntax_promise(shop, stage, ground)


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
