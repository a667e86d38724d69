"""`discard`: archive a run's branch and remove it; an unfinished run is abandoned."""

from __future__ import annotations

import sys
from argparse import Namespace

from holdfast.cli.arguments import ANY_RUN, JSON, YES, Arguments
from holdfast.cli.open_repo import choose_latest_run, open_repo
from holdfast.cli.output import print_result, uncommitted_lines, undeletable_lines
from holdfast.cli.prompts import require_yes
from holdfast.core.status import RUN_IS_OVER
from holdfast.repo.debris import undeletable_folders
from holdfast.repo.land_run import require_removable_branch
from holdfast.runner.decisions.user_decisions import discard
from holdfast.runner.mirror.staging_worktree import remove_staging
from holdfast.views.event_text import plain_lines

ARGUMENTS: Arguments = (ANY_RUN, YES, JSON)


def execute(args: Namespace) -> int:
    """Archive a run's branch under a ref of its own, and abandon the run if it is unfinished."""
    with open_repo() as opened:
        row = choose_latest_run(opened, args.run)
        opened.require_free(row.run)
        require_removable_branch(opened.repo, row.run)
        if row.status not in RUN_IS_OVER or opened.repo.read_ref(row.branch):
            question = f"Discard run {row.run}? Its branch is archived, not deleted."
            require_yes(question, args, "nothing was discarded")
        archived = discard(opened.repo, opened.journal, row.run, plain_lines(sys.stderr))
        detail = (
            f"Discarded {row.run}; its branch is archived, `git log` shows it."
            if archived
            else f"{row.run} has no branch any more."
        )
        detail += remove_staging(opened.repo, row)
        lines = [
            detail,
            *undeletable_lines(undeletable_folders(opened.repo, row.run)),
            *uncommitted_lines(opened.repo, row.run),
        ]
        return print_result(opened, row.run, "\n".join(lines), args, kept={"branch": archived})
