"""`resume`: continue an unfinished run, all of it or some tasks, or begin again at a stage or a task.

`--dry-run` shows what the same command without it would do, and changes nothing.
"""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence

import msgspec

from holdfast.cli.arguments import ACCEPT_BRANCH, RUN, Arguments, flag, one_of, option
from holdfast.cli.consent import require_consent
from holdfast.cli.filter_consent import ask_about_filters
from holdfast.cli.open_repo import OpenRepo, choose_run, find_task, open_repo
from holdfast.cli.output import note, say, show
from holdfast.cli.plan_file import command_for, edited_plan_words
from holdfast.cli.prompts import choose_key, confirm, is_interactive, require_yes
from holdfast.cli.run_session import SESSION_ARGUMENTS, abandon_run, options_as_typed, start_session
from holdfast.cli.sandbox_options import choose_sandbox
from holdfast.core import events as ev
from holdfast.core.projection import RunRow
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus
from holdfast.core.user_decisions import gate_waivers
from holdfast.errors import ExitCode, HoldfastError, NeedsDecisionError
from holdfast.fleet import open_fleet
from holdfast.journal.protocol import JournalReader
from holdfast.repo.repository import Repository
from holdfast.reporting.recovery_report import failed_tasks, left_alone
from holdfast.runner.decisions.rewind import Rewind, plan_rewind, rewind_run
from holdfast.runner.decisions.user_decisions import record_decision, waive_gates
from holdfast.runner.recovery.resume_preview import preview_resume
from holdfast.runner.sandbox_setting import SandboxSetting
from holdfast.runner.session import RunOptions, finish_completed, refuse_incomplete, require_history
from holdfast.views.current_status import current_status, places_of_result
from holdfast.views.event_text import plain_lines
from holdfast.views.inspection import inspect_run, inspection_text
from holdfast.views.read_only_repo import ReadOnlyRepo, open_read_only
from holdfast.views.recovery_text import RecoveryView, recovery_text, recovery_view
from holdfast.views.status import RunView
from holdfast.views.terminal import terminal_width
from holdfast.views.text import count, one_line


class RewindView(msgspec.Struct, frozen=True, kw_only=True):
    """What `resume --from … --dry-run --json` prints. `base` is where a new run would begin; null if none is made."""

    run: str
    redone: tuple[str, ...]
    landed: tuple[str, ...]
    base: str | None


ARGUMENTS: Arguments = (
    RUN,
    one_of(
        option("--only", "T,…", "work on these tasks only"),
        flag("--failed-only", "give failed tasks all attempts again and work on them only"),
        option(
            "--from", "STAGE|TASK", "start again there, with everything that depends on it", dest="begin_at"
        ),
        option("--restart-stage", "STAGE", "begin a whole stage again"),
    ),
    option("--accept", "STAGE,…", "continue these stages although a check of theirs failed"),
    ACCEPT_BRANCH,
    *SESSION_ARGUMENTS,
)


def execute(args: Namespace) -> int:
    """Continue an unfinished run. A completed run needs nothing, which is not an error."""
    if args.dry_run:
        return _preview(args)
    with open_repo() as found:
        opened = ask_about_filters(found)
        row = choose_run(opened, args.run)
        _refuse_abandoned(row)
        if row.status is not RunStatus.COMPLETED:
            plan = opened.journal.load(row.run).plan
            choose_sandbox(args, SandboxSetting.of_plan(plan), SandboxSetting.of_run(row))
        if at := args.begin_at or args.restart_stage:
            _require_ready(opened, row.run, args)
            return start_session(opened, _rewind(opened, row.run, at, args), args)
        if row.status is RunStatus.COMPLETED and not args.land:
            finish_completed(opened.repo, opened.journal, row.run)
            say(f"Run {row.run} is completed; there is nothing to resume.", args)
            return ExitCode.DONE
        if args.accept and waive_gates(opened.repo, opened.journal, row.run, args.accept.split(",")):
            say(f"Asked the runner of {row.run}. `holdfast status {row.run}` shows what it does.", args)
            return ExitCode.DONE
        _require_ready(opened, row.run, args)
        return _resume(opened, row.run, args)


def _refuse_abandoned(row: RunRow) -> None:
    if row.status is RunStatus.ABANDONED:
        raise HoldfastError(
            f"run {row.run} was abandoned", f"`{command_for(row.plan_source)}` starts its plan again"
        )


