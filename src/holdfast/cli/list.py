"""`list`: every run of the repository, oldest first."""

from __future__ import annotations

from argparse import Namespace

from holdfast.cli.arguments import JSON, Arguments
from holdfast.cli.output import show
from holdfast.views.read_only_repo import open_read_only
from holdfast.views.run_list import list_text, run_lines
from holdfast.views.status_text import no_run_text
from holdfast.views.terminal import ANY_WIDTH, terminal_width

ARGUMENTS: Arguments = (JSON,)


def execute(args: Namespace) -> int:
    """Show every run. A repository without runs is not an error."""
    opened = open_read_only()
    width = terminal_width(in_pipe=ANY_WIDTH)
    return show(
        run_lines(opened),
        lambda lines: (
            list_text(lines, width) if lines else no_run_text(opened.summaries(), opened.runs_in_git())
        ),
        args,
    )
