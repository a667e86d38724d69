"""What agents left on disk while nobody recorded: when each was last heard of. For people; nothing is decided by it."""

from __future__ import annotations

from holdfast.core.status import TaskStatus
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import AGENT_STEP, LaunchKey
from holdfast.journal.protocol import StoredRun


def agent_traces(fleet: LocalFleet, stored: StoredRun) -> dict[str, float]:
    """Return, for each task that is recorded as running, when its agent was last heard of; 0 if never."""
    return {
        task.id: fleet.last_sign(LaunchKey(stored.row.run, task.id, task.attempt, AGENT_STEP))
        for task in stored.tasks
        if task.status is TaskStatus.RUNNING
    }