def _require_ready(opened: OpenRepo, run: str, args: Namespace) -> None:
    """Make sure that no runner holds the run and that the user agreed to its plan."""
    opened.require_free(run)
    plan = opened.journal.load(run).state().plan_as_run()
    require_consent(opened.journal, plan, opened.repo.checkout, yes=args.yes)


def _resume(opened: OpenRepo, run: str, args: Namespace) -> int:
    """Continue a run as the flags say; on a terminal, without any, the user chooses with one key."""
    key = "r"
    if is_interactive() and not (args.yes or args.json or args.only or args.failed_only or args.accept):
        key = _ask_how(opened, run, args)
    elif edited := edited_plan_words(opened.journal.load(run).state(), opened.checkout):
        note(f"{edited}.")
    if key == "a":
        if not confirm(f"Abandon {run}? Its branch and snapshots stay.", yes=False):
            raise _undecided(run)
        abandon_run(opened, run, args)
        return ExitCode.DONE
    only = frozenset(_named_tasks(opened.journal.load(run).state(), args)) or None
    if key == "f" or args.failed_only:
        only = _restart_failed(opened, run)
    if only:
        _tell_of_held_back(opened.journal.load(run).state(), only)
    return start_session(opened, run, args, only)


def _tell_of_held_back(state: RunState, only: frozenset[str]) -> None:
    """Say which of the chosen tasks do not start, and why: the run would rest again without a word."""
    state.select(only)
    for task, why in left_alone(state).items():
        if task in only:
            note(f"{task} does not start: {why}.")


def _ask_how(opened: OpenRepo, run: str, args: Namespace) -> str:
    """Show the report and return the key of the answer: `r`esume, restart `f`ailed, `a`bandon. Quitting raises."""
    print(recovery_text(_recovery_view(opened, run, args), terminal_width()))
    while (key := choose_key("r, f, i, a, or q to quit [r]?", "rfiaq", default="r")) == "i":
        print(inspection_text(inspect_run(opened, run)))
    if key == "q":
        raise _undecided(run)
    return key


def _undecided(run: str) -> NeedsDecisionError:
    return NeedsDecisionError("nothing was done", f"`holdfast resume {run}` continues the run")


def _restart_failed(opened: OpenRepo, run: str) -> frozenset[str]:
    """Give every failed and abandoned task of a run all its attempts again, and return these tasks."""
    failed = _require_failed(opened.journal.load(run).state())
    for task in failed:
        record_decision(opened.repo, opened.journal, run, ev.TaskRetried(task=task))
    return frozenset(failed)


def _require_failed(state: RunState) -> tuple[str, ...]:
    """Return the failed and abandoned tasks of a run. Raises HoldfastError if there are none."""
    run = state.row.run
    if failed := failed_tasks(state):
        return failed
    raise HoldfastError(f"no task of run {run} has failed", f"`holdfast resume {run}` continues it")


def _rewind(opened: OpenRepo, run: str, at: str, args: Namespace) -> str:
    """Ask, begin again at a stage or a task, and return the run to continue."""
    rewind = _planned_rewind(opened.repo, opened.journal, run, at, args)
    for line in _rewind_lines(opened, rewind):
        say(line, args)
    require_yes("Begin again there?", args)
    name = rewind_run(opened.repo, opened.journal, rewind, plain_lines(sys.stderr))
    if name != run and opened.journal.load(run).row.status is RunStatus.COMPLETED:
        say(f"`holdfast land {name}` lands its result instead of that of {run}, once it is completed.", args)
    elif name != run:
        say(f"Run {name} replaces {run}, which keeps its branch and refs.", args)
    return name


def _planned_rewind(repo: Repository, journal: JournalReader, run: str, at: str, args: Namespace) -> Rewind:
    stages = [stage.id for stage in journal.load(run).plan.stages]
    if args.restart_stage and at not in stages:
        raise HoldfastError(f"run {run} has no stage {at}", f"its stages are {', '.join(stages)}")
    return plan_rewind(repo, journal, run, at, args.accept_branch or "")


