"""`status`: where a run stands. Nothing here changes anything."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path

import msgspec

from holdfast.boot import boot_id
from holdfast.cli.arguments import JSON, LAST_RUN, Arguments, flag
from holdfast.cli.open_repo import ReadOnlyRepo, choose_last_written_run, open_read_only
from holdfast.cli.output import show
from holdfast.core.facts import NOWHERE, ResultPlaces
from holdfast.core.projection import RunRow
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.errors import ExitCode
from holdfast.journal.protocol import StoredRun
from holdfast.reporting.displayed_status import AgentSign
from holdfast.views.status import STATUS_WITHOUT_RUN, StatusView, status_view
from holdfast.views.status_text import no_run_text, status_text
from holdfast.views.terminal import ANY_WIDTH, terminal_width

ARGUMENTS: Arguments = (
    LAST_RUN,
    flag("-f --follow", "follow a run that a runner holds until it rests"),
    JSON,
)


def execute(args: Namespace) -> int:
    """Show where a run stands. A repository without runs is not an error."""
    opened = open_read_only()
    if args.run is None and not opened.runs():
        return show(STATUS_WITHOUT_RUN, lambda _: no_run_text(opened.summaries()), args)
    run = choose_last_written_run(opened, args.run).run
    if args.follow and opened.holder(run) is not None:
        from holdfast.cli.follow_run import follow_run

        follow_run(opened, run, args)
        if args.json:
            # A line like those of the events before it.
            print(msgspec.json.encode(current_status(opened, run)).decode())
            return ExitCode.DONE
    width = terminal_width(in_pipe=ANY_WIDTH)
    return show(current_status(opened, run), lambda view: status_text(view, width), args)


def current_status(opened: ReadOnlyRepo, run: str) -> StatusView:
    """Return the status of a run at this moment."""
    stored, held = opened.require_journal().load(run), opened.holder(run)
    return status_view(
        stored,
        str(held) if held else None,
        time.time(),
        boot_id=boot_id(),
        places=places_of_result(opened.checkout, stored.row),
        signs=_agent_signs(opened, stored),
    )


def places_of_result(checkout: Path, row: RunRow) -> ResultPlaces:
    """Return where the result of a completed run is. For any other run git is not asked."""
    if row.status is not RunStatus.COMPLETED:
        return NOWHERE
    from holdfast.repo.refs import result_places

    return result_places(checkout, row)


def _agent_signs(opened: ReadOnlyRepo, stored: StoredRun) -> dict[str, AgentSign]:
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
