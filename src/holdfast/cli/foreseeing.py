"""`resume --dry-run`: what the very same command without it would do. Nothing is changed."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence

from holdfast.cli.look import current_status, require_task
from holdfast.cli.opening import Glimpse
from holdfast.cli.recovering import require_failed
from holdfast.core import events as ev
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus
from holdfast.core.waivers import waivers
from holdfast.fleet.local import LocalFleet
from holdfast.journal.protocol import JournalReader
from holdfast.repo.repository import Repository
from holdfast.runner.outlook import outlook
from holdfast.runner.session import Choices
from holdfast.views.recovery_text import RecoveryView, recovery_view
from holdfast.views.status import RunView
from holdfast.views.text import one_line


def foreseen(repo: Repository, journal: JournalReader, run: str, args: argparse.Namespace) -> RecoveryView:
    """Return the report of a run as resuming it with these arguments would find and change it."""
    stored = journal.load(run)
    state = RunState(stored.plan, stored.row, stored.tasks)
    accepted = waivers(state, args.accept.split(",")) if args.accept else []
    again = require_failed(state) if args.failed_only else ()
    only = again or _named(state, args.only)
    choices = Choices(jobs=args.jobs, only=frozenset(only) if only else None)
    decisions: list[ev.AnyEvent] = [*accepted, *(ev.TaskReset(task=task) for task in again)]
    view = current_status(Glimpse(repo.checkout, repo.state, journal), run).run
    assert view is not None
    report = outlook(repo, LocalFleet(repo.state), journal, run, choices, decisions)
    does = [*_waived(state, accepted, view.held_by), *_about_the_run(view, only, args)]
    return recovery_view(view, report, does, _options(args))


def _named(state: RunState, only: str | None) -> tuple[str, ...]:
    names = tuple(only.split(",")) if only else ()
    for name in names:
        require_task(state, name)
    return names


def _waived(state: RunState, accepted: Sequence[ev.StageGateWaived], held_by: str | None) -> Iterator[str]:
    asked = f", as its runner ({held_by}) is asked to" if held_by else ""
    for waiver in accepted:
        error = one_line(state.stage(waiver.stage).error, 160)
        yield f"stage {waiver.stage} goes on{asked}, although its {waiver.gate} check failed: {error}"


def _about_the_run(view: RunView, only: Sequence[str], args: argparse.Namespace) -> Iterator[str]:
    if view.held_by and not args.accept:
        yield f"resuming is refused now: {view.held_by} carries it on"
    elif view.status is RunStatus.COMPLETED and not args.land:
        yield "it is completed; there is nothing to resume"
    if only:
        yield f"nothing new is begun but {one_line(', '.join(only))}; what is under way goes on"
    if args.land:
        yield f"once it is completed, its result is brought into {view.target or 'its branch'}"


def _options(args: argparse.Namespace) -> str:
    """Return the options that the report was made for, as they are typed, each after a space."""
    words = ["--failed-only"] if args.failed_only else []
    for name in ("only", "accept", "jobs"):
        if value := getattr(args, name):
            words += [f"--{name}", str(value)]
    words += ["--land"] if args.land else []
    return f" {shlex.join(words)}" if words else ""
