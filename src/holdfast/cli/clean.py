"""`clean`: remove what finished runs occupy on the disk. Their branches and summaries stay."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.cli.arguments import JSON, YES, Arguments, flag, positional
from holdfast.cli.open_repo import OpenRepo, choose_run, open_repo
from holdfast.cli.output import as_json, undeletable_lines
from holdfast.cli.prompts import require_yes
from holdfast.cli.recap import recap_of
from holdfast.core.projection import RunRow
from holdfast.core.status import RUN_IS_OVER, RunStatus
from holdfast.errors import ExitCode, HoldfastError
from holdfast.repo.debris import remove_stale_locks, undeletable_folders
from holdfast.runner.decisions.clean import clean_run, remove_forgotten_folders, run_size
from holdfast.views.recap import recap_text
from holdfast.views.text import count


class CleanableRun(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run, and what removing it frees."""

    run: str
    status: RunStatus
    bytes: int
    refs: int


class CleanResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `clean --json` prints; `removed` is false if nothing was removed."""

    runs: tuple[CleanableRun, ...]
    bytes: int
    removed: bool


ARGUMENTS: Arguments = (
    positional("run", "run id, number or beginning of its name", nargs="?"),
    flag("--all", "every completed or abandoned run"),
    flag("--dry-run", "say what would be freed and remove nothing"),
    YES,
    JSON,
)


def execute(args: Namespace) -> int:
    """Remove what finished runs occupy. Without a run or --all, only say what there is."""
    with open_repo() as opened:
        found = tuple(
            CleanableRun(run=row.run, status=row.status, bytes=size.size, refs=size.refs)
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


def _finished(opened: OpenRepo, args: Namespace) -> list[RunRow]:
    if args.run is None:
        return [listing.row for listing in opened.runs() if listing.row.status in RUN_IS_OVER]
    row = choose_run(opened, args.run)
    if row.status not in RUN_IS_OVER:
        raise HoldfastError(
            f"run {row.run} is not over ({row.status})", f"`holdfast abandon {row.run}` ends it first"
        )
    return [row]


def _clean(opened: OpenRepo, runs: list[str], args: Namespace) -> None:
    if runs:
        what = f"logs, refs, unlanded work and journal entries of {', '.join(runs)}"
        require_yes(f"Remove {what}? Branches and summaries stay.", args, "nothing was removed")
    for run in runs:
        clean_run(opened.repo, opened.journal, run, _summaries(opened, run))
        if not args.json:
            print(f"Cleaned {run}; its summary is in {opened.state_dir.outputs(run)}.")
            print("".join(f"{line}\n" for line in undeletable_lines(_left_of(opened, run))), end="")
    remove_forgotten_folders(opened.repo, opened.journal)
    # Nothing of a run is left that would remove them later.
    remove_stale_locks(opened.repo)


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
        yield f"  {one.run}  {one.status}  {_mebibytes(one.bytes)}, {count(one.refs, 'ref')}"
    yield f"{count(len(found.runs), 'finished run')}, {_mebibytes(found.bytes)} to free."


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
