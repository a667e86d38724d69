"""The two workflows, as narrow as can be: one activity that carries a launch, and one by which a host says that it is there.

Nothing is decided here, and the engine never tries anything again: that is the core's.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy

LAUNCH_WORKFLOW = "holdfast-launch"
LAUNCH_ACTIVITY = "holdfast-launch"
HOST_WORKFLOW = "holdfast-host"
HOST_ACTIVITY = "holdfast-host"
OFFER_LAPSES_S = 10.0
"""How long a host that says nothing counts as there."""
OFFER_EVERY_S = 2.0
_TAKEN_WITHIN = timedelta(seconds=20)
"""How soon a host takes a launch that was placed there. If it does not, the launch never began, and is lost at once."""
_ONCE = RetryPolicy(maximum_attempts=1)
_YEARS = timedelta(days=3650)


@workflow.defn(name=LAUNCH_WORKFLOW)
class LaunchWorkflow:
    """One launch. The server alone says when its lease has lapsed: after that it refuses the host's renewals and its result."""

    @workflow.run
    async def run(self, order: bytes, queue: str, ttl_s: float) -> bytes:
        """Carry the order to a host and return how it ended."""
        ttl = timedelta(seconds=ttl_s)
        ended: bytes = await workflow.execute_activity(
            LAUNCH_ACTIVITY,
            order,
            task_queue=queue,
            result_type=bytes,
            schedule_to_start_timeout=min(ttl, _TAKEN_WITHIN),
            start_to_close_timeout=_YEARS,  # the supervisor keeps the launch's own limit
            heartbeat_timeout=ttl,
            retry_policy=_ONCE,
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )
        return ended


@workflow.defn(name=HOST_WORKFLOW)
class HostWorkflow:
    """One host that is there: its offer is what the activity last said."""

    @workflow.run
    async def run(self, queue: str) -> None:
        """Let the host tell its offer until it leaves."""
        await workflow.execute_activity(
            HOST_ACTIVITY,
            task_queue=queue,
            start_to_close_timeout=_YEARS,
            heartbeat_timeout=timedelta(seconds=OFFER_LAPSES_S),
            retry_policy=_ONCE,
        )
