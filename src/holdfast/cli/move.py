"""`move`: take runs to another store. Each is copied, compared event by event, and only then removed where it was."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.agents.presets import presets_of
from holdfast.cli.arguments import JSON, YES, Arguments, option, positional
from holdfast.cli.open_repo import choose_run, open_repo
from holdfast.cli.output import note, show
from holdfast.cli.prompts import confirm
from holdfast.core.projection import RunRow
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import NeedsDecisionError
from holdfast.runner.decisions.move import MovedRun, move_runs
from holdfast.runner.store_choice import STORE_VARIABLE, chosen_store, named_store
from holdfast.views.text import count

ARGUMENTS: Arguments = (
    positional("run", "run id, number or beginning of its name (all runs)", nargs="?"),
    option("--to", "STORE", "redis://…, postgresql://…, or sqlite for the file in .holdfast", required=True),
    YES,
    JSON,
)


class MoveResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was moved, and where to. No password is in it."""

    moved: tuple[MovedRun, ...]
    to: str
    left: tuple[str, ...]


def execute(args: Namespace) -> int:
    """Move a run, or all of them, to another store."""
    with open_repo() as opened:
        repo = opened.repo
        source = chosen_store(repo.state_dir, repo.id)
        target = named_store(repo.state_dir, args.to, repo.id)
        all_runs = [listing.row for listing in opened.runs()]
        rows = [choose_run(opened, args.run)] if args.run else all_runs
        for row in rows:
            opened.require_free(row.run)
    left = [row for row in all_runs if row not in rows]
    _ask_about_split(left, str(target), args)
    moved = move_runs(repo, source, target, [row.run for row in rows], presets_of(repo.checkout))
    result = MoveResult(moved=tuple(moved), to=str(target), left=tuple(row.run for row in left))
    if args.store is None and STORE_VARIABLE in os.environ:
        note(f"{STORE_VARIABLE} still names {source}: commands look there until you unset or change it.")
    return show(result, lambda result: "\n".join(_lines(result)), args)


def _ask_about_split(left: Sequence[RunRow], target: str, args: Namespace) -> None:
    """Ask before the runs of a repository are in two stores: commands look into one of them."""
    unfinished = [row for row in left if row.status not in RUN_IS_OVER]
    question = f"{count(len(unfinished), 'unfinished run')} would stay behind. Move only this one?"
    if unfinished and not confirm(question, yes=args.yes):
        raise NeedsDecisionError("nothing was moved", f"`holdfast move --to {target}` moves all of them")


def _lines(result: MoveResult) -> Iterator[str]:
    for one in result.moved:
        yield f"{one.run} is in {result.to} now: {count(one.events, 'event')}, each compared."
    if not result.moved:
        yield "There was no run to move."
    if result.left:
        yield f"Still where they were: {', '.join(result.left)}. `--store {result.to}` reaches what was moved."
    else:
        yield "This repository uses that store from now on."
