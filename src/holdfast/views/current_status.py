"""The status of a run at this moment: its rows, who holds it, where its result is, and the signs of its agents.

What it looks like is in `status.py`. Without running agents and completed runs, neither fleet nor git is imported.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from holdfast.boot import boot_id
from holdfast.core.facts import NOWHERE, ResultPlaces
from holdfast.core.projection import RunRow
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.journal.protocol import StoredRun
from holdfast.reporting.displayed_status import AgentSign
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.views.status import StatusView, status_view


def current_status(opened: ReadOnlyRepo, run: str) -> StatusView:
    """Return the status of a run at this moment."""
    stored, held = opened.require_journal().load(run), opened.holder(run)
    return status_of(opened, stored, str(held) if held else None, agent_signs(opened, stored))


def status_of(
    opened: ReadOnlyRepo, stored: StoredRun, holder: str | None, signs: Mapping[str, AgentSign]
) -> StatusView:
    """Return the status of a run of which all is known but where its result is; `holder` is its live runner."""
    places = places_of_result(opened.checkout, stored.row)
    return status_view(stored, holder, time.time(), boot_id=boot_id(), places=places, signs=signs)


def places_of_result(checkout: Path, row: RunRow) -> ResultPlaces:
    """Return where the result of a completed run is. For any other run git is not asked."""
    if row.status is not RunStatus.COMPLETED:
        return NOWHERE
    from holdfast.repo.refs import result_places

    return result_places(checkout, row)


def agent_signs(opened: ReadOnlyRepo, stored: StoredRun) -> dict[str, AgentSign]:
    """Return the signs of running agents on this machine. Without running agents, nothing is imported."""
    running = [task for task in stored.tasks if task.status is TaskStatus.RUNNING]
    if not running:
        return {}
    from holdfast.fleet import open_fleet
    from holdfast.fleet.protocol import LaunchKey

    fleet = open_fleet(opened.state_dir.fleet)
    signs = {}
    for task in running:
        key = LaunchKey.of_agent(stored.row.run, task)
        fleet.recognise(key, task.latest.token)
        sighting = fleet.inspect(key)
        signs[task.id] = AgentSign(sighting.presence, fleet.last_sign(key), sighting.worked_s)
    return signs
