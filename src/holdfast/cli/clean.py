"""`clean`: remove what finished runs occupy on the disk. Their branches and summaries stay.

`clean --branches` removes branches, and nothing else: those of runs whose result is in a branch of the user.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from holdfast.cli.arguments import JSON, YES, Arguments, flag, positional
from holdfast.cli.open_repo import OpenRepo, choose_run, open_repo
from holdfast.cli.output import as_json, mounts_sentence, note, say, undeletable_lines
from holdfast.cli.prompts import require_yes
from holdfast.core.ids import archived_branch_ref, short_name, with_run_numbers
from holdfast.core.projection import RunRow
from holdfast.core.status import RUN_IS_OVER, RunStatus
from holdfast.errors import ExitCode, HoldfastError
from holdfast.journal.lease import Lease
from holdfast.repo.debris import remove_stale_locks, uncommitted_folders_of_people, undeletable_folders
from holdfast.repo.land_run import discard_run
from holdfast.repo.refs import recorded_runs, result_places
from holdfast.repo.worktrees import checked_out_at
from holdfast.runner.decisions.clean import clean_run, remove_forgotten_folders, run_size
from holdfast.views.recap import recap_of, recap_text
from holdfast.views.text import count, data_size


class CleanableRun(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run, and what removing it frees."""

    run: str
    status: RunStatus
    bytes: int
    refs: int
    unlanded: str = ""
    """Its branch, if the result is in no other."""


class CleanResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `clean --json` prints; `removed` is false if nothing was removed."""

    runs: tuple[CleanableRun, ...]
    bytes: int
    removed: bool


class LandedBranch(msgspec.Struct, frozen=True, kw_only=True):
    """The branch of a run whose result is in a branch of the user; `archive` is the ref that keeps its tip."""

    run: str
    branch: str
    landed_in: str
    archive: str


class CleanedBranches(msgspec.Struct, frozen=True, kw_only=True):
    """What `clean --branches --json` prints; `removed` is false if nothing was removed."""

    branches: tuple[LandedBranch, ...]
    removed: bool


ARGUMENTS: Arguments = (
    positional("run", "run id, number or beginning of its name", nargs="?"),
    flag("--all", "every completed or abandoned run"),
    flag("--branches", "remove only run branches, of runs whose result has landed; their tips stay archived"),
    flag("--dry-run", "say what would be freed and remove nothing"),
    YES,
    JSON,
)


def execute(args: Namespace) -> int:
    """Remove what finished runs occupy. Without a run or --all, only say what there is."""
    with open_repo() as opened:
        if args.branches:
            return _clean_branches(opened, args)
        found = tuple(
            CleanableRun(
                run=row.run,
                status=row.status,
                bytes=size.size,
                refs=size.refs,
                unlanded=_unlanded_branch(opened, row),
            )
            for row in _finished(opened, args)
            for size in [run_size(opened.repo, row.run)]
        )
        removes = (args.run is not None or args.all) and not args.dry_run
        result = CleanResult(
            runs=found, bytes=sum(one.bytes for one in found), removed=removes and bool(found)
        )
        if not args.json:
            print("\n".join(_lines(result)))
        if removes:
            _clean(opened, [one.run for one in found], args)
        elif not args.json and found:
            print("Nothing was removed. `holdfast clean --all` removes it all, `holdfast clean RUN` one run.")
        if args.json:
            print(as_json(result))
    return ExitCode.DONE


def _clean_branches(opened: OpenRepo, args: Namespace) -> int:
    """Remove the branches of landed runs. Idempotent."""
    found = tuple(_landed_branches(opened, args))
    if not args.json:
        for one in found:
            print(f"  {one.branch}  in {one.landed_in}")
        print(f"{count(len(found), 'branch', 'branches')} of landed runs.")
    removes = bool(found) and not args.dry_run
    if removes:
        names = ", ".join(one.branch for one in found)
        require_yes(f"Remove {names}? Their tips stay archived.", args, "nothing was removed")
        for one in found:
            with Lease.acquire(opened.directory(one.run).lease):
                discard_run(opened.repo, one.run)
        say(f"Removed {names}.", args)
    if args.json:
        print(as_json(CleanedBranches(branches=found, removed=removes)))
    return ExitCode.DONE


def _landed_branches(opened: OpenRepo, args: Namespace) -> Iterator[LandedBranch]:
    """Yield the branches that git proves to be in the branch they were meant for; of a named run, in any.

    One that somebody moved, or has checked out, is not ours to remove.
    """
    rows = [choose_run(opened, args.run)] if args.run else [listing.row for listing in opened.runs()]
    for row in rows:
        branch = short_name(row.branch)
        if row.status is not RunStatus.COMPLETED or opened.repo.read_ref(row.branch) != row.tip:
            continue
        places = result_places(opened.checkout, row).branches
        wanted = places if args.run else [name for name in places if name == row.target]
        if wanted and checked_out_at(opened.repo, branch) is None:
            archive = archived_branch_ref(row.run, row.tip)
            yield LandedBranch(run=row.run, branch=branch, landed_in=wanted[0], archive=archive)


def _finished(opened: OpenRepo, args: Namespace) -> list[RunRow]:
    """Return the runs that may be cleaned: those that are over, unless another still resolves conflicts of their landing."""
    rows = [listing.row for listing in opened.runs()]
    resolving = {
        row.resolves.run: row.run
        for row in rows
        if row.resolves is not None and row.status not in RUN_IS_OVER
    }
    if args.run is None:
        over = [row for row in rows if row.status in RUN_IS_OVER and row.run not in resolving]
        return [row for row in over if row.run not in _of_other_clones(opened, over)]
    row = choose_run(opened, args.run)
    if row.status not in RUN_IS_OVER:
        raise HoldfastError(
            f"run {row.run} is not over ({row.status})", f"`holdfast abandon {row.run}` ends it first"
        )
    if other := resolving.get(row.run):
        raise HoldfastError(
            f"run {other} still resolves conflicts of the landing of {row.run}",
            f"`holdfast land {row.run} --resolve` finishes that, `holdfast abandon {other}` gives it up",
        )
    return [row]


def _of_other_clones(opened: OpenRepo, rows: Sequence[RunRow]) -> set[str]:
    """Return the runs in a server that worked in another clone, and say so: what they occupy is there, and may not have landed.

    One that a killed `clean` began to remove here has its summary here.
    """
    if opened.journal.lease_s is None:
        return set()
    here = {
        *recorded_runs(opened.repo),
        *(row.run for row in rows if opened.state_dir.outputs(row.run).exists()),
    }
    elsewhere = [row.run for row in rows if row.run not in here]
    if elsewhere:
        note(
            f"{', '.join(elsewhere)} worked in another clone: clean there, or name the run if that clone is lost."
        )
    return set(elsewhere)


def _unlanded_branch(opened: OpenRepo, row: RunRow) -> str:
    """Return the branch with a completed result that is in no branch of the user; empty if there is none."""
    if row.status is not RunStatus.COMPLETED or row.tip == row.base:
        return ""
    places = result_places(opened.checkout, row)
    return short_name(row.branch) if places.has_branch and not places.branches else ""


def _clean(opened: OpenRepo, runs: list[str], args: Namespace) -> None:
    if runs:
        what = f"logs, refs, unlanded work and journal entries of {', '.join(runs)}"
        require_yes(f"Remove {what}? Branches and summaries stay.", args, "nothing was removed")
    for run in runs:
        clean_run(opened.repo, opened.journal, run, _summaries(opened, run))
        if not args.json:
            print(f"Cleaned {run}; its summary is in {opened.state_dir.outputs(run)}.")
            lines = [*undeletable_lines(_left_of(opened, run)), *_kept_lines(opened, run)]
            print("".join(f"{line}\n" for line in lines), end="")
    remove_forgotten_folders(opened.repo, opened.journal)
    # Nothing of a run is left that would remove them later.
    remove_stale_locks(opened.repo)


def _kept_lines(opened: OpenRepo, run: str) -> list[str]:
    """Return a sentence for each folder of a person's files that are in no commit."""
    return [
        f"{folder} holds files of yours that are in no commit. Delete it when you need them no more.{mounts_sentence(folder)}"
        for folder in uncommitted_folders_of_people(opened.repo, run)
    ]


def _left_of(opened: OpenRepo, run: str) -> list[Path]:
    """Return the folders of a cleaned run that are still there."""
    root = opened.directory(run).root
    others = [path for path in undeletable_folders(opened.repo, run) if not path.is_relative_to(root)]
    return [*others, *([root] if root.exists() else [])]


def _summaries(opened: OpenRepo, run: str) -> dict[str, str]:
    """Return the summaries that stay of a run: its recap, for programs and for people."""
    recap = recap_of(opened.repo, opened, run)
    return {"recap.json": as_json(recap) + "\n", "summary.md": f"# {run}\n\n```\n{recap_text(recap)}\n```\n"}


def _lines(found: CleanResult) -> Iterator[str]:
    for one in found.runs:
        yield f"  {one.run}  {one.status}  {data_size(one.bytes)}, {count(one.refs, 'ref')}"
        if one.unlanded:
            now, later = with_run_numbers(f"`holdfast land {one.run}`"), f"`git merge {one.unlanded}`"
            yield f"  {one.unlanded} has not landed: {now} does that; later only {later}"
    yield f"{count(len(found.runs), 'finished run')}, {data_size(found.bytes)} to free."
