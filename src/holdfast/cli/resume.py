"""`resume --from` and `--restart-stage`: what beginning again means, said before it is done."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.cli.open_repo import OpenRepo, ReadOnlyRepo
from holdfast.cli.prompts import confirm
from holdfast.cli.recovery_prompt import require_failed
from holdfast.cli.run_session import say
from holdfast.cli.status import as_json, current_status, require_task
from holdfast.core import events as ev
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus
from holdfast.core.user_decisions import gate_waivers
from holdfast.errors import HoldfastError, NeedsDecisionError
from holdfast.fleet import open_fleet
from holdfast.journal.protocol import JournalReader
from holdfast.repo.repository import Repository
from holdfast.runner.decisions.rewind import Rewind, plan_rewind, rewind_run
from holdfast.runner.recovery.resume_preview import preview_resume
from holdfast.runner.session import RunOptions
from holdfast.views.event_text import plain_lines
from holdfast.views.recovery_text import RecoveryView, recovery_view
from holdfast.views.status import RunView
from holdfast.views.text import count, one_line


class RewindView(msgspec.Struct, frozen=True, kw_only=True):
    """What `resume --from … --dry-run --json` prints. `base` is where a new run would begin; null if none is made."""

    run: str
    redone: tuple[str, ...]
    landed: tuple[str, ...]
    base: str | None


def rewind_and_resume(place: OpenRepo, run: str, at: str, args: argparse.Namespace) -> str:
    """Ask, begin again at a stage or a task, and return the run to carry on."""
    rewind = _considered(place.repo, place.journal, run, at, args)
    for line in _lines(rewind):
        say(line, args)
    if not confirm("Begin again there?", yes=args.yes):
        raise NeedsDecisionError("nothing was done", "say --yes to begin again without being asked")
    name = rewind_run(place.repo, place.journal, rewind, plain_lines(sys.stderr))
    if name != run:
        say(f"Run {name} begins in the place of {run}, which keeps its branch and refs.", args)
    return name


def preview_rewind(
    repo: Repository, journal: JournalReader, run: str, at: str, args: argparse.Namespace
) -> int:
    """Say what beginning again would mean, and do nothing."""
    rewind = _considered(repo, journal, run, at, args)
    base = rewind.plan.base if rewind.plan else None
    view = RewindView(run=run, redone=rewind.redone, landed=rewind.landed, base=base)
    print(as_json(view) if args.json else "\n".join(_lines(rewind)))
    return 0


def _considered(
    repo: Repository, journal: JournalReader, run: str, at: str, args: argparse.Namespace
) -> Rewind:
    stages = [stage.id for stage in journal.load(run).plan.stages]
    if args.restart_stage and at not in stages:
        raise HoldfastError(f"run {run} has no stage {at}", f"its stages are {', '.join(stages)}")
    return plan_rewind(repo, journal, run, at)


def _lines(rewind: Rewind) -> Iterator[str]:
    if rewind.plan is None:
        yield f"{', '.join(rewind.redone)} would begin again from a clean start; nothing of it has landed."
        return
    yield f"Landed before and to be done anew: {', '.join(rewind.landed) or 'nothing'}."
    yield (
        f"The run branch never goes back, so a new run begins at {rewind.plan.base[:12]} with "
        f"{count(len(rewind.redone), 'task')} ({', '.join(rewind.redone)}), and {rewind.run} is given up."
    )


def show_preview(
    repo: Repository, journal: JournalReader, run: str, args: argparse.Namespace
) -> RecoveryView:
    """Return the report of a run as resuming it with these arguments would find and change it."""
    stored = journal.load(run)
    state = stored.state()
    accepted = gate_waivers(state, args.accept.split(",")) if args.accept else []
    again = require_failed(state) if args.failed_only else ()
    only = again or _named(state, args.only)
    choices = RunOptions(jobs=args.jobs, only=frozenset(only) if only else None)
    decisions: list[ev.AnyEvent] = [*accepted, *(ev.TaskReset(task=task) for task in again)]
    view = current_status(ReadOnlyRepo(repo.checkout, repo.state, journal), run).run
    assert view is not None
    report = preview_resume(repo, open_fleet(repo.state.fleet), journal, run, choices, decisions)
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
