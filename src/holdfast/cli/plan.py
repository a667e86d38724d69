"""`plan "goal"`: a planner agent writes the plan for a goal, never twice. `run` uses it for a goal in place of a file."""

from __future__ import annotations

import shutil
from argparse import Namespace
from pathlib import Path

import msgspec

from holdfast.agents.presets import Presets, agent_names, presets_of
from holdfast.cli.arguments import JSON, PLAN_OUTPUT, YES, Arguments, option, positional
from holdfast.cli.consent import require_planner_consent
from holdfast.cli.installed_agents import choose_agent
from holdfast.cli.output import say, show
from holdfast.cli.plan_file import one_line_goal, usual_plans
from holdfast.cli.prompts import confirm
from holdfast.cli.sandbox_options import NETWORK, SANDBOX, asked_sandbox, tell_sandbox
from holdfast.core.plan import Plan, plan_hash
from holdfast.errors import HoldfastError, MachineError, NeedsDecisionError
from holdfast.paths import StateDir
from holdfast.plans import parse_plan
from holdfast.plans.schema import schema_text
from holdfast.repo.discovery import find_repository
from holdfast.repo.files import write_durably
from holdfast.repo.repository import Repository
from holdfast.reporting.notifications import without_secrets
from holdfast.reporting.spending import Spending
from holdfast.runner.planner import Planned, PlanningOrder, known_plan, make_plan, plan_record
from holdfast.views.plan_text import execution_plan
from holdfast.views.spending_text import spending_words


class PlanResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `plan --json` prints. `tries` is 0 when the plan was there before."""

    path: str
    goal: str
    hash: str
    tries: int
    plan: Plan


ARGUMENTS: Arguments = (
    positional("goal", "the goal in words"),
    option("--agent", "A", "the agent that plans (the first one installed)", default=""),
    PLAN_OUTPUT,
    SANDBOX,
    NETWORK,
    YES,
    JSON,
)


def execute(args: Namespace) -> int:
    """Write a plan for a goal to a file, unless there is one already."""
    checkout = find_repository(Path.cwd()).checkout
    goal, target = one_line_goal(args.goal), Path(args.output)
    planned = known_plan(target, goal, _read)
    if planned is None:
        _require_replace(target, args)
        planned = _plan_once(checkout, goal, args)
        _write(target, planned.path.read_bytes())
    if not planned.tries:
        say(f"There is a plan for this goal already ({planned.path}); it is not planned again.", args)
    plan = planned.plan
    result = PlanResult(
        path=str(target),
        goal=plan.goal,
        hash=plan_hash(plan),
        tries=planned.tries,
        plan=without_secrets(plan),
    )
    start = f"It is in {target}. Read it, edit it, and start it: `holdfast run {target}`."
    return show(result, lambda _: f"{execution_plan(plan)}\n\n{start}", args)


def plan_for_goal(goal: str, checkout: Path, args: Namespace) -> Path:
    """Return a file with a plan for a goal: one of the usual names, the recorded one, or a planner's new one."""
    usual = (known_plan(path, goal, _read) for path in usual_plans(checkout))
    known = next(filter(None, usual), None)
    planned = known or _plan_once(checkout, goal, args)
    if planned.tries:
        say(execution_plan(planned.plan), args)
    else:
        say(f"Using the existing plan for this goal ({planned.path}).", args)
    return planned.path


def plan_for_specification(name: str, text: str, checkout: Path, args: Namespace) -> Plan:
    """Return the plan for a specification: the recorded one if its text is unchanged, else a new one."""
    planned = _plan_once(checkout, f"Implement the specification {name}", args, text)
    if not planned.tries:
        say(f"There is a plan for {name} already ({planned.path}); it is not planned again.", args)
    return planned.plan


def _plan_once(checkout: Path, goal: str, args: Namespace, specification: str = "") -> Planned:
    """Return the recorded plan for a goal, or let the planner write one; a dry run starts no planner."""
    known = known_plan(plan_record(StateDir.of_checkout(checkout), goal, specification), goal, _read)
    if known is not None:
        return known
    presets = presets_of(checkout)
    agent = choose_planner(args.agent, presets)
    if getattr(args, "dry_run", False):
        raise NeedsDecisionError(
            f"there is no plan for this goal yet; {agent} would write one", "leave out --dry-run to let it"
        )
    order = PlanningOrder(
        goal=goal,
        agent=agent,
        spec=presets[agent],
        schema=schema_text(),
        read=_read,
        specification=specification,
        sandbox=asked_sandbox(args),
    )
    return ask_planner(order, presets, args)


def choose_planner(named: str, presets: Presets) -> str:
    """Return the agent that plans: the named one, else the first installed. Raises HoldfastError if it cannot be started."""
    agent = choose_agent(named, presets)
    if shutil.which(presets[agent].needed_program) is None:
        raise HoldfastError(
            f"{agent} is not on the PATH, so nobody can plan",
            f"install one of {', '.join(agent_names(presets))}; `holdfast init` needs none",
        )
    return agent


def ask_planner(order: PlanningOrder, presets: Presets, args: Namespace) -> Planned:
    """Let a planner answer, if the user agrees to it, and tell what that cost as far as the planner says."""
    require_planner_consent(order.agent, presets, yes=args.yes)
    tell_sandbox(args, order.sandbox_of_plan, order.sandbox_before)
    planned = make_plan(Repository.open(Path.cwd()), order, lambda text: say(text, args))
    used = Spending(tokens=planned.spent.tokens or None, cost_usd=planned.spent.cost_usd or None)
    if words := spending_words(used):
        say(f"{order.agent} used {words}.", args)
    return planned


def _read(data: bytes) -> Plan:
    return parse_plan(data, "plan.yaml", agent_names(presets_of(find_repository(Path.cwd()).checkout)))


def _require_replace(target: Path, args: Namespace) -> None:
    """Ask before the planner costs anything, not after."""
    if target.exists() and not confirm(
        f"{target} exists and is not a plan for this goal. Replace it?", yes=args.yes
    ):
        raise NeedsDecisionError(
            f"{target} was not changed; nothing was planned", "name another file with -o, or use --yes"
        )


def _write(target: Path, content: bytes) -> None:
    """Write the whole plan or nothing. Idempotent."""
    try:
        write_durably(target, content)
    except OSError as error:
        raise MachineError(
            f"could not write the plan: {target}: {error.strerror}",
            "the plan is recorded: name a file that you can write to with -o and run the command again",
        ) from error
