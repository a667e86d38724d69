"""`amend`: give a run that has begun the plan as it was edited. What landed stays."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from holdfast.agents.presets import presets_of
from holdfast.cli.arguments import JSON, RUN, YES, Arguments, flag, option, positional
from holdfast.cli.consent import agree_to_amendment
from holdfast.cli.open_repo import OpenRepo, ReadOnlyRepo, choose_run, open_read_only, open_repo
from holdfast.cli.output import as_json, say
from holdfast.cli.plan_file import load_plan, require_commands
from holdfast.core.amendment import amendment
from holdfast.core.plan import Plan
from holdfast.core.projection import RunRow
from holdfast.errors import ExitCode, HoldfastError
from holdfast.repo.workspace_files import require_files
from holdfast.runner.decisions.amend import (
    PlannedAmendment,
    amend_run,
    planned_amendment,
    require_unfinished,
)
from holdfast.runner.session import refuse_half_adopted
from holdfast.views.amendment import amendment_text, amendment_view

ARGUMENTS: Arguments = (
    RUN,
    positional("plan", "the edited plan file (the one that the run began with)", nargs="?"),
    flag("--restart", "stop agents at work on changed tasks, keep their work, and begin these again"),
    option("--agent", "A", "use this agent instead of the plan's default", default=""),
    flag("--dry-run", "show the difference and change nothing"),
    YES,
    JSON,
)


def execute(args: Namespace) -> int:
    """Give a run the plan as it was edited."""
    if args.dry_run:
        opened = open_read_only()
        row, path = _chosen(opened, args)
        state = opened.require_journal().load(row.run).state()
        planned = planned_amendment(state, load_plan(path, args.agent, opened.checkout), restart=args.restart)
        return _tell(row.run, planned, args, amended=False)
    with open_repo() as opened:
        row, path = _chosen(opened, args)
        wanted = load_plan(path, args.agent, opened.checkout)
        state = opened.journal.load(row.run).state()
        require_unfinished(row.run, state)
        planned = planned_amendment(state, wanted, restart=args.restart)
        if planned.is_empty:
            return _tell(row.run, planned, args, amended=False)
        by_runner = amend_to(opened, row.run, wanted, args, restart=args.restart)
        return _tell(row.run, planned, args, amended=True, by_runner=by_runner)


def amend_to(opened: OpenRepo, run: str, wanted: Plan, args: Namespace, *, restart: bool) -> bool:
    """Show the difference, ask, and give a run another plan; tell whether its live runner took it."""
    state = opened.journal.load(run).state()
    refuse_half_adopted(state.row)
    planned = planned_amendment(state, wanted, restart=restart)
    require_commands(planned.plan, opened.checkout)
    require_files(opened.repo, planned.plan.workspace, state.row.base)
    amendment(state, wanted, restart=restart)  # what would be refused is refused before anything is asked
    if not args.json:
        say(amendment_text(amendment_view(run, planned, restart=restart, amended=False)), args)
    agree_to_amendment(opened.journal, run, state.plan, wanted, planned.plan, opened.checkout, yes=args.yes)
    presets = presets_of(opened.checkout)
    return amend_run(opened.repo, opened.journal, presets, run, wanted, restart=restart)


def _chosen(opened: ReadOnlyRepo, args: Namespace) -> tuple[RunRow, Path]:
    """Return the run and the plan file. One word alone is a plan file if there is such a file, else a run."""
    run, plan = args.run, args.plan
    if plan is None and run is not None and Path(run).suffix and Path(run).is_file():
        run, plan = None, run
    row = choose_run(opened, run)
    if plan is not None:
        return row, Path(plan)
    source = opened.checkout / row.plan_source
    if not row.plan_source or row.origin is not None or not source.is_file():
        raise HoldfastError(
            f"there is no plan file that run {row.run} began with",
            f"name one: `holdfast amend {row.run} PLAN`",
        )
    return row, source


def _tell(
    run: str, planned: PlannedAmendment, args: Namespace, *, amended: bool, by_runner: bool = False
) -> int:
    view = amendment_view(run, planned, restart=args.restart, amended=amended, by_runner=by_runner)
    if args.json:
        print(as_json(view))
    elif amended:
        goes_on = "Its runner goes on with it." if by_runner else f"`holdfast resume {run}` continues it."
        print(f"{run} has the amended plan. {goes_on}")
    else:
        same = "" if planned.difference else f"{run} has this plan already."
        print("\n".join(filter(None, (same, amendment_text(view)))))
    return ExitCode.DONE
