"""`inspect RUN TASK --brief | --wip | --restore DIR`: what an agent was told, and its unfinished work back."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from holdfast.cli.open_repo import ReadOnlyRepo, choose_run, open_read_only
from holdfast.cli.status import as_json, require_task
from holdfast.core import ids
from holdfast.core.state import RunState
from holdfast.errors import HoldfastError
from holdfast.repo.repository import Repository
from holdfast.repo.snapshots import Snapshot, list_snapshots, restore_snapshot
from holdfast.runner.attempts.start import next_brief
from holdfast.views.text import count, one_line, table, timestamp


class SnapshotView(msgspec.Struct, frozen=True, kw_only=True):
    """One snapshot of a task's unfinished work."""

    number: int
    commit: str
    at: str
    files: int
    message: str


def inspect_task_work(args: argparse.Namespace) -> int:
    """Print a task's brief or snapshots, or write the files of one into a new directory."""
    if args.task is None:
        what = "--brief" if args.brief else f"--restore {args.restore}" if args.restore else "--wip"
        raise HoldfastError("which task?", f"name the run and the task: `holdfast inspect RUN TASK {what}`")
    place = open_read_only()
    journal = place.require_journal()
    stored = journal.load(choose_run(journal.runs(), args.run).row.run)
    state = stored.state()
    require_task(state, args.task)
    if args.brief:
        brief = _brief(place, state, args.task, args.attempt)
        print(as_json(brief) + "\n" if args.json else brief, end="")
        return 0
    repo = Repository.open(place.checkout)
    found = list_snapshots(repo, ids.snapshot_ref(state.row.run, args.task))
    if args.restore:
        return _restore(repo, _chosen(found, args), args.restore)
    _print_snapshots(found, args)
    return 0


def _brief(place: ReadOnlyRepo, state: RunState, task: str, attempt: int | None) -> str:
    """Return what an attempt was told, or what the next one would be told if none has begun."""
    row, directory = state.tasks[task], place.state.run(state.row.run)
    path = directory.brief(task, attempt or row.attempt)
    under_way = task in state.active or task in state.landing or row.merge_commit
    if attempt is None and not under_way:
        return next_brief(Repository.open(place.checkout), state, row)
    if not path.exists():
        raise HoldfastError(
            f"there is no brief of attempt {attempt or row.attempt} of task {task}",
            f"it has had {count(row.attempt, 'attempt')}; without --attempt the next brief is shown",
        )
    return path.read_text(encoding="utf-8")


def _chosen(found: list[Snapshot], args: argparse.Namespace) -> Snapshot:
    wanted = [item for item in found if args.snapshot in (None, item.number)]
    if not wanted:
        raise HoldfastError(
            f"task {args.task} has {count(len(found), 'snapshot')}, none of that number",
            f"`holdfast inspect {args.run} {args.task} --wip` lists them",
        )
    return wanted[0]


def _restore(repo: Repository, chosen: Snapshot, directory: str) -> int:
    written = restore_snapshot(repo, chosen.commit, Path(directory))
    print(f"Wrote {count(written, 'file')} of snapshot {chosen.number} ({chosen.commit[:12]}) to {directory}")
    return 0


def _print_snapshots(found: list[Snapshot], args: argparse.Namespace) -> None:
    views = [
        SnapshotView(
            number=item.number,
            commit=item.commit,
            at=timestamp(item.at),
            files=item.files,
            message=item.message,
        )
        for item in found
    ]
    if args.json:
        print(as_json(views))
        return
    rows = [("#", "COMMIT", "SAVED", "FILES", "MESSAGE")]
    rows += [
        (
            str(view.number),
            view.commit[:12],
            view.at,
            str(view.files),
            one_line(view.message.partition("\n")[0]),
        )
        for view in views
    ]
    print("\n".join(table(rows, indent="")) if views else f"{args.task} has no snapshot of unfinished work.")


def inspect(args: argparse.Namespace) -> int:
    """Show a run or a task whole; or a task's brief, its snapshots, or the files of one in a new directory."""
    if args.brief or args.wip or args.restore:
        return inspect_task_work(args)
    from holdfast.cli.status import inspect as show_whole

    return show_whole(args)
