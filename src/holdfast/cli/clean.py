"""`rebuild` and `clean`: a journal from git, and room on the disk."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from holdfast.cli.open_repo import OpenRepo, choose_run, open_repo
from holdfast.cli.prompts import confirm
from holdfast.cli.status import as_json
from holdfast.core.status import RUN_IS_OVER, RunStatus
from holdfast.errors import ExitCode, HoldfastError, NeedsDecisionError
from holdfast.journal.lease import boot_id
from holdfast.journal.protocol import RunListing
from holdfast.repo.landing import branch_facts
from holdfast.repo.repository import Repository
from holdfast.runner.decisions.clean import clean_run, remove_forgotten_folders, run_size
from holdfast.runner.recovery.rebuild import RebuildResult, rebuild as rebuild_journal
from holdfast.views.recap import recap_text, recap_view
from holdfast.views.status import status_view
from holdfast.views.text import count


class Cleanable(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run, and what removing it frees."""

    run: str
    status: RunStatus
    bytes: int
    refs: int


class Cleaned(msgspec.Struct, frozen=True, kw_only=True):
    """What `clean --json` prints; `removed` is false when it only looked."""

    runs: tuple[Cleanable, ...]
    bytes: int
    removed: bool


def rebuild(args: argparse.Namespace) -> int:
    """Put a journal made from git in the place of a lost or damaged one, which is kept."""
    rebuilt = rebuild_journal(
        Repository.open(Path.cwd()), lambda question: confirm(question, yes=False), replace=args.yes
    )
    print(as_json(rebuilt) if args.json else "\n".join(_rebuilt_lines(rebuilt)))
    return ExitCode.DONE


def clean(args: argparse.Namespace) -> int:
    """Remove what finished runs occupy. Without a run or --all it only says what there is."""
    with open_repo() as place:
        chosen = _chosen(place, args)
        found = tuple(_cleanable(place, listing) for listing in chosen)
        only_look = args.dry_run or (args.run is None and not args.all)
        done = Cleaned(runs=found, bytes=sum(one.bytes for one in found), removed=False)
        if not args.json:
            print("\n".join(_clean_lines(done)))
        if not only_look and found:
            done = _clean(place, done, args)
        elif not only_look:
            remove_forgotten_folders(place.repo, place.journal)
        elif not args.json and found:
            print("Nothing was removed. `holdfast clean --all` removes it, `holdfast clean RUN` one run's.")
        if args.json:
            print(as_json(done))
    return ExitCode.DONE


def _chosen(place: OpenRepo, args: argparse.Namespace) -> Sequence[RunListing]:
    runs = place.journal.runs()
    if args.run is None:
        return [listing for listing in runs if listing.row.status in RUN_IS_OVER]
    listing = choose_run(runs, args.run)
    if listing.row.status not in RUN_IS_OVER:
        raise HoldfastError(
            f"run {listing.row.run} is not over ({listing.row.status})",
            f"`holdfast abandon {listing.row.run}` gives it up first",
        )
    return [listing]


def _cleanable(place: OpenRepo, listing: RunListing) -> Cleanable:
    weight = run_size(place.repo, listing.row.run)
    return Cleanable(run=listing.row.run, status=listing.row.status, bytes=weight.size, refs=weight.refs)


def _clean(place: OpenRepo, found: Cleaned, args: argparse.Namespace) -> Cleaned:
    names = ", ".join(one.run for one in found.runs)
    if not confirm(
        f"Remove logs, refs, unlanded work and journal entries of {names}? Branches and summaries stay.",
        yes=args.yes,
    ):
        raise NeedsDecisionError("nothing was removed", "say --yes to clean without being asked")
    for one in found.runs:
        clean_run(place.repo, place.journal, one.run, _outputs(place, one.run))
        if not args.json:
            print(f"Cleaned {one.run}; its summary is in {place.repo.state.outputs(one.run)}.")
    remove_forgotten_folders(place.repo, place.journal)
    return msgspec.structs.replace(found, removed=True)


def _outputs(place: OpenRepo, run: str) -> dict[str, str]:
    """Return what stays of a run to be read: its recap, for programs and for people."""
    stored = place.journal.load(run)
    row = stored.row
    branch = branch_facts(place.repo, row.branch, row.base, run)
    view = recap_view(
        status_view(stored, None, time.time(), boot_id=boot_id()),
        stored.state(),
        place.journal.events(run),
        branch,
    )
    return {"recap.json": as_json(view) + "\n", "summary.md": f"# {run}\n\n```\n{recap_text(view)}\n```\n"}


def _clean_lines(found: Cleaned) -> Iterator[str]:
    for one in found.runs:
        yield f"  {one.run}  {one.status}  {_mebibytes(one.bytes)}, {count(one.refs, 'ref')}"
    yield f"{count(len(found.runs), 'finished run')}, {_mebibytes(found.bytes)} to free."


def _rebuilt_lines(rebuilt: RebuildResult) -> Iterator[str]:
    yield f"Rebuilt from git: {rebuilt.why}."
    if rebuilt.kept:
        yield f"The old file is kept as {rebuilt.kept}."
    for one in rebuilt.runs:
        yield f"  {one.run}  {one.status}  {one.landed} of {one.tasks} done"
    yield from (f"  not restored: {sentence}" for sentence in rebuilt.lost)
    if any(one.status not in RUN_IS_OVER for one in rebuilt.runs):
        yield "`holdfast resume` carries on. Failures, costs and skips are not in git and were not restored."


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