def _rewind_lines(opened: ReadOnlyRepo, rewind: Rewind) -> Iterator[str]:
    if rewind.plan is None:
        yield f"{', '.join(rewind.redone)} would begin again from a clean start; nothing of it has landed."
        return
    yield f"Landed before and to be done again: {', '.join(rewind.landed) or 'nothing'}."
    yield (
        f"The run branch never goes back, so a new run begins at {rewind.plan.base[:12]} with "
        f"{count(len(rewind.redone), 'task')} ({', '.join(rewind.redone)}){_what_becomes_of(opened, rewind.run)}."
    )


def _what_becomes_of(opened: ReadOnlyRepo, run: str) -> str:
    """Return the end of the sentence: what happens to the run itself. A completed one is not abandoned."""
    row = opened.require_journal().load(run).row
    if row.status is not RunStatus.COMPLETED:
        return f", and {run} is abandoned"
    landed = places_of_result(opened.checkout, row).branches
    result = f"its result stays in {landed[0]}" if landed else "its result can still be landed"
    return f"; {run} stays completed, and {result}"


def _preview(args: Namespace) -> int:
    """Show what resuming would do, and do nothing."""
    opened = open_read_only()
    row = choose_run(opened, args.run)
    _refuse_abandoned(row)
    refuse_incomplete(row)
    if opened.require_journal().durability is not None:
        require_history(opened.open_repository(), row)
    if at := args.begin_at or args.restart_stage:
        repo, journal = opened.open_repository(), opened.require_journal()
        rewind = _planned_rewind(repo, journal, row.run, at, args)
        base = rewind.plan.base if rewind.plan else None
        rewind_view = RewindView(run=row.run, redone=rewind.redone, landed=rewind.landed, base=base)
        return show(rewind_view, lambda _: "\n".join(_rewind_lines(opened, rewind)), args)
    view = _recovery_view(opened, row.run, args)
    return show(view, lambda view: recovery_text(view, terminal_width()), args)


def _recovery_view(opened: ReadOnlyRepo, run: str, args: Namespace) -> RecoveryView:
    """Return the recovery report of a run for these arguments."""
    repo, journal = opened.open_repository(), opened.require_journal()
    state = journal.load(run).state()
    accepted = gate_waivers(state, args.accept.split(",")) if args.accept else []
    again = _require_failed(state) if args.failed_only else ()
    only = again or _named_tasks(state, args)
    chosen = frozenset(only) if only else None
    options = RunOptions(
        jobs=args.jobs,
        only=chosen,
        tokens=args.tokens,
        cost_usd=args.cost_usd,
        accepted_tip=args.accept_branch or "",
    )
    decisions: list[ev.Event] = [*accepted, *(ev.TaskRetried(task=task) for task in again)]
    view = current_status(opened, run).run
    report = preview_resume(repo, open_fleet(repo.state_dir.fleet), journal, run, options, decisions)
    effects = [*_waiver_effects(state, accepted, view.held_by), *_run_effects(view, only, args)]
    if edited := edited_plan_words(state, opened.checkout):
        effects.append(edited)
    words = options_as_typed(
        args, "failed_only", "only", "accept", "accept_branch", "jobs", "tokens", "cost_usd", "land"
    )
    return recovery_view(view, report, effects, f" {shlex.join(words)}" if words else "")


def _named_tasks(state: RunState, args: Namespace) -> tuple[str, ...]:
    return tuple(find_task(state, name) for name in args.only.split(",")) if args.only else ()


def _waiver_effects(
    state: RunState, accepted: Sequence[ev.StageGateWaived], held_by: str | None
) -> Iterator[str]:
    asked = f" (its runner, {held_by}, is asked)" if held_by else ""
    for waiver in accepted:
        error = one_line(state.stage(waiver.stage).error, 160)
        yield f"stage {waiver.stage} continues{asked} although its {waiver.gate} check failed: {error}"


def _run_effects(view: RunView, only: Sequence[str], args: Namespace) -> Iterator[str]:
    if view.held_by and not args.accept:
        yield f"resume is refused now: {view.held_by} runs it"
    elif view.status is RunStatus.COMPLETED and not args.land:
        yield "it is completed; there is nothing to resume"
    if only:
        yield f"nothing new starts but {one_line(', '.join(only))}; tasks under way continue"
    if args.land:
        yield f"once it is completed, its result is merged into {view.target or 'its branch'}"
