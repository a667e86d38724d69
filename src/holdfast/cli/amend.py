"""`amend`: give a run that has begun the plan as it was edited, or as a planner changes it for a goal. What landed stays."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from holdfast.agents.presets import presets_of
from holdfast.cli.arguments import JSON, RUN, YES, Arguments, flag, option, positional
from holdfast.cli.consent import agree_to_amendment
from holdfast.cli.open_repo import OpenRepo, choose_run, open_repo
from holdfast.cli.output import as_json, for_people, say
from holdfast.cli.plan_file import (
    is_goal,
    is_piped,
    load_plan,
    one_line_goal,
    plan_from_pipe,
    require_commands,
    shown_path,
)
from holdfast.cli.sandbox_options import NETWORK, SANDBOX, asked_sandbox
from holdfast.core.amendment import amendment
from holdfast.core.plan import Plan
from holdfast.core.projection import RunRow
from holdfast.core.state import RunState
from holdfast.errors import ExitCode, HoldfastError
from holdfast.repo.workspace_files import require_files
from holdfast.runner.decisions.amend import (
    PlannedAmendment,
    amend_run,
    planned_amendment,
    require_unfinished,
)
from holdfast.runner.plan_files import own_plan_file
from holdfast.runner.planner import Planned
from holdfast.runner.sandbox_setting import SandboxRequest
from holdfast.runner.session import refuse_incomplete
from holdfast.views.amendment import amendment_text, amendment_view
from holdfast.views.read_only_repo import ReadOnlyRepo, open_read_only

ARGUMENTS: Arguments = (
    RUN,
    positional(
        "plan",
        "the edited plan file (the one that the run began with), - for standard input, or a goal in words",
        nargs="?",
    ),
    option("--goal", "TEXT", "let a planner change the run's plan so that it also does this"),
    flag("--restart", "stop agents at work on changed tasks, keep their work, and begin these again"),
    option(
        "--agent",
        "A",
        "use this agent instead of the plan's default; with a goal, the agent that plans",
        default="",
    ),
    SANDBOX,
    NETWORK,
    flag("--dry-run", "show the difference and change nothing; a planner works, and its answer is kept"),
    YES,
    JSON,
)


def execute(args: Namespace) -> int:
    """Give a run the plan as it was edited, or as a planner changes it for a goal."""
    goal = _goal(args)
    if args.dry_run and goal is None:
        read_only = open_read_only()
        row, wanted = _chosen(read_only, args)
        state = read_only.require_journal().load(row.run).state()
        return _show(state, wanted, args)
    with open_repo() as opened:
        if goal is None:
            row, wanted = _chosen(opened, args)
            return _amend(opened, row.run, wanted, args)
        from holdfast.cli.amend_goal import plan_changed_for

        state = opened.journal.load(choose_run(opened, args.run).run).state()
        require_unfinished(state.row.run, state)
        refuse_incomplete(state.row)
        answer = plan_changed_for(goal, opened, state, args)
        return _amend(opened, state.row.run, answer.plan, args, answer)


def _amend(opened: OpenRepo, run: str, wanted: Plan, args: Namespace, answer: Planned | None = None) -> int:
    """Give a run another plan, if it is one. A planner's answer is written for people first."""
    state = opened.journal.load(run).state()
    require_unfinished(run, state)
    planned = planned_amendment(state, wanted, restart=args.restart)
    if planned.is_empty or args.dry_run:
        return _show(state, wanted, args, answer)
    _agree(opened, run, wanted, args, restart=args.restart)
    if answer is not None:
        from holdfast.cli.amend_goal import write_for_people

        answer = write_for_people(opened, run, answer)
    by_runner = amend_run(
        opened.repo, opened.journal, presets_of(opened.checkout), run, wanted, restart=args.restart
    )
    return _tell(run, planned, args, amended=True, by_runner=by_runner, answer=answer)


def _show(state: RunState, wanted: Plan, args: Namespace, answer: Planned | None = None) -> int:
    """Show the difference, and change nothing. What would be refused is refused here, too."""
    planned = planned_amendment(state, wanted, restart=args.restart)
    code = _tell(state.row.run, planned, args, answer=answer)
    amendment(state, wanted, restart=args.restart)
    return code


