"""`status`: where a run stands. Nothing here changes anything."""

from __future__ import annotations

from argparse import Namespace

import msgspec

from holdfast.cli.arguments import JSON, LAST_RUN, Arguments, flag
from holdfast.cli.open_repo import choose_last_written_run
from holdfast.cli.output import show
from holdfast.errors import ExitCode
from holdfast.views.current_status import current_status
from holdfast.views.read_only_repo import open_read_only
from holdfast.views.status import STATUS_WITHOUT_RUN
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
        return show(STATUS_WITHOUT_RUN, lambda _: no_run_text(opened.summaries(), opened.runs_in_git()), args)
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
