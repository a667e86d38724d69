"""`recap`: what happened in a run. Git proves what landed."""

from __future__ import annotations

from argparse import Namespace

from holdfast.cli.arguments import ANY_RUN, JSON, Arguments
from holdfast.cli.open_repo import ReadOnlyRepo, choose_latest_run, open_read_only
from holdfast.cli.output import show
from holdfast.cli.status import current_status
from holdfast.repo.repository import Repository
from holdfast.runner.health import settings_since
from holdfast.runner.recovery.facts import gather_facts
from holdfast.views.recap import Recap, recap_text, recap_view

ARGUMENTS: Arguments = (ANY_RUN, JSON)


def execute(args: Namespace) -> int:
    """Print what happened in a run."""
    opened = open_read_only()
    run = choose_latest_run(opened, args.run).run
    return show(recap_of(opened.open_repository(), opened, run), recap_text, args)


def recap_of(repo: Repository, opened: ReadOnlyRepo, run: str) -> Recap:
    """Return the recap of a run from its journal and its branch."""
    journal = opened.require_journal()
    stored = journal.load(run)
    state, recorded = stored.state(), list(journal.events(run))
    facts, new = gather_facts(repo, state, recorded, {}), settings_since(repo, journal, run)
    return recap_view(current_status(opened, run), state, recorded, facts, new)
