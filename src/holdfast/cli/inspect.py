"""`inspect`: all about a run or a task, now or at an earlier event; a task's brief; its unfinished work.

Inspecting a run needs no git: the functions that need it import it themselves.
"""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.boot import boot_id
from holdfast.cli.arguments import JSON, LAST_RUN, OPTIONAL_TASK, Arguments, flag, option, positive
from holdfast.cli.open_repo import (
    ReadOnlyRepo,
    choose_last_written_run,
    choose_run_or_task,
    find_task,
    open_read_only,
)
from holdfast.cli.output import as_json, show
from holdfast.cli.status import places_of_result
from holdfast.core import ids
from holdfast.core.facts import NOWHERE
from holdfast.core.state import RunState, replay
from holdfast.errors import ExitCode, HoldfastError
from holdfast.journal.protocol import JournalReader, StoredRun
from holdfast.views.inspection import Inspection, inspection, inspection_text
from holdfast.views.status import status_view
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


def inspect_run(
    opened: ReadOnlyRepo, run: str, task: str | None = None, seq: int | None = None
) -> Inspection:
    """Return all about a run, or about one task of it, now or after event number `seq`."""
    journal, held = opened.require_journal(), opened.holder(run)
    stored = _as_it_was(journal, run, seq) if seq else journal.load(run)
    # The runner of that time counts as alive, so the run is shown as it was.
    runner = f"its runner at event {seq}" if seq else str(held) if held else None
    state = stored.state()
    if task is not None:
        task = find_task(state, task)
    places = NOWHERE if seq else places_of_result(opened.checkout, stored.row)
    status = status_view(stored, runner, time.time(), boot_id=boot_id(), places=places)
    return inspection(status, state, journal.events(run, upto=stored.last_seq), task)


def _as_it_was(journal: JournalReader, run: str, seq: int) -> StoredRun:
    """Return the run after the events up to `seq`."""
    now = journal.load(run)
    if seq > now.last_seq:
        raise HoldfastError(
            f"run {run} has {count(now.last_seq, 'event')}, not {seq}", "`--at` takes the number of an event"
        )
    recorded = list(journal.events(run, upto=seq))
    state = replay(now.first_plan, (record.event for record in recorded))
    return replace(
        now,
        plan=state.plan,
        row=state.row,
        tasks=list(state.tasks.values()),
        updated_at=recorded[-1].at,
        last_seq=seq,
    )


def _inspect_work(opened: ReadOnlyRepo, stored: StoredRun, task: str | None, args: Namespace) -> int:
    """Print a task's brief or snapshots, or write the files of one into a new directory."""
    from holdfast.repo.snapshots import list_snapshots

    if task is None:
        what = "--brief" if args.brief else f"--restore {args.restore}" if args.restore else "--wip"
        raise HoldfastError("which task?", f"name it: `holdfast inspect {stored.row.run} TASK {what}`")
    if args.brief:
        brief = _brief(opened, stored.state(), task, args.attempt)
        print(as_json(brief) + "\n" if args.json else brief, end="")
        return ExitCode.DONE
    repo = opened.open_repository()
    found = list_snapshots(repo, ids.snapshot_ref(stored.row.run, task))
    if args.restore:
        return _restore(repo, _chosen(found, stored.row.run, task, args.snapshot), args.restore)
    views = [asdict(snapshot) | {"at": timestamp(snapshot.at)} for snapshot in found]
    return show(views, lambda _: _snapshots_text(found, task), args)


def _brief(opened: ReadOnlyRepo, state: RunState, task: str, attempt: int | None) -> str:
    """Return the brief of an attempt, or the brief of the next one if none is under way."""
    row, directory = state.tasks[task], opened.directory(state.row.run)
    path = directory.brief(task, attempt or row.attempt)
    under_way = task in state.active or task in state.landing or row.merge_commit
    if attempt is None and not under_way:
        from holdfast.runner.attempts.start import next_brief

        return next_brief(opened.open_repository(), state, row)
    if not path.exists():
        raise HoldfastError(
            f"there is no brief of attempt {attempt or row.attempt} of task {task}",
            f"it has had {count(row.attempt, 'attempt')}; without --attempt the next brief is shown",
        )
    return path.read_text(encoding="utf-8")


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
