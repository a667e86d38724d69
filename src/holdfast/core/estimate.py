"""How long a run still takes: from what finished tasks took, the order of the rest, and how many run at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.core.plan import Plan
from holdfast.core.waves import StageWaves, waves


def time_to_finish(
    plan: Plan, jobs: int, left: Mapping[str, float], measured: Sequence[float]
) -> float | None:
    """Return the seconds that agents still need, or None if nothing was measured yet and something is left.

    `left` is the share of each task that is still to be done, `measured` the seconds of finished tasks. A stage lasts
    as long as its longest chain, or as its work divided among the jobs; stages follow the ones they need.
    """
    if not left:
        return 0.0
    if not measured:
        return None
    mean = sum(measured) / len(measured)
    ends: dict[str, float] = {}
    for stage in waves(plan):
        begins = max((ends.get(need, 0.0) for need in stage.stage.needs), default=0.0)
        ends[stage.stage.id] = begins + mean * _stage_length(stage, jobs, left)
    return round(max(ends.values()), 3)


def _stage_length(stage: StageWaves, jobs: int, left: Mapping[str, float]) -> float:
    chains: dict[str, float] = {}
    for batch in stage.batches:
        for task in batch:
            before = max((chains.get(need, 0.0) for need in task.needs), default=0.0)
            chains[task.id] = before + left.get(task.id, 0.0)
    total = sum(left.get(name, 0.0) for name in chains)
    return max(total / jobs, max(chains.values(), default=0.0))
