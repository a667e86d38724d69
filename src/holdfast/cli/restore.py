"""`restore`: bring back from a backup what the store of this repository lacks. What it has more of stays."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.cli.arguments import JSON, Arguments, positional
from holdfast.cli.output import show
from holdfast.repo.repository import Repository
from holdfast.runner.decisions.move import MovedRun, restore_runs
from holdfast.runner.store_choice import chosen_store
from holdfast.views.text import count

ARGUMENTS: Arguments = (positional("file", "a backup, as `holdfast backup` wrote it"), JSON)


class RestoreResult(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of which something was missing."""

    restored: tuple[MovedRun, ...]
    store: str


def execute(args: Namespace) -> int:
    """Restore the runs of a backup that the store does not have, or has less of."""
    repo = Repository.open(Path.cwd())
    repo.require_own_state_dir()
    store = chosen_store(repo.state_dir, repo.id)
    restored = restore_runs(repo, Path(args.file).absolute(), store)
    result = RestoreResult(restored=tuple(restored), store=str(store))
    return show(result, lambda result: "\n".join(_lines(result)), args)


def _lines(result: RestoreResult) -> Iterator[str]:
    for one in result.restored:
        yield f"{one.run}: {count(one.events, 'event')} in {result.store}."
    if result.restored:
        yield "What landed after the backup was made is in git: `holdfast resume` finds it there."
    else:
        yield f"{result.store} lacks nothing that the backup has."
