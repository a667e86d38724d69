"""Whether the next attempt begins with a fresh agent or goes on with the last one's own session, and why."""

from __future__ import annotations

from holdfast.core.parking import seat_of
from holdfast.core.projection import TaskRow
from holdfast.core.state import RunState


def wants_session(state: RunState, task: TaskRow, agent: str) -> bool:
    """Tell whether a session is to be gone on with, if there is one: fresh is the rule, and first attempts are."""
    return task.attempt > 0 and (state.native or seat_of(state, agent).native)


def session_for(state: RunState, task: TaskRow, agent: str, slot: int, start: str) -> tuple[str, str]:
    """Return the session that the next attempt goes on with, else an empty one and why it cannot be.

    An agent remembers files as it left them, in the folder where it left them: neither may have changed.
    """
    if not wants_session(state, task, agent):
        return "", ""
    obstacles = {
        f"{agent} cannot go on with a session": not seat_of(state, agent).resumable,
        "no session of the last attempt is known": not task.session,
        f"the last attempt was {task.agent}'s": task.agent != agent,
        "its workspace is in use": task.session_slot != slot,
        "its workspace has changed since": task.session_left != start,
    }
    why = next((words for words, holds in obstacles.items() if holds), "")
    return ("", why) if why else (task.session, "")
