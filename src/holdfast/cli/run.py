"""`run`: start a plan, or continue an unfinished run of it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from holdfast.agents.presets import presets_of
from holdfast.boot import boot_id
from holdfast.cli.arguments import Arguments, flag, option, positional
from holdfast.cli.consent import executed_by, require_consent
from holdfast.cli.filter_consent import ask_about_filters
from holdfast.cli.open_repo import OpenRepo, open_repo
from holdfast.cli.output import missing_runs_sentence, note, say
from holdfast.cli.plan_file import (
    command_for,
    find_plan,
    goal_of,
    is_piped,
    load_plan,
    plan_from_pipe,
    require_commands,
    source_of,
)
from holdfast.cli.prompts import choose_key, confirm, is_interactive
from holdfast.cli.review import print_review
from holdfast.cli.run_session import SESSION_ARGUMENTS, abandon_run, land_now, start_session
from holdfast.cli.sandbox_options import choose_sandbox
from holdfast.core.base_check import deserves_check
from holdfast.core.plan import Plan, plan_hash
from holdfast.core.projection import RunRow
from holdfast.core.status import RunStatus
from holdfast.errors import ExitCode, HoldfastError, NeedsDecisionError
from holdfast.formats.registry import SYSTEM_NAMES
from holdfast.journal.protocol import RunListing
from holdfast.repo.checkout import checkout_notices
from holdfast.repo.discovery import require_commit
from holdfast.repo.workspace_files import require_files
from holdfast.reporting.displayed_status import displayed_run_status
from holdfast.reporting.estimates import AttemptSpan, attempt_spans
from holdfast.reporting.run_ending import how_it_ended
from holdfast.reporting.run_estimate import agent_histories, estimate_run
from holdfast.runner.decisions.amend import is_amended
from holdfast.runner.fleet_choice import require_usable_fleet
from holdfast.runner.health import lost_run_of, runs_missing_in_journal
from holdfast.runner.sandbox_setting import SandboxSetting
from holdfast.runner.session import create_run, unfinished_run
from holdfast.views.current_status import current_status, places_of_result
from holdfast.views.read_only_repo import ReadOnlyRepo, open_read_only
from holdfast.views.recovery_text import RecoveryChoice, choice_lines, recovery_header
from holdfast.views.status import ending_label
from holdfast.views.terminal import terminal_width
from holdfast.views.text import wrapped

_RUNS_LOOKED_AT = 20
"""How many of the latest runs tell what a plan may take."""

ARGUMENTS: Arguments = (
    positional(
        "plan",
        "plan file (plan.yaml, plan.yml, plan.json, holdfast.yaml), - for standard input, "
        "a goal in words, or a workflow's input",
        nargs="?",
    ),
    option("--workflow", "NAME|FILE", "make the plan with this workflow (`plan workflows` lists them)"),
    option("--with", "FLAG,…", "flags of the workflow to turn on", dest="with_flags", default=""),
    option("--without", "FLAG,…", "flags of the workflow to turn off", dest="without_flags", default=""),
    option("--set", "NAME=TEXT", "a value of the workflow", dest="values", action="append", default=[]),
    option("--mirror", "FORMAT", "keep this system's own files beside the run", choices=SYSTEM_NAMES),
    flag("--tick", "tick what lands in the task list that the plan was made from"),
    option("--goal", "TEXT", "let a planner write the plan for this goal, then run it"),
    option("--agent", "A", "use this agent instead of the plan's default", default=""),
    flag("--fresh", "abandon an unfinished run of this plan and start a new one"),
    flag("--auto-continue", "continue an unfinished run of this plan without asking"),
    *SESSION_ARGUMENTS,
)


def execute(args: Namespace) -> int:
    """Start a plan, or continue an unfinished run of it."""
    read_only = open_read_only()
    checkout = read_only.checkout
    plan, source = _plan(args, checkout)
    if args.dry_run:
        require_commit(Path.cwd(), plan.base)
        if plan.workspace.brought:
            repo = read_only.open_repository()
            require_files(repo, plan.workspace, repo.resolve(plan.base))
        return _print_plan(plan, args, read_only)
    require_commands(plan, checkout)
    require_usable_fleet(plan)
    if args.tick:
        from holdfast.cli.tick import require_points

        require_points(plan)
    sandbox = choose_sandbox(args, SandboxSetting.of_plan(plan))
    with open_repo(create=True) as found:
        opened = ask_about_filters(found)
        known = [listing.row.run for listing in opened.runs()]
        unfinished = unfinished_run(opened.journal, plan, source)
        if unfinished is not None:
            run, state = unfinished.row.run, opened.journal.load(unfinished.row.run).state()
            edited = not is_amended(state, plan)
            opened.require_free(run, f"`holdfast amend {run}` gives it the edited plan; " if edited else "")
            choice = "f" if args.fresh else _choice(opened, unfinished, args, edited=edited)
            if choice == "a":
                from holdfast.cli.amend import amend_to

                amend_to(opened, run, plan, args)
                return _start(opened, run, f"Resuming {run} with the amended plan.", args)
            if choice == "c":
                require_consent(opened.journal, state.plan_as_run(), checkout, yes=args.yes)
                return _start(opened, run, f"Resuming {run}.{_changed_plan(run) if edited else ''}", args)
        require_files(opened.repo, plan.workspace, opened.repo.resolve(plan.base))
        if unfinished is None and not args.fresh:
            _tell_of_completed(opened, plan, args)
        for notice in checkout_notices(opened.repo):
            note(notice)
        if missing := runs_missing_in_journal(opened.repo, opened.journal):
            _refuse_lost(opened, missing, plan, source, args)
            note(missing_runs_sentence(missing))
        require_consent(opened.journal, plan, checkout, yes=args.yes, sandbox=sandbox)
        if unfinished is not None:
            abandon_run(opened, unfinished.row.run, args)
        check_base = deserves_check(plan) and not args.no_preflight
        run = create_run(opened.repo, opened.journal, plan, source, known=known, check_base=check_base)
        return _start(opened, run, f"Run {run} starts.", args)


def _refuse_lost(opened: OpenRepo, missing: Sequence[str], plan: Plan, source: str, args: Namespace) -> None:
    """Raise NeedsDecisionError if git knows a run of this plan that the journal lost: all of it would be done again."""
    if not args.fresh and (lost := lost_run_of(opened.repo, missing, plan, source)):
        raise NeedsDecisionError(
            f"git knows {lost}, a run of this plan, and the journal does not: it was lost, or is in another store",
            "`holdfast rebuild` restores it from git; --store names another store; --fresh starts all over",
        )


def _start(opened: OpenRepo, run: str, message: str, args: Namespace) -> int:
    if args.mirror:
        from holdfast.cli.mirror import start_mirror

        start_mirror(opened, run, args.mirror)
    if args.tick:
        from holdfast.cli.tick import start_ticking

        start_ticking(opened, run)
    say(message, args)
    args.accept_base = args.accept_base or args.yes
    return start_session(opened, run, args)


def _plan(args: Namespace, checkout: Path) -> tuple[Plan, str]:
    """Return the plan to run, and the source that the run remembers."""
    if args.workflow:
        from holdfast.cli.plan_workflows import plan_of_workflow

        return plan_of_workflow(args, checkout)
    if args.with_flags or args.without_flags or args.values:
        raise HoldfastError(
            "--with, --without and --set are for workflows, and none is named",
            "name one with --workflow; `holdfast plan workflows` lists them",
        )
    if args.goal is None and is_piped(args.plan):
        return plan_from_pipe(args.plan, args.agent, checkout), ""
    path = _plan_path(args, checkout)
    return load_plan(path, args.agent, checkout), source_of(path, checkout)


def _plan_path(args: Namespace, checkout: Path) -> Path:
    """Return the plan file. A goal in its place is planned first, unless there is a plan for it."""
    goal = goal_of(args)
    if goal is None:
        return find_plan(args.plan, checkout)
    from holdfast.cli.plan import plan_for_goal

    return plan_for_goal(goal, checkout, args)


def _print_plan(plan: Plan, args: Namespace, found: ReadOnlyRepo) -> int:
    """Show what a run of the plan would do, whole, and what it may take by the history of this repository."""
    from holdfast.reporting.notifications import without_secrets
    from holdfast.views.plan_text import estimate_lines, execution_plan, waves

    jobs = args.jobs or plan.limits.jobs
    estimate = estimate_run(plan, jobs, agent_histories(_earlier_spans(found)))
    executed = tuple(executed_by(plan, presets_of(found.checkout), found.checkout))
    if args.json:
        execution = {"waves": waves(plan), "executes": executed, "estimate": estimate}
        document = msgspec.to_builtins(without_secrets(plan)) | {"execution": execution}
        print(msgspec.json.encode(document, order="sorted").decode())
        return ExitCode.DONE
    items = [line for item in executed for line in wrapped(item, terminal_width(), "  ", "      ")]
    parts = [
        execution_plan(plan),
        "",
        *(["Everything that is executed or passed on:", *items, ""] if items else []),
    ]
    print("\n".join([*parts, *estimate_lines(estimate)]))
    return ExitCode.DONE


def _earlier_spans(found: ReadOnlyRepo) -> Iterator[list[AttemptSpan]]:
    """Yield the attempts of the latest runs of this repository, run by run."""
    for listing in found.runs()[-_RUNS_LOOKED_AT:]:
        recorded = found.require_journal().events(listing.row.run)
        yield attempt_spans(recorded, restart_below=0.0)


def _tell_of_completed(opened: OpenRepo, plan: Plan, args: Namespace) -> None:
    """Say that the very same plan was completed before, and on a terminal ask whether to do it all again."""
    digest = plan_hash(plan)
    rows = [listing.row for listing in opened.runs()]
    done = [row for row in rows if row.plan_hash == digest and row.status is RunStatus.COMPLETED]
    if not done:
        return
    row = done[-1]
    there = places_of_result(opened.checkout, row).branches
    where = f"its result is in {there[0]}" if there else f"`holdfast land {row.run}` merges its result"
    note(f"this plan was completed as run {row.run}; {where}.")
    if is_interactive() and not confirm("Do all of it again in a new run?", yes=args.yes):
        raise NeedsDecisionError("nothing was run", f"`holdfast review {row.run}` shows the result")


def _changed_plan(run: str) -> str:
    """Return what to say if the plan file was edited since, and nobody said that the run gets it."""
    return f" The plan file has changed since; the run goes on with the plan it has. `holdfast amend {run}` gives it the new one."


def _choice(opened: OpenRepo, unfinished: RunListing, args: Namespace, *, edited: bool) -> str:
    """Return what to do about an unfinished run of the plan: `c` continue it, `a` amend it first, `f` start fresh."""
    if args.yes or args.auto_continue:
        return "c"
    run = unfinished.row.run
    if is_interactive():
        return _ask_to_continue(opened, unfinished.row, edited=edited)
    row = unfinished.row
    ending = how_it_ended(row, held=False, boot_id=boot_id())
    ways = [
        f"`holdfast resume {run}` or --auto-continue continues it",
        f"`{command_for(unfinished.row.plan_source)} --fresh` abandons it and starts a new one",
    ]
    if edited:
        ways[:1] = [
            f"`holdfast amend {run}` gives it the edited plan",
            f"`holdfast resume {run}` continues it as it was",
        ]
    raise NeedsDecisionError(
        f"run {run} of this plan is unfinished ({ending_label(displayed_run_status(row, held=False), ending)})"
        + (", and the plan file has changed since" if edited else ""),
        "; ".join(ways),
    )


def _ask_to_continue(opened: OpenRepo, row: RunRow, *, edited: bool) -> str:
    """Show where a plan's unfinished run stands, and return what to do with it; quitting raises.

    Review and land come back to the question.
    """
    run = row.run
    status = current_status(opened, run)
    header = recovery_header(status.run, status.metrics.completed, status.metrics.tasks, terminal_width())
    amend = RecoveryChoice("a", "give it the edited plan, and continue", f"holdfast amend {run}")
    choices = (
        *((amend,) if edited else ()),
        RecoveryChoice("c", "continue it as it was" if edited else "continue it", f"holdfast resume {run}"),
        RecoveryChoice("v", "review what has landed", f"holdfast review {run}"),
        RecoveryChoice("l", "land (merge) what there is", f"holdfast land {run} --yes"),
        RecoveryChoice(
            "f", "start fresh; the old run is archived", f"{command_for(row.plan_source)} --fresh"
        ),
    )
    told = ["The plan file has changed since."] if edited else []
    print("\n".join([*header, *told, "", *choice_lines(choices, terminal_width())]))
    default = "a" if edited else "c"
    keys = "acvlfq" if edited else "cvlfq"
    question = f"{', '.join(keys[:-1])}, or q to quit [{default}]?"
    while (key := choose_key(question, keys, default=default)) in "vl":
        row = opened.journal.load(run).row
        if key == "v":
            print_review(opened, opened.repo, run)
        elif confirm(f"Merge what {run} has landed so far into {row.target or 'its branch'}?", yes=False):
            print(land_now(opened, row))
    if key == "q":
        raise NeedsDecisionError("nothing was done", f"`holdfast resume {run}` continues the run")
    return key
