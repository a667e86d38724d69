"""A plan as text: what would run, in which order, by which agent, and how it is checked."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from holdfast.core.accounts import money
from holdfast.core.base_check import deserves_check
from holdfast.core.plan import Plan, Stage, Task
from holdfast.reporting.run_estimate import RunEstimate
from holdfast.views.status import agent_of
from holdfast.views.text import count, duration, one_line


def execution_plan(plan: Plan) -> str:
    """Return the stages and batches of a plan as text."""
    limits = plan.limits
    bounds = f"{count(limits.jobs, 'job')}, {count(limits.attempts, 'attempt')} per task"
    lines = [
        one_line(plan.goal),
        f"  base {plan.base}, {bounds}, at most {duration(limits.timeout_s)} each",
    ]
    if plan.workspace.setup:
        lines.append(f"  every workspace is set up by: {_commands(plan.workspace.setup)}")
    if deserves_check(plan):
        setup = "set-up and " if plan.workspace.setup else ""
        lines.append(f"  before the first agent starts, {setup}the checks of every task run once on the base")
    if plan.verify:
        lines.append(f"  every task is checked by: {_commands(plan.verify)}")
    for stage in plan.stages:
        lines += _stage(plan, stage)
    return "\n".join(lines)


def estimate_lines(estimate: RunEstimate | None) -> list[str]:
    """Return what a run may take as text, and what that is taken from."""
    if estimate is None:
        return ["Time and cost: no history of this repository yet; the first run makes one."]
    cost = "nobody reported a cost" if estimate.cost_usd is None else f"about {money(estimate.cost_usd)}"
    lines = [f"Time and cost: about {duration(estimate.seconds)}, {cost}; from earlier runs here:"]
    for one in estimate.history:
        cost_told = "" if one.cost_usd is None else f", {money(one.cost_usd)}"
        who = f"a task of {one.agent}" if one.agent else "a command"
        lines.append(f"  {who} took {duration(one.seconds)}{cost_told} (median of {one.tasks})")
    if estimate.unknown:
        lines.append(f"  no history of {', '.join(estimate.unknown)}: taken to be like the others")
    return lines


def waves(plan: Plan) -> list[list[str]]:
    """Return the tasks that may run side by side, wave after wave, stages in plan order."""
    return [[task.id for task in batch] for stage in plan.stages for batch in stage.batches()]


def commands_of(plan: Plan) -> list[str]:
    """Return every command line of tasks and checks, each once, in plan order: what runs in the sandbox besides agents."""
    lines = [*plan.workspace.setup, *plan.verify]
    for stage in plan.stages:
        lines += stage.entry
        for task in stage.tasks:
            validators = [shlex.join(one.run) for one in task.validators if one.run]
            lines += [*([shlex.join(task.run)] if task.run else []), *task.verify, *validators]
        lines += stage.exit
    return list(dict.fromkeys(lines))


def notice_command(plan: Plan) -> str:
    """Return the command line that tells the user something, which runs outside of any sandbox; empty if there is none."""
    return shlex.join(plan.notify.command)


def _stage(plan: Plan, stage: Stage) -> Iterator[str]:
    after = f" (after {', '.join(stage.needs)})" if stage.needs else ""
    yield ""
    yield f"stage {stage.id}{after}: {count(len(stage.tasks), 'task')}"
    if stage.entry:
        yield f"  opens when: {_commands(stage.entry)}"
    for number, batch in enumerate(stage.batches(), start=1):
        beside = f": {len(batch)} side by side" if 1 < len(batch) <= plan.limits.jobs else ""
        queued = (
            f": {len(batch)} tasks, {plan.limits.jobs} at a time" if len(batch) > plan.limits.jobs else ""
        )
        yield f"  batch {number}{beside or queued}"
        yield from (f"    {line}" for task in batch for line in _task(plan, task))
    if stage.exit:
        yield f"  closes when: {_commands(stage.exit)}"


def _task(plan: Plan, task: Task) -> Iterator[str]:
    who = f"runs {one_line(shlex.join(task.run))}" if task.run else f"agent {agent_of(plan, task)}"
    needs = f", needs {', '.join(task.needs)}" if task.needs else ""
    yield f"{task.id}: {one_line(task.title or task.prompt or 'a command', 60)} [{who}{needs}]"
    if task.files:
        yield f"  delivers {', '.join(task.files)}"
    if task.needs_interface:
        yield f"  needs the interface of {', '.join(task.needs_interface)}"
    if task.verify:
        yield f"  checked by: {_commands(task.verify)}"
    if task.attempts is not None:
        yield f"  at most {count(task.attempts, 'attempt')}"
    if task.validators:
        yield f"  validated by: {', '.join(one.id for one in task.validators)} (mean score {task.gate:g} or more)"


def _commands(commands: tuple[str, ...]) -> str:
    return "; ".join(f"`{one_line(command)}`" for command in commands)
