"""What the fleet shows of the agents of running tasks. `status` loads this module, so it stays small."""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.facts import Sighting
from holdfast.core.projection import TaskRow
from holdfast.core.status import TaskStatus
from holdfast.fleet.protocol import AGENT_STEP, Fleet, LaunchKey
from holdfast.journal.protocol import StoredRun
from holdfast.reporting.displayed_status import AgentSign


def find_agents(fleet: Fleet, run: str, tasks: Iterable[TaskRow]) -> dict[str, Sighting]:
    """Return what has become of the agent of each task that is recorded as running."""
    return {name: fleet.inspect(key) for name, key in _agent_keys(run, tasks).items()}


def agent_signs(fleet: Fleet, stored: StoredRun) -> dict[str, AgentSign]:
    """Return, for each task that is recorded as running, whether its agent lives and when it last wrote. For people only."""
    keys = _agent_keys(stored.row.run, stored.tasks)
    return {name: AgentSign(fleet.inspect(key).presence, fleet.last_sign(key)) for name, key in keys.items()}


def last_heard(fleet: Fleet, stored: StoredRun) -> dict[str, float]:
    """Return, for each task that is recorded as running, when its agent last wrote; 0 if never."""
    return {name: sign.heard_at for name, sign in agent_signs(fleet, stored).items()}


def _agent_keys(run: str, tasks: Iterable[TaskRow]) -> dict[str, LaunchKey]:
    running = (task for task in tasks if task.status is TaskStatus.RUNNING)
    return {task.id: LaunchKey(run, task.id, task.attempt, AGENT_STEP) for task in running}
