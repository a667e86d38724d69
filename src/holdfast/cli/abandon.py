"""`abandon`: end a run for good. Its branch, refs and unfinished work stay."""

from __future__ import annotations

import sys
from argparse import Namespace

from holdfast.cli import stop
from holdfast.cli.arguments import YES, Arguments
from holdfast.cli.open_repo import choose_run, open_repo
from holdfast.cli.output import print_result, uncommitted_lines
from holdfast.cli.prompts import require_yes
from holdfast.core.status import RUN_IS_OVER
from holdfast.runner.decisions.user_decisions import abandon
from holdfast.views.event_text import plain_lines

ARGUMENTS: Arguments = (*stop.ARGUMENTS, YES)


def execute(args: Namespace) -> int:
    """Stop a run and abandon it. A run that is over is left as it is."""
    with open_repo() as opened:
        row = choose_run(opened, args.run)
        if row.status in RUN_IS_OVER:
            return print_result(
                opened, row.run, f"{row.run} is {row.status}; there is nothing to abandon.", args
            )
        require_yes(f"Abandon {row.run}? Its branch, its refs and its unfinished work stay.", args)
        stop.stop_run(opened, row.run, args.wait)
        abandon(opened.repo, opened.journal, row.run, plain_lines(sys.stderr))
        detail = f"Abandoned {row.run}. `git for-each-ref refs/holdfast/{row.run}` shows what is kept."
        lines = [detail, *uncommitted_lines(opened.repo, row.run)]
        return print_result(opened, row.run, "\n".join(lines), args)
