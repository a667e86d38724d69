"""`list` as data and as text: every run of a repository in one line."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from holdfast.boot import boot_id
from holdfast.core.facts import NOWHERE, ResultPlaces
from holdfast.core.projection import Origin, RunRow
from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER, RunStatus, StageStatus
from holdfast.journal.protocol import RunListing, RunProgress
from holdfast.reporting.displayed_status import displayed_run_status, is_resumable
from holdfast.reporting.needs_you import NeedOfTask, needs_you
from holdfast.reporting.run_ending import Ending, how_it_ended
from holdfast.reporting.spending import Spending, spending_of_run
from holdfast.views.providers import ProviderView, providers_in_trouble
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.views.spending_text import SpendingColumns
from holdfast.views.status import ending_label
from holdfast.views.text import one_line, timestamp, titled_table, when


class RunLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run; `stage` is the last one that has begun, `completed` counts the tasks that landed.

    `landed_in` names the branches that hold the result of a completed run; `discarded`: none does, and its own is archived.
    """

    id: str
    goal: str
    status: RunStatus
    ending: Ending
    stage: str | None
    started_at: str
    updated_at: str
    resumable: bool
    adopted_from: Origin | None = None
    needs_you: tuple[NeedOfTask, ...] = ()
    completed: int = 0
    tasks: int = 0
    landed_in: tuple[str, ...] = ()
    discarded: bool = False
    spending: Spending = Spending()
    providers: tuple[ProviderView, ...] = ()


def run_line(
    listing: RunListing,
    progress: RunProgress,
    state: RunState | None,
    now: float,
    *,
    held: bool,
    boot_id: str = "",
    places: ResultPlaces = NOWHERE,
) -> RunLine:
    """Return a run as `list` shows it; `held` tells whether a live runner holds it. One that is over needs no `state`.

    `boot_id` tells a reboot from a crash, `places` are where its result is, if it is not on the run branch alone.
    """
    row = listing.row
    begun = [name for name, stage in row.stages.items() if stage.status is not StageStatus.PENDING]
    return RunLine(
        id=row.run,
        goal=row.goal,
        status=displayed_run_status(row, held=held),
        ending=how_it_ended(row, held=held, boot_id=boot_id),
        stage=begun[-1] if begun else None,
        started_at=timestamp(listing.started_at),
        updated_at=timestamp(listing.updated_at),
        resumable=is_resumable(row, held=held),
        adopted_from=row.origin,
        needs_you=() if state is None else needs_you(state),
        completed=progress.landed,
        tasks=progress.tasks,
        landed_in=places.branches,
        discarded=bool(places.archive) and not places.branches,
        spending=spending_of_run(row),
        providers=() if state is None else providers_in_trouble(state, now),
    )


def run_lines(opened: ReadOnlyRepo) -> list[RunLine]:
    """Return every run of a repository, oldest first."""
    runs, boot = opened.runs(), boot_id()
    places = places_of_results(opened.checkout, [listing.row for listing in runs])
    progress = opened.require_journal().progress(runs) if runs else {}
    return [_line(opened, listing, progress[listing.row.run], boot, places) for listing in runs]


def _line(
    opened: ReadOnlyRepo,
    listing: RunListing,
    progress: RunProgress,
    boot: str,
    places: Mapping[str, ResultPlaces],
) -> RunLine:
    """Return the line of a run. Only an unfinished one is loaded: there may be hundreds of others."""
    row = listing.row
    is_over = row.status in RUN_IS_OVER
    return run_line(
        listing,
        progress,
        None if is_over else opened.require_journal().load(row.run).state(),
        time.time(),
        held=not is_over and opened.holder(row.run) is not None,
        boot_id=boot,
        places=places.get(row.run, NOWHERE),
    )


def places_of_results(checkout: Path, rows: list[RunRow]) -> dict[str, ResultPlaces]:
    """Return where the results of completed runs are: in the branches that they began on, or archived.

    Without any, git is not asked. Only for an archived one it is asked alone: it may have landed in another branch.
    """
    completed = [row for row in rows if row.status is RunStatus.COMPLETED]
    if not completed:
        return {}
    from holdfast.repo.refs import archived_runs, result_places, runs_in_their_targets

    landed = runs_in_their_targets(checkout, completed)
    rest = [row for row in completed if row.run not in landed]
    return {
        **{row.run: ResultPlaces((row.target,)) for row in completed if row.run in landed},
        **{row.run: result_places(checkout, row) for row in (archived_runs(checkout, rest) if rest else ())},
    }


def list_text(lines: Sequence[RunLine], width: int) -> str:
    """Return every run as a row of a table of at most `width` columns."""
    columns = SpendingColumns([line.spending for line in lines])
    rows = [("RUN", "STATUS", "LANDED", "STAGE", "UPDATED", "RESULT", *columns.heading, "GOAL")]
    rows += [
        (
            line.id,
            ending_label(line.status, _waited_for(line) or line.ending),
            f"{line.completed}/{line.tasks}",
            line.stage or "-",
            when(line.updated_at),
            _result(line),
            *columns.cells(line.spending),
            one_line(line.goal, 60)
            + (
                f"  (from {line.adopted_from.system} {one_line(line.adopted_from.name, 40)})"
                if line.adopted_from
                else ""
            )
            + "".join(f"  ({one_line(f'{need.task} {need.words}', 80)})" for need in line.needs_you)
            + "".join(f"  ({one_line(f'waits: {one.words}', 80)})" for one in _waits(line)),
        )
        for line in lines
    ]
    return "\n".join(chain.from_iterable(titled_table(rows, width, indent="")))


def _waits(line: RunLine) -> list[ProviderView]:
    """Return the providers that a live run waits for. One at rest has that for its ending."""
    return [one for one in line.providers if line.ending is Ending.RUNNING and one.next_try]


def _waited_for(line: RunLine) -> Ending | None:
    return next((Ending(one.reason) for one in _waits(line)), None)


def _result(line: RunLine) -> str:
    if line.landed_in:
        return f"in {one_line(line.landed_in[0], 40)}"
    if line.discarded:
        return "discarded"
    return "resumable" if line.resumable else "to land" if line.status is RunStatus.COMPLETED else "-"
