"""`inspect`: all about a run or a task, now or at an earlier event; a task's brief; its unfinished work.

Inspecting a run needs no git: the functions that need it import it themselves.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.arguments import JSON, LAST_RUN, OPTIONAL_TASK, Arguments, flag, option, positive
from holdfast.cli.open_repo import choose_last_written_run, choose_run_or_task
from holdfast.cli.output import as_json, show
from holdfast.core import ids
from holdfast.errors import ExitCode, HoldfastError
from holdfast.journal.protocol import StoredRun
from holdfast.views.inspection import brief_of, inspect_run, inspection_text
from holdfast.views.read_only_repo import ReadOnlyRepo, open_read_only
from holdfast.views.text import count, one_line, table, timestamp, when

if TYPE_CHECKING:
    from holdfast.repo.repository import Repository
    from holdfast.repo.snapshots import Snapshot


ARGUMENTS: Arguments = (
    LAST_RUN,
    OPTIONAL_TASK,
    option("--at", "SEQ", "as it was after event number SEQ", type=positive),
    flag("--brief", "the brief that the task's agent got or would get"),
    option("--attempt", "N", "with --brief: an earlier attempt", type=positive),
    flag("--wip", "the snapshots of the task's unfinished work"),
    option("--restore", "DIR", "write a snapshot's files into a new directory"),
    option("--snapshot", "N", "with --restore: the number of the snapshot (the newest)", type=positive),
    JSON,
)


def execute(args: Namespace) -> int:
    """Show a run or a task; or a task's brief, its snapshots, or write the files of one into a new directory."""
    opened = open_read_only()
    named = args.run or (None if args.task else choose_last_written_run(opened, None).run)
    stored, task = choose_run_or_task(opened, named, args.task)
    run = stored.row.run
    if args.brief or args.wip or args.restore:
        return _inspect_work(opened, stored, task, args)
    return show(inspect_run(opened, run, task, args.at), inspection_text, args)


def _inspect_work(opened: ReadOnlyRepo, stored: StoredRun, task: str | None, args: Namespace) -> int:
    """Print a task's brief or snapshots, or write the files of one into a new directory."""
    from holdfast.repo.snapshots import list_snapshots

    if task is None:
        what = "--brief" if args.brief else f"--restore {args.restore}" if args.restore else "--wip"
        raise HoldfastError("which task?", f"name it: `holdfast inspect {stored.row.run} TASK {what}`")
    if args.brief:
        brief = brief_of(opened, stored.state(), task, args.attempt)
        print(as_json(brief) + "\n" if args.json else brief, end="")
        return ExitCode.DONE
    repo = opened.open_repository()
    found = list_snapshots(repo, ids.snapshot_ref(stored.row.run, task))
    if args.restore:
        return _restore(repo, _chosen(found, stored.row.run, task, args.snapshot), args.restore)
    views = [asdict(snapshot) | {"at": timestamp(snapshot.at)} for snapshot in found]
    return show(views, lambda _: _snapshots_text(found, task), args)


def _chosen(found: list[Snapshot], run: str, task: str, number: int | None) -> Snapshot:
    wanted = [item for item in found if number in (None, item.number)]
    if not wanted:
        raise HoldfastError(
            f"task {task} has {count(len(found), 'snapshot')}, none of that number",
            f"`holdfast inspect {run} {task} --wip` lists them",
        )
    return wanted[0]


def _restore(repo: Repository, snapshot: Snapshot, directory: str) -> int:
    from holdfast.repo.snapshots import restore_snapshot

    written = restore_snapshot(repo, snapshot.commit, Path(directory))
    print(
        f"Wrote {count(written, 'file')} of snapshot {snapshot.number} ({snapshot.commit[:12]}) to {directory}"
    )
    return ExitCode.DONE


def _snapshots_text(found: Sequence[Snapshot], task: str) -> str:
    if not found:
        return f"{task} has no snapshot of unfinished work."
    rows = [("#", "COMMIT", "SAVED", "FILES", "MESSAGE")]
    rows += [
        (
            str(snapshot.number),
            snapshot.commit[:12],
            when(timestamp(snapshot.at)),
            str(snapshot.files),
            one_line(snapshot.message.partition("\n")[0]),
        )
        for snapshot in found
    ]
    return "\n".join(table(rows, indent=""))
