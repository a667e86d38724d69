"""The gates of a stage: what must hold before it opens and before it closes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.core import events as ev, ids
from holdfast.core.events import Gate
from holdfast.core.facts import BranchFacts
from holdfast.core.plan import Task
from holdfast.core.status import TaskStatus
from holdfast.core.syntax import faults_error
from holdfast.repo.commit_contents import paths_changed_by
from holdfast.repo.landing import branch_facts
from holdfast.repo.workspace_commit import take_snapshot, tree_of_workspace
from holdfast.runner.context import GATE_WORKSPACE, RunContext
from holdfast.runner.verification.checks import ChecksStopped, run_checks
from holdfast.runner.verification.syntax import find_syntax_errors

_PATHS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class GateFacts:
    """What a gate is judged on: the run branch, and the completed tasks of the stages in question."""

    branch: BranchFacts
    completed: tuple[Task, ...]


def gate_facts(shop: RunContext, stage: str, gate: Gate) -> GateFacts:
    """Return the ground of a gate: for the entry all stages below this one, for the exit the stage itself."""
    state = shop.state
    stages = stages_below(shop, stage) if gate == "entry" else [stage]
    completed = [
        task
        for name in stages
        for task in state.stages[name].tasks
        if state.tasks[task.id].status is TaskStatus.COMPLETED
    ]
    if not completed:
        return GateFacts(BranchFacts(tip=state.row.tip), ())
    return GateFacts(branch_facts(shop.repo, state.row.branch, state.row.base, shop.run), tuple(completed))


def stages_below(shop: RunContext, stage: str) -> list[str]:
    """Return the stages that one builds on, however far down."""
    found: dict[str, None] = {}
    frontier = list(shop.state.stages[stage].needs)
    while frontier:
        name = frontier.pop()
        if name not in found:
            found[name] = None
            frontier += shop.state.stages[name].needs
    return list(found)


def broken_conditions(shop: RunContext, stage: str, gate: Gate, ground: GateFacts) -> Iterator[str]:
    """Yield what was promised and git does not show."""
    yield from _missing_landings(shop, ground)
    yield from _missing_files(shop, ground)
    if gate == "exit":
        yield from _miscounted(shop, stage, ground)
        yield from _late_changes(shop)


async def syntax_condition(shop: RunContext, stage: str, ground: GateFacts) -> str:
    """Return the syntax errors in files that the stages below changed, as a sentence; empty if there are none."""
    relied_on = {task.id for task in ground.completed}
    merges = [landing.commit for landing in ground.branch.landings if landing.task in relied_on]
    if not merges or not shop.state.plan.syntax:
        return ""
    paths = await asyncio.to_thread(paths_changed_by, shop.repo, merges)
    base, tip = shop.state.row.base, ground.branch.tip
    faults = await find_syntax_errors(shop, base, tip, paths, f"@{stage}", 1)
    return f"stage {stage} would build on files with {faults_error(faults)}" if faults else ""


def _missing_landings(shop: RunContext, ground: GateFacts) -> Iterator[str]:
    landed = {landing.task for landing in ground.branch.landings}
    rows = shop.state.tasks
    missing = [t.id for t in ground.completed if t.id not in landed and not rows[t.id].replaced]
    if missing:
        yield f"recorded as landed but not on the run branch: {', '.join(missing)}"


def _missing_files(shop: RunContext, ground: GateFacts) -> Iterator[str]:
    promised = [(path, task.id) for task in ground.completed for path in task.files]
    if not promised:
        return
    found = shop.repo.ids_of(*(f"{ground.branch.tip}:{path}" for path, _ in promised))
    for (path, task), blob in zip(promised, found, strict=True):
        if not blob:
            yield f"{path}, delivered by {task}, is not on the run branch"


def _miscounted(shop: RunContext, stage: str, ground: GateFacts) -> Iterator[str]:
    rows = shop.state.tasks
    own = {task.id for task in shop.state.stages[stage].tasks if not rows[task.id].replaced}
    landings = [landing.task for landing in ground.branch.landings if landing.task in own]
    expected = [task.id for task in ground.completed if task.id in own]
    if len(landings) != len(expected):
        yield f"stage {stage} has {len(expected)} completed tasks but {len(landings)} landings on the run branch"


def _late_changes(shop: RunContext) -> Iterator[str]:
    """Yield each workspace at rest that was written to after its work was committed. What was written is kept."""
    for slot, commit in list(shop.captured.items()):
        workspace = shop.workspaces.get(slot)
        if _is_busy(shop, slot) or not workspace.path.is_dir():
            continue
        late = tree_of_workspace(shop.repo, workspace, commit).tree != shop.repo.tree_of(commit)
        if not late or _is_busy(shop, slot) or shop.captured.get(slot) != commit:
            continue
        ref = ids.archive_ref(shop.run, f"workspace-{slot}-{commit[:12]}")
        kept = take_snapshot(
            shop.repo, workspace, ref, f"Changed in workspace {slot} after its work was committed"
        )
        del shop.captured[slot]
        paths = ", ".join(shop.repo.changed_files(commit, kept)[:_PATHS_SHOWN])
        yield f"workspace {slot} was changed after its work had been committed ({paths}); that is kept at {ref}"


def _is_busy(shop: RunContext, slot: str) -> bool:
    return any(str(task.slot) == slot for task in list(shop.state.active.values()))


async def check_gate(shop: RunContext, stage: str, gate: Gate) -> list[ev.AnyEvent]:
    """Check a gate on the run branch as it is now. Checking it again is harmless."""
    if problem := await _first_broken_condition(shop, stage, gate):
        return [ev.StageGateFailed(stage=stage, gate=gate, error=problem)]
    commands = shop.state.stages[stage].entry if gate == "entry" else shop.state.stages[stage].exit
    if commands:
        async with shop.gate_lock:
            return [await _run_commands(shop, stage, gate, commands)]
    return [_held(stage, gate)]


async def _first_broken_condition(shop: RunContext, stage: str, gate: Gate) -> str:
    """Return the first fact that does not hold, as a sentence; empty if all of them do."""
    ground = await asyncio.to_thread(gate_facts, shop, stage, gate)
    broken = await asyncio.to_thread(lambda: next(broken_conditions(shop, stage, gate, ground), ""))
    if broken or gate == "exit":
        return broken
    return await syntax_condition(shop, stage, ground)


async def _run_commands(shop: RunContext, stage: str, gate: Gate, commands: tuple[str, ...]) -> ev.AnyEvent:
    where = await asyncio.to_thread(shop.workspaces.prepare, GATE_WORKSPACE, shop.state.row.tip)
    try:
        failed = await run_checks(shop, commands, where, owner=f"@{stage}", attempt=1, label=gate)
    except ChecksStopped:
        return ev.StageGateReset(stage=stage, gate=gate)
    if failed is None:
        return _held(stage, gate)
    return ev.StageGateFailed(stage=stage, gate=gate, error=failed.error, detail=failed.output)


def _held(stage: str, gate: Gate) -> ev.AnyEvent:
    return ev.StageOpened(stage=stage) if gate == "entry" else ev.StageClosed(stage=stage)
