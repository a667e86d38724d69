"""Working, slow, limited, waiting for permission, dead: told apart by process, stream and silence."""

from __future__ import annotations

import pytest

from holdfast.core.facts import Presence
from holdfast.core.projection import AttemptRow, TaskRow
from holdfast.reporting.displayed_status import AgentSign, Liveness, liveness

NOW = 1_000_000.0


@pytest.mark.parametrize(
    ("presence", "silent", "trouble", "in_tool", "expected"),
    [
        (Presence.ALIVE, 5, "", False, Liveness.WORKING),
        (Presence.ALIVE, 90, "", False, Liveness.SLOW),
        (Presence.ALIVE, 90, "", True, Liveness.WORKING),
        (Presence.ALIVE, 400, "", True, Liveness.SLOW),
        (Presence.ALIVE, 5, "limit", False, Liveness.LIMITED),
        (Presence.ALIVE, 900, "limit", False, Liveness.LIMITED),
        (Presence.ALIVE, 5, "permission", False, Liveness.WAITING),
        (Presence.ALIVE, 5, "error", False, Liveness.WORKING),
        (Presence.LOST, 5, "", False, Liveness.DEAD),
        (Presence.ENDED, 5, "limit", False, Liveness.DEAD),
        (Presence.UNKNOWN, 5, "", False, Liveness.DEAD),
    ],
)
def test_how_it_goes_with_an_agent_is_told_without_asking_it(
    presence: Presence, silent: float, trouble: str, in_tool: bool, expected: Liveness
) -> None:
    """C2: each of the five is seen from outside, and a tool may be silent for longer than a model."""
    task = TaskRow(id="t", latest=AttemptRow(trouble=trouble, in_tool=in_tool))
    assert liveness(task, AgentSign(presence, NOW - silent), NOW) is expected


def test_the_newer_of_log_and_heartbeat_counts() -> None:
    """What the runner wrote down may be newer than what the disk shows, and the other way round."""
    task = TaskRow(id="t", latest=AttemptRow(active_at=NOW - 1))
    assert liveness(task, AgentSign(Presence.ALIVE, NOW - 500), NOW) is Liveness.WORKING
