"""The check of the base: whether it is in the way of the first agent, why it stops a run, and what lets the run go on.

It runs once, before anybody is paid. A base that fails its checks is the user's to accept: many plans have checks that only
their tasks make pass. A check that cannot be executed at all is never accepted, nor a set-up that fails: no task changes that.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core import events as ev
from holdfast.core.commands import CheckBase, Command, RecordEvent
from holdfast.core.plan import Plan
from holdfast.core.state import RunState
from holdfast.core.status import BaseStatus

_OPEN = (BaseStatus.PENDING, BaseStatus.RUNNING, BaseStatus.FAILED)
_SHOWN_LINES = 10


def deserves_check(plan: Plan) -> bool:
    """Tell whether the base of a plan is worth a check: an agent would be paid, and there is something to run."""
    return bool(plan.agents_named()) and bool(plan.verify or plan.workspace.setup)


def is_base_in_the_way(state: RunState) -> bool:
    """Tell whether nothing may start because of the base. Once an agent has worked, it is too late to check it."""
    return state.row.base_check.status in _OPEN and not any(task.attempt for task in state.tasks.values())


def base_moves(state: RunState) -> Iterator[Command]:
    """Yield what to do about a base that is in the way. If it failed in an earlier session, it is checked again."""
    check = state.row.base_check
    if check.status is BaseStatus.RUNNING:
        return
    has_failed = check.status is BaseStatus.FAILED
    is_acceptable = has_failed and not check.unrunnable and not check.setup
    if state.skips_base_check or (is_acceptable and state.accepts_base):
        yield RecordEvent(ev.BaseAccepted())
    elif not has_failed or check.epoch < state.row.epoch:
        yield CheckBase()


def base_obstacle(state: RunState) -> str:
    """Return why a failed base stops the run, with what its check printed; empty if it does not."""
    check = state.row.base_check
    if check.status is not BaseStatus.FAILED or not is_base_in_the_way(state):
        return ""
    said = "\n".join(f"  {line}" for line in check.detail.strip().splitlines()[-_SHOWN_LINES:])
    failed = (
        "set-up fails on the base"
        if check.setup
        else "a check of the plan cannot be executed"
        if check.unrunnable
        else "the base fails a check before any task has begun"
    )
    return f"{failed}: {check.error}" + (f"; it said:\n{said}" if said else "")


def base_way_out(state: RunState) -> str:
    """Return what lets a run go on that its base stops; empty if it does not. Just to resume it would check the same again."""
    check, run = state.row.base_check, state.row.run
    if not base_obstacle(state):
        return ""
    amend = f"`holdfast amend {run}` takes a corrected plan"
    if check.setup or check.unrunnable:
        return (
            f"No agent was started. Correct the cause, or {amend}; then `holdfast resume {run}` tries again."
        )
    accept = f"`holdfast resume {run} --accept-base` starts the agents"
    return f"No agent was started. If only the tasks make it pass, {accept}; {amend}."
