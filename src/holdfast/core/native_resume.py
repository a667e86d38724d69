"""Native resume: whether the next attempt continues an agent's own session, and what follows if that goes wrong.

A session is a help, never needed: the brief and git have all that a fresh agent needs. So a session that is gone, or that is
full, charges nobody, and the next attempt is a fresh agent's.

What a session used before is recorded with the attempt that resumes it: the reader of its stream takes it off where an agent
counts on from there.
"""

from __future__ import annotations

from holdfast.core.people import has_new_answer
from holdfast.core.projection import Spent, TaskRow
from holdfast.core.provider_limits import provider_of
from holdfast.core.state import RunState
from holdfast.core.status import FailureKind


def wants_session(state: RunState, task: TaskRow, agent: str) -> bool:
    """Whether to resume the agent's session, if there is one. Never on a first attempt.

    An agent that asked a person is told the answer in its own session, if it has one.
    """
    if task.attempt == 0 or task.taken is not None:
        return False
    provider = provider_of(state, agent)
    return state.native_resume or provider.native or (provider.resumable and has_new_answer(task))


def session_for(state: RunState, task: TaskRow, agent: str, workspace: int, start: str) -> tuple[str, str]:
    """Return the session that the next attempt resumes, or else an empty one and why it cannot.

    An agent remembers files as it left them, in the folder where it left them: neither may have changed.
    """
    if not wants_session(state, task, agent):
        return "", ""
    last, failed = task.latest, _latest_failure(task)
    obstacles = {
        "its session is not known any more": failed is FailureKind.SESSION,
        "its session is full": failed is FailureKind.CONTEXT,
        f"{agent} cannot resume a session": not provider_of(state, agent).resumable,
        "no session of the last attempt is known": not last.session,
        f"the last attempt was {last.agent}'s": last.agent != agent,
        "its workspace is in use": last.session_workspace != workspace,
        "its workspace has changed since": last.session_commit != start,
    }
    why = next((words for words, holds in obstacles.items() if holds), "")
    return ("", why) if why else (last.session, "")


def session_spending(task: TaskRow) -> Spent:
    """Return what the session of a task's latest attempt used, by its stream, in all attempts that continued it.

    Some agents count on from there when they resume it, so what they tell then is not all new.
    """
    return task.latest.session_before.plus(task.latest.heard)


def _latest_failure(task: TaskRow) -> FailureKind | None:
    """Return how the latest attempt failed, if it did."""
    last = task.failures[-1] if task.failures else None
    return last.kind if last is not None and last.attempt == task.attempt else None
