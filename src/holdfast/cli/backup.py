"""`backup`: all runs of the store as one file, consistent also while runs are executed. `restore` reads it."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import msgspec

from holdfast.cli.arguments import JSON, Arguments, flag, positional
from holdfast.cli.open_repo import open_repo
from holdfast.cli.output import show
from holdfast.errors import NeedsDecisionError
from holdfast.journal.maintenance import back_up
from holdfast.runner.store_choice import chosen_store
from holdfast.views.text import count

ARGUMENTS: Arguments = (
    positional("file", "where to write it"),
    flag("--force", "replace the file if there is one"),
    JSON,
)


class BackupResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the backup holds."""

    file: str
    runs: int


def execute(args: Namespace) -> int:
    """Write every run of this repository, with its plan and its events, into one file."""
    target = Path(args.file).absolute()
    if target.exists() and not args.force:
        raise NeedsDecisionError(f"{target} exists", "name another file, or replace it with --force")
    with open_repo() as opened:
        back_up(chosen_store(opened.state_dir, opened.repo.id), target)
        result = BackupResult(file=str(target), runs=len(opened.runs()))
    return show(result, _text, args)


def _text(result: BackupResult) -> str:
    return (
        f"{result.file} holds {count(result.runs, 'run')}. The work itself is in git: back that up, too.\n"
        f"`holdfast restore {result.file}` brings back what a store lacks."
    )
