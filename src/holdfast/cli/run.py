"""`run`: start a plan, or continue an unfinished run of it."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import msgspec

from holdfast.agents.presets import presets_of
from holdfast.boot import boot_id
from holdfast.cli.arguments import Arguments, flag, option, positional
from holdfast.cli.consent import executed_by, require_consent
from holdfast.cli.filter_consent import ask_about_filters
from holdfast.cli.land import land_result
from holdfast.cli.open_repo import OpenRepo, ReadOnlyRepo, open_read_only, open_repo
from holdfast.cli.output import missing_runs_sentence, note, say
from holdfast.cli.plan_file import (
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
from holdfast.cli.run_session import SESSION_ARGUMENTS, abandon_run, start_session
from holdfast.cli.sandbox_options import choose_sandbox
from holdfast.cli.status import current_status
from holdfast.core.base_check import deserves_check
from holdfast.core.plan import Plan, plan_hash
from holdfast.errors import ExitCode, HoldfastError, NeedsDecisionError
from holdfast.formats.registry import SYSTEM_NAMES
from holdfast.journal.protocol import RunListing
from holdfast.repo.checkout import checkout_notices
from holdfast.repo.discovery import require_commit
from holdfast.repo.workspace_files import require_files
from holdfast.reporting.estimates import AttemptSpan, attempt_spans
from holdfast.reporting.run_estimate import agent_histories, estimate_run
from holdfast.runner.health import runs_missing_in_journal
from holdfast.runner.sandbox_setting import SandboxSetting
from holdfast.runner.session import create_run, unfinished_run
from holdfast.views.recovery_text import RecoveryChoice, choice_lines, recovery_header
from holdfast.views.status import ending_label, run_line
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
        return _print_plan(plan, args, read_only)
    require_commands(plan, checkout)
    sandbox = choose_sandbox(args, SandboxSetting.of_plan(plan))
    with open_repo(create=True) as found:
        opened = ask_about_filters(found)
        known = [listing.row.run for listing in opened.runs()]
        unfinished = unfinished_run(opened.journal, plan, source)
        if unfinished is not None:
            opened.require_free(unfinished.row.run)
            if not args.fresh and _wants_to_resume(opened, unfinished, args):
                stored = opened.journal.load(unfinished.row.run)
                require_consent(opened.journal, stored.plan, checkout, yes=args.yes)
                message = f"Resuming {unfinished.row.run}.{_changed_plan(unfinished, plan)}"
                return _start(opened, unfinished.row.run, message, args)
        for notice in checkout_notices(opened.repo):
            note(notice)
        if missing := runs_missing_in_journal(opened.repo, opened.journal):
            note(missing_runs_sentence(missing))
        require_files(opened.repo, plan.workspace, opened.repo.resolve(plan.base))
        require_consent(opened.journal, plan, checkout, yes=args.yes, sandbox=sandbox)
        if unfinished is not None:
            abandon_run(opened, unfinished.row.run, args)
        check_base = deserves_check(plan) and not args.no_preflight
        run = create_run(opened.repo, opened.journal, plan, source, known=known, check_base=check_base)
        return _start(opened, run, f"Run {run} starts.", args)


def _start(opened: OpenRepo, run: str, message: str, args: Namespace) -> int:
    if args.mirror:
        from holdfast.cli.mirror import start_mirror

        start_mirror(opened, run, args.mirror)
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
    executed = tuple(executed_by(plan, presets_of(found.checkout)))
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


def _changed_plan(unfinished: RunListing, plan: Plan) -> str:
    """Return what to say if the plan file was edited since: a run never changes its plan."""
    if unfinished.row.plan_hash == plan_hash(plan):
        return ""
    return " The plan file has changed since; the run keeps the plan it began with. `--fresh` starts the new one."


def _wants_to_resume(opened: OpenRepo, unfinished: RunListing, args: Namespace) -> bool:
    if args.yes or args.auto_continue:
        return True
    run = unfinished.row.run
    if is_interactive():
        return _ask_to_continue(opened, run)
    line = run_line(unfinished, held=False, boot_id=boot_id())
    raise NeedsDecisionError(
        f"run {run} of this plan is unfinished ({ending_label(line.status, line.ending)})",
        f"`holdfast resume {run}` or --auto-continue continues it; "
        "`holdfast run --fresh` abandons it and starts a new one",
    )


def _ask_to_continue(opened: OpenRepo, run: str) -> bool:
    """Show where a plan's unfinished run stands. Return True to continue it, False to start fresh; quitting raises.

    Review and land come back to the question.
    """
    status = current_status(opened, run)
    header = recovery_header(status.run, status.metrics.completed, status.metrics.tasks)
    choices = (
        RecoveryChoice("c", "continue it", f"holdfast resume {run}"),
        RecoveryChoice("v", "review what has landed", f"holdfast review {run}"),
        RecoveryChoice("l", "land (merge) what there is", f"holdfast land {run} --yes"),
        RecoveryChoice("f", "start fresh; the old run is archived", "holdfast run --fresh"),
    )
    print("\n".join([*header, "", *choice_lines(choices, terminal_width())]))
    while (key := choose_key("c, v, l, f, or q to quit [c]?", "cvlfq", default="c")) in "vl":
        row = opened.journal.load(run).row
        if key == "v":
            print_review(opened.repo, row)
        elif confirm(f"Merge what {run} has landed so far into {row.target or 'its branch'}?", yes=False):
            print(land_result(opened.repo, row, None))
    if key == "q":
        raise NeedsDecisionError("nothing was done", f"`holdfast resume {run}` continues the run")
    return key == "c"
