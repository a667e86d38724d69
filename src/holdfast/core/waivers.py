"""The user's word that a stage goes on although its gate failed: which waivers may be given now."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.events import StageGateWaived
from holdfast.core.state import RunState
from holdfast.core.status import StageStatus
from holdfast.core.wording import did_you_mean, shown
from holdfast.errors import HoldfastError


def waivers(state: RunState, stages: Sequence[str]) -> list[StageGateWaived]:
    """Return the events that waive the failed gates of these stages. Raises HoldfastError where none failed."""
    hint = f"`holdfast status {state.row.run}` shows which stages are blocked"
    for name in stages:
        if name not in state.stages:
            raise HoldfastError(
                f"there is no stage {shown(name)}{did_you_mean(name, list(state.stages))}", hint
            )
        if state.stage(name).status is not StageStatus.BLOCKED:
            raise HoldfastError(
                f"no check of stage {name} has failed: the stage is {state.stage(name).status}", hint
            )
    return [StageGateWaived(stage=name, gate=state.stage(name).gate) for name in dict.fromkeys(stages)]