def amend_to(opened: OpenRepo, run: str, wanted: Plan, args: Namespace) -> None:
    """Show the difference, ask, and give a run another plan."""
    _agree(opened, run, wanted, args, restart=False)
    amend_run(opened.repo, opened.journal, presets_of(opened.checkout), run, wanted, restart=False)


def _agree(opened: OpenRepo, run: str, wanted: Plan, args: Namespace, *, restart: bool) -> None:
    """Show the difference and ask. What would be refused is refused before that."""
    state = opened.journal.load(run).state()
    refuse_incomplete(state.row)
    planned = planned_amendment(state, wanted, restart=restart)
    require_commands(planned.plan, opened.checkout)
    require_files(opened.repo, planned.plan.workspace, state.row.base)
    require_files(opened.repo, planned.plan.workspace, state.row.tip)
    amendment(state, wanted, restart=restart)
    if not args.json:
        say(amendment_text(amendment_view(run, planned, restart=restart, amended=False)), args)
    agree_to_amendment(opened.journal, state, wanted, planned.plan, opened.checkout, yes=args.yes)


def _goal(args: Namespace) -> str | None:
    """Return the goal for a planner, or None: that of --goal, or words in the place of RUN or PLAN, which are then empty."""
    if args.goal is None and is_goal(args.plan):
        args.goal, args.plan = args.plan, None
    elif args.goal is None and is_goal(args.run):
        args.goal, args.run = args.run, args.plan
        args.plan = None
    if args.goal is not None and args.plan is not None:
        raise HoldfastError(
            "a planner changes the plan that the run has, not a file",
            f"`holdfast amend {args.run} {args.plan}` first, then give the goal",
        )
    if args.goal is None and asked_sandbox(args) != SandboxRequest():
        raise HoldfastError(
            "the sandbox that is asked for here is that of a planner, and there is no goal for one",
            'add `--goal "TEXT"`; for the run itself, `holdfast resume --sandbox LEVEL`',
        )
    return None if args.goal is None else one_line_goal(args.goal)


def _chosen(opened: ReadOnlyRepo, args: Namespace) -> tuple[RunRow, Plan]:
    """Return the run and the plan for it. One word alone is a plan file or a pipe if it is named like one, else a run."""
    run, plan = args.run, args.plan
    if plan is None and run is not None and (Path(run).suffix or is_piped(run)):
        run, plan = None, run
    row = choose_run(opened, run)
    if is_piped(plan):
        return row, plan_from_pipe(plan, args.agent, opened.checkout)
    path = Path(plan) if plan is not None else _own_file(opened.checkout, row)
    return row, load_plan(path, args.agent, opened.checkout)


def _own_file(checkout: Path, row: RunRow) -> Path:
    """Return the plan file that a run began with. Raises HoldfastError if there is none."""
    own = own_plan_file(row)
    if not own:
        raise HoldfastError(
            f"run {row.run} began with no plan file", f"name one: `holdfast amend {row.run} PLAN`"
        )
    if not (checkout / own).is_file():
        raise HoldfastError(
            f"the plan file that run {row.run} began with is gone: {own}",
            f"name another: `holdfast amend {row.run} PLAN`",
        )
    return Path(shown_path(checkout / own))


def _tell(
    run: str,
    planned: PlannedAmendment,
    args: Namespace,
    *,
    amended: bool = False,
    by_runner: bool = False,
    answer: Planned | None = None,
) -> int:
    path = shown_path(answer.path) if answer else ""
    view = amendment_view(run, planned, restart=args.restart, amended=amended, by_runner=by_runner, path=path)
    if args.json:
        print(as_json(view))
    elif amended:
        where = f"; {path} holds it" if path else ""
        goes_on = "Its runner goes on with it." if by_runner else f"`holdfast resume {run}` continues it."
        print(for_people(f"{run} has the amended plan{where}. {goes_on}"))
    else:
        same = "" if planned.difference else f"{run} has this plan already."
        print("\n".join(filter(None, (same, amendment_text(view)))))
    return ExitCode.DONE
