"""A run restricted to some of its tasks: which tasks it leaves alone, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus

_NEEDS_AN_ATTEMPT = (TaskStatus.PENDING, TaskStatus.FAILED, TaskStatus.WAITING_LIMIT, TaskStatus.BLOCKED)


def left_alone(state: RunState) -> dict[str, str]:
    """Return every task that a restricted run does not begin, with the reason; none of a run that is not restricted.

    What is under way goes on whether it was chosen or not. A chosen task that waits for one left alone is too.
    """
    only = state.only
    if only is None:
        return {}
    idle = [name for name, task in state.tasks.items() if task.status in _NEEDS_AN_ATTEMPT]
    found = {name: "not chosen" for name in idle if name not in only}
    given_up = [name for name, task in state.tasks.items() if task.status is TaskStatus.ABANDONED]
    frontier = [*found, *given_up]
    waiting, closed = set(idle) & only, set[str]()
    while frontier:
        name = frontier.pop()
        for follower in _followers(state, name, closed):
            if follower in waiting and follower not in found:
                found[follower] = f"it waits for {name}, which does not land now"
                frontier.append(follower)
    return found


def _followers(state: RunState, name: str, closed: set[str]) -> Iterator[str]:
    """Yield what cannot begin before a task has landed. The stages after each stage are gone through once."""
    yield from state.dependents.get(name, ())
    stage = state.stage_of[name]
    if stage in closed:
        return
    closed.add(stage)
    for later in state.plan.stages:
        if stage in later.needs:
            yield from (task.id for task in later.tasks)
