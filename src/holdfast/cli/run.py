"""`run` and `resume`: starting a plan, and carrying on with what was started."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from holdfast.cli.open_repo import OpenRepo, choose_run, open_read_only, open_repo
from holdfast.cli.plan_file import (
    find_plan,
    is_piped,
    load_plan,
    plan_from_pipe,
    require_commands,
    require_consent,
    source_of,
)
from holdfast.cli.prompts import confirm, is_interactive
from holdfast.cli.resume import preview_rewind, rewind_and_resume
from holdfast.cli.run_session import run_in_background, run_in_foreground, say
from holdfast.cli.status import as_json
from holdfast.core.plan import Plan, plan_hash
from holdfast.core.status import RunStatus
from holdfast.errors import HoldfastError, LeaseHeldError, NeedsDecisionError
from holdfast.journal.lease import boot_id
from holdfast.journal.protocol import RunListing
from holdfast.repo.discovery import require_commit
from holdfast.repo.repository import Repository
from holdfast.runner.decisions.user_decisions import abandon, waive_gates
from holdfast.runner.recovery.invariant_evidence import runs_missing_in_journal
from holdfast.runner.session import (
    RunOptions,
    create_run,
    refuse_half_adopted,
    remove_leftovers,
    unfinished_run,
)
from holdfast.views.event_text import plain_lines
from holdfast.views.status import ending_label, run_line


def run(args: argparse.Namespace) -> int:
    """Start a plan, or carry on an unfinished run of it."""
    checkout = open_read_only().checkout
    plan, source = _meant(args, checkout)
    if args.dry_run:
        require_commit(Path.cwd(), plan.base)
        return _show_plan(plan, args)
    require_commands(plan, checkout)
    with open_repo(create=True) as place:
        unfinished = _unfinished(place, plan, source)
        if unfinished is not None and not args.fresh and _wants_to_resume(place, unfinished, args):
            _keep_mirror(place, unfinished.row.run, args)
            say(f"Resuming {unfinished.row.run}.{_plan_kept(unfinished, plan)}", args)
            return _carry_on(place, unfinished.row.run, args, _choices(args))
        for notice in place.repo.notices():
            print(f"Note: {notice}", file=sys.stderr)
        if forgotten := runs_missing_in_journal(place.repo, place.journal):
            names = ", ".join(forgotten)
            print(
                f"Note: git knows {names}, the journal does not: `holdfast rebuild` brings it back.",
                file=sys.stderr,
            )
        place.repo.resolve(plan.base)
        require_consent(place.journal, plan, checkout, yes=args.yes)
        if unfinished is not None:
            _give_up(place, unfinished.row.run, args)
        name = create_run(place.repo, place.journal, plan, source)
        _keep_mirror(place, name, args)
        say(f"Run {name} begins.", args)
        return _carry_on(place, name, args, _choices(args))


def _keep_mirror(place: OpenRepo, name: str, args: argparse.Namespace) -> None:
    if args.mirror:
        from holdfast.cli.mirror import keep_mirror

        keep_mirror(place, name, args.mirror)


def _meant(args: argparse.Namespace, checkout: Path) -> tuple[Plan, str]:
    """Return the plan that is meant, and how a run remembers where it came from."""
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
    path = _path_of_plan(args, checkout)
    return load_plan(path, args.agent, checkout), source_of(path, checkout)


def _path_of_plan(args: argparse.Namespace, checkout: Path) -> Path:
    """Return the plan file that is meant. A goal in its place is planned first, unless it was before."""
    if args.goal is None and (args.plan is None or " " not in args.plan):
        return find_plan(args.plan, checkout)
    from holdfast.cli.plan import goal_of, plan_for_goal

    goal = goal_of(args)
    return find_plan(args.plan, checkout) if goal is None else plan_for_goal(goal, checkout, args)


def resume(args: argparse.Namespace) -> int:
    """Carry an unfinished run on. One that is completed needs nothing, which is no error."""
    if args.dry_run:
        return _show_report(args)
    with open_repo() as place:
        listing = choose_run(place.journal.runs(), args.run)
        name, status = listing.row.run, listing.row.status
        if status is RunStatus.ABANDONED:
            raise _was_abandoned(name)
        if at := args.begin_at or args.restart_stage:
            _refuse_if_held(place, listing)
            _require_consent(place, name, args)
            return _carry_on(place, rewind_and_resume(place, name, at, args), args, _choices(args))
        if status is RunStatus.COMPLETED and not args.land:
            remove_leftovers(place.repo, name)
            say(f"Run {name} is completed; there is nothing to resume.", args)
            return 0
        if args.accept and waive_gates(place.repo, place.journal, name, args.accept.split(",")):
            say(f"Asked the runner of {name}. `holdfast status {name}` shows what it does.", args)
            return 0
        _refuse_if_held(place, listing)
        _require_consent(place, name, args)
        return _resume_as_chosen(place, name, args)


def _require_consent(place: OpenRepo, name: str, args: argparse.Namespace) -> None:
    plan = place.journal.load(name).plan
    require_consent(place.journal, plan, place.repo.checkout, yes=args.yes)


def _resume_as_chosen(place: OpenRepo, name: str, args: argparse.Namespace) -> int:
    """Carry a run on as the flags say; on a terminal, without any, the user chooses with one key."""
    from holdfast.cli.recovery_prompt import ask_how_to_resume, restart_failed

    decided = args.yes or args.json or args.only or args.failed_only or args.accept
    key = ask_how_to_resume(place, name) if is_interactive() and not decided else "r"
    if key == "a":
        if not confirm(f"Give {name} up? Its branch and snapshots stay.", yes=False):
            raise NeedsDecisionError("nothing was done", f"`holdfast resume {name}` carries the run on")
        _give_up(place, name, args)
        return 0
    only = frozenset(args.only.split(",")) if args.only else None
    if key == "f" or args.failed_only:
        only = restart_failed(place, name)
    return _carry_on(place, name, args, _choices(args, only))


def _choices(args: argparse.Namespace, only: frozenset[str] | None = None) -> RunOptions:
    return RunOptions(
        jobs=args.jobs,
        only=only,
        native_resume=args.native_resume,
        tokens=args.tokens,
        cost_usd=args.cost_usd,
    )


def _carry_on(place: OpenRepo, name: str, args: argparse.Namespace, choices: RunOptions) -> int:
    if not args.detach:
        return run_in_foreground(place, name, choices, args)
    arguments = ["--jobs", str(choices.jobs)] if choices.jobs else []
    arguments += ["--only", ",".join(sorted(choices.only))] if choices.only else []
    arguments += ["--land"] if args.land else []
    arguments += ["--native-resume"] if choices.native_resume else []
    arguments += ["--tokens", str(choices.tokens)] if choices.tokens else []
    arguments += ["--cost-usd", str(choices.cost_usd)] if choices.cost_usd else []
    return run_in_background(place, name, arguments, args)


def _unfinished(place: OpenRepo, plan: Plan, source: str) -> RunListing | None:
    """Return the latest unfinished run of this plan: the same content, or the same file with other content."""
    found = unfinished_run(place.journal, plan, source)
    if found is not None:
        _refuse_if_held(place, found)
    return found


def _was_abandoned(name: str) -> HoldfastError:
    return HoldfastError(f"run {name} was abandoned", "`holdfast run` starts its plan anew")


def _plan_kept(unfinished: RunListing, plan: Plan) -> str:
    """Return what must be said when the file was edited since: a run never changes its plan on the way."""
    if unfinished.row.plan_hash == plan_hash(plan):
        return ""
    return " The plan file has changed since; the run keeps the plan it began with. `--fresh` starts the new one."


def _refuse_if_held(place: OpenRepo, listing: RunListing) -> None:
    name = listing.row.run
    if (held := place.holder(name)) is not None:
        raise LeaseHeldError(
            f"run {name} is held by another runner: {held}",
            f"`holdfast status {name}` shows what it does; `holdfast stop {name}` ends it",
        )


def _wants_to_resume(place: OpenRepo, unfinished: RunListing, args: argparse.Namespace) -> bool:
    name = unfinished.row.run
    if args.yes or args.auto_continue:
        return True
    if is_interactive():
        from holdfast.cli.recovery_prompt import ask_about_unfinished

        return ask_about_unfinished(place, name) == "c"
    held = run_line(unfinished, held=False, boot_id=boot_id())
    raise NeedsDecisionError(
        f"run {name} of this plan is unfinished ({ending_label(held.status, held.ending)})",
        f"`holdfast resume {name}` or --auto-continue carries it on; "
        "`holdfast run --fresh` gives it up and starts anew",
    )


def _give_up(place: OpenRepo, name: str, args: argparse.Namespace) -> None:
    abandon(place.repo, place.journal, name, plain_lines(sys.stderr))
    say(f"Gave up {name}; its branch and refs stay.", args)


def _show_plan(plan: Plan, args: argparse.Namespace) -> int:
    from holdfast.core.plan import encode_plan
    from holdfast.reporting.notifications import without_secrets
    from holdfast.views.plan_text import execution_plan

    print(encode_plan(without_secrets(plan)).decode() if args.json else execution_plan(plan))
    return 0


def _show_report(args: argparse.Namespace) -> int:
    """Say where a run stands and what resuming would do to each task. Everything is only looked at."""
    from holdfast.cli.resume import show_preview
    from holdfast.views.recovery_text import recovery_text
    from holdfast.views.terminal import terminal_width

    place = open_read_only()
    journal = place.require_journal()
    row = choose_run(journal.runs(), args.run).row
    name = row.run
    if row.status is RunStatus.ABANDONED:
        raise _was_abandoned(name)
    refuse_half_adopted(row)
    if at := args.begin_at or args.restart_stage:
        return preview_rewind(Repository.open(place.checkout), journal, name, at, args)
    view = show_preview(Repository.open(place.checkout), journal, name, args)
    print(as_json(view) if args.json else recovery_text(view, terminal_width()))
    return 0
