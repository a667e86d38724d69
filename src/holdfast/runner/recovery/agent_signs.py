"""What agents left on disk while nobody recorded: when each was last heard of. For people; nothing is decided by it."""

from __future__ import annotations

from holdfast.core.status import TaskStatus
from holdfast.fleet.protocol import AGENT_STEP, Fleet, LaunchKey
from holdfast.journal.protocol import StoredRun
from holdfast.reporting.displayed_status import AgentSign


def agent_signs(fleet: Fleet, stored: StoredRun) -> dict[str, AgentSign]:
    """Return, for each task that is recorded as running, whether its agent lives and when it was last heard of."""
    keys = {
        task.id: LaunchKey(stored.row.run, task.id, task.attempt, AGENT_STEP)
        for task in stored.tasks
        if task.status is TaskStatus.RUNNING
    }
    return {name: AgentSign(fleet.inspect(key).presence, fleet.last_sign(key)) for name, key in keys.items()}


def last_heard(fleet: Fleet, stored: StoredRun) -> dict[str, float]:
    """Return, for each task that is recorded as running, when its agent was last heard of; 0 if never."""
    return {name: sign.heard_at for name, sign in agent_signs(fleet, stored).items()}
