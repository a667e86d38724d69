"""The gates of a stage: what must hold before it opens and before it closes.

First what git shows (landings, delivered files, syntax, late changes), then the commands of the plan.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.core import events as ev, ids
from holdfast.core.facts import BranchFacts
from holdfast.core.plan import Task
from holdfast.core.status import Gate, TaskStatus
from holdfast.core.syntax import faults_error
from holdfast.repo.commit_contents import files_changed_by
from holdfast.repo.landing import branch_facts
from holdfast.repo.snapshots import take_snapshot
from holdfast.repo.workspace_commit import tree_of_workspace
from holdfast.runner.context import RunContext
from holdfast.runner.verification.checks import ChecksStopped, run_checks
from holdfast.runner.verification.syntax import find_syntax_errors
from holdfast.runner.workspace_setup import set_up

_PATHS_SHOWN = 10


async def check_gate(context: RunContext, stage: str, gate: Gate) -> list[ev.Event]:
    """Check a gate on the run branch as it is now. Safe to repeat after a crash."""
    if problem := await _broken_condition(context, stage, gate):
        return [ev.StageGateFailed(stage=stage, gate=gate, error=problem)]
    commands = context.state.stages[stage].entry if gate == "entry" else context.state.stages[stage].exit
    if commands:
        async with context.workspaces.gate_lock:
            return [await _run_commands(context, stage, gate, commands)]
    return [_held(stage, gate)]


async def _broken_condition(context: RunContext, stage: str, gate: Gate) -> str:
    """Return the first condition that does not hold, as a sentence; empty if all of them do."""
    facts = await asyncio.to_thread(_gate_facts, context, stage, gate)
    broken = await asyncio.to_thread(lambda: next(_broken_conditions(context, stage, gate, facts), ""))
    if broken or gate == "exit":
        return broken
    return await _syntax_condition(context, stage, facts)


async def _run_commands(context: RunContext, stage: str, gate: Gate, commands: tuple[str, ...]) -> ev.Event:
    workspace = await context.workspaces.prepare_gate(context.state.row.tip)
    try:
        await set_up(context, workspace, f"@{stage}", 1)
        failed = await run_checks(context, commands, workspace, f"@{stage}", 1, gate)
    except ChecksStopped:
        return ev.StageGateReset(stage=stage, gate=gate)
    if failed is None:
        return _held(stage, gate)
    return ev.StageGateFailed(stage=stage, gate=gate, error=failed.error, detail=failed.output)


def _held(stage: str, gate: Gate) -> ev.Event:
    return ev.StageOpened(stage=stage) if gate == "entry" else ev.StageClosed(stage=stage)


@dataclass(frozen=True, slots=True)
class _GateFacts:
    """What a gate looks at: the run branch, and the completed tasks of the stages in question."""

    branch: BranchFacts
    completed: tuple[Task, ...]


def _gate_facts(context: RunContext, stage: str, gate: Gate) -> _GateFacts:
    """Return the facts of a gate: about all stages below this one for the entry, about the stage itself for the exit."""
    state, stages = context.state, [stage]
    if gate == "entry":
        stages = list(state.stages[stage].needs)
        for name in stages:  # grows while it is walked: stages below stages
            stages += [needed for needed in state.stages[name].needs if needed not in stages]
    completed = tuple(
        task
        for name in stages
        for task in state.stages[name].tasks
        if state.tasks[task.id].status is TaskStatus.COMPLETED
    )
    if not completed:
        return _GateFacts(BranchFacts(tip=state.row.tip), ())
    return _GateFacts(branch_facts(context.repo, state.row.branch, state.row.base, context.run), completed)


def _broken_conditions(context: RunContext, stage: str, gate: Gate, facts: _GateFacts) -> Iterator[str]:
    """Yield what the journal or the plan says and git does not show."""
    replaced = {name for name, task in context.state.tasks.items() if task.replaced}
    landings = [landing.task for landing in facts.branch.landings]
    expected = [task.id for task in facts.completed if task.id not in replaced]
    if missing := sorted(set(expected) - set(landings), key=expected.index):
        yield f"recorded as landed but not on the run branch: {', '.join(missing)}"
    delivered = [(path, task.id) for task in facts.completed for path in task.files]
    blobs = context.repo.ids_of(*(f"{facts.branch.tip}:{path}" for path, _ in delivered)) if delivered else []
    for (path, name), blob in zip(delivered, blobs, strict=True):
        if not blob:
            yield f"{path}, delivered by {name}, is not on the run branch"
    if gate == "exit":
        own = {task.id for task in context.state.stages[stage].tasks} - replaced
        landed = sum(name in own for name in landings)
        if landed != len(expected):
            yield f"stage {stage} has {len(expected)} completed tasks but {landed} landings on the run branch"
        yield from _late_changes(context)


async def _syntax_condition(context: RunContext, stage: str, facts: _GateFacts) -> str:
    """Return the syntax errors in files that the stages below changed, as a sentence; empty if there are none."""
    relied_on = {task.id for task in facts.completed}
    merges = [landing.commit for landing in facts.branch.landings if landing.task in relied_on]
    if not merges or not context.state.plan.syntax:
        return ""
    changed = await asyncio.to_thread(files_changed_by, context.repo, merges)
    paths = frozenset(path for files in changed.values() for path in files)
    base, tip = context.state.row.base, facts.branch.tip
    faults = await find_syntax_errors(context, base, tip, paths, f"@{stage}", 1)
    return f"stage {stage} would build on files with {faults_error(faults)}" if faults else ""


def _late_changes(context: RunContext) -> Iterator[str]:
    """Yield each idle workspace that was written to after its work was collected. What was written is kept."""
    workspaces = context.workspaces
    for name, commit in workspaces.collected():
        workspace = workspaces.pool.get(name)
        if not workspace.path.is_dir():
            continue
        changed = tree_of_workspace(context.repo, workspace, commit).tree != context.repo.tree_of(commit)
        if not changed or not workspaces.is_collected(name, commit):
            continue
        ref = ids.archive_ref(context.run, f"workspace-{name}-{commit[:12]}")
        message = f"Changed in workspace {name} after its work was committed"
        kept = take_snapshot(context.repo, workspace, ref, message)
        workspaces.forget_collected(name)
        # There is none if the files went back to those that the work began with: nothing was written then.
        if not kept or not (paths := context.repo.changed_files(commit, kept)):
            continue
        shown = ", ".join(paths[:_PATHS_SHOWN])
        yield f"workspace {name} was changed after its work was committed ({shown}); the change is kept at {ref}"
