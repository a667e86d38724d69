"""The user's consent: everything that a plan would run is shown whole, with what changed since the last time, then asked.

This is the only place that records an agreement.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from holdfast.agents.consent import agents_used, consent_digest, planner_digest
from holdfast.agents.invocation import argv_of
from holdfast.agents.presets import Preset, Presets, presets_of, require_agents
from holdfast.cli.open_repo import open_repo
from holdfast.cli.prompts import confirm, is_interactive
from holdfast.core.plan import Plan
from holdfast.core.state import RunState
from holdfast.core.status import NetworkAccess
from holdfast.errors import NeedsDecisionError
from holdfast.journal.protocol import Journal
from holdfast.paths import StateDir
from holdfast.redaction import redact
from holdfast.repo.workspace_files import place_outside
from holdfast.reporting.notifications import displayed_webhook
from holdfast.runner.environment import withheld_variables
from holdfast.runner.sandbox_setting import SandboxSetting
from holdfast.views.plan_text import commands_of, notice_command
from holdfast.views.terminal import flush_output, terminal_width
from holdfast.views.text import command_line, count, one_line, wrapped

_NEW, _SAME = "+ ", "  "


def require_consent(
    journal: Journal, plan: Plan, checkout: Path, *, yes: bool, sandbox: SandboxSetting | None = None
) -> None:
    """Make sure that the user agreed to exactly this plan and these agents. If that is on record, nothing is asked.

    `sandbox` is what will be in force, if that is known by now.
    """
    presets = presets_of(checkout)
    require_agents(plan, presets)
    if is_agreed(journal, plan, presets, checkout):
        return
    digest = consent_digest(plan, presets)
    if not yes:
        show_consent(plan, presets, checkout, sandbox)
    if not yes and not is_interactive():
        raise NeedsDecisionError(
            f"plan {digest[:12]} needs your approval, and there is no terminal to ask on",
            "read it, then use --yes: what it runs can do all that its sandbox allows, and without one all that you can",
        )
    if not confirm("Run this plan?", yes=yes):
        raise NeedsDecisionError(
            "you did not agree to the plan; nothing was run", "`--dry-run` shows what it would do"
        )
    record_consent(journal, plan, presets, checkout)


def is_agreed(journal: Journal, plan: Plan, presets: Presets, checkout: Path) -> bool:
    """Tell whether the user agreed to this plan, to these agents, and to where links out of the checkout lead by now."""
    return all(map(journal.is_confirmed, _digests(plan, presets, checkout)))


def agree_to_amendment(
    journal: Journal, state: RunState, wanted: Plan, amended: Plan, checkout: Path, *, yes: bool
) -> None:
    """Ask whether a run gets another plan, and show what it would run that its plan did not. Raises NeedsDecisionError if not.

    `wanted` is the plan as it was edited, `amended` the one that the run gets: with what landed as it landed. The run
    starts that with the agents that were chosen for single tasks. If the user agreed to them, they need no new agreement.
    """
    presets, run = presets_of(checkout), state.row.run
    require_agents(amended, presets)
    before, agreed = state.plan, [wanted, amended]
    if journal.is_confirmed(consent_digest(state.plan_as_run(), presets)):
        before, agreed = state.plan_as_run(), [*agreed, state.plan_as_run(amended)]
    # An agent of the user's files, or a link, may be another than when the user agreed: then all of it is shown.
    is_known = is_agreed(journal, before, presets, checkout)
    known = list(executed_by(before, presets, checkout)) if is_known else []
    new = [item for item in executed_by(agreed[-1], presets, checkout) if item not in known]
    if new and not yes:
        _print(
            ["New in what it runs:" if is_known else "What it runs, to which you have not agreed yet:"], new
        )
    if not yes and not is_interactive():
        raise NeedsDecisionError(
            f"amending run {run} needs your approval, and there is no terminal to ask on",
            "read the difference, then use --yes: what the plan runs can do all that its sandbox allows",
        )
    if not confirm(f"Amend {run} so?", yes=yes):
        raise NeedsDecisionError(
            "you did not agree; the run keeps its plan", "`--dry-run` shows the difference"
        )
    for plan in agreed:
        record_consent(journal, plan, presets, checkout)


def require_planner_consent(agent: str, presets: Presets, *, yes: bool) -> None:
    """Make sure that the user agreed to an agent of the agents' files before it is started to write a plan."""
    if digest := planner_digest(agent, presets):
        with open_repo(create=True) as opened:
            _require_planner(opened.journal, digest, agent, presets, yes=yes)


def _require_planner(journal: Journal, digest: str, agent: str, presets: Presets, *, yes: bool) -> None:
    if journal.is_confirmed(digest):
        return
    if not yes:
        _print(
            [f"{agent} is defined in your agents.toml or in the plan, or changed there:"],
            [*_agent(agent, presets[agent])],
        )
    if not confirm(f"Start {agent} to write the plan?", yes=yes):
        raise NeedsDecisionError(
            f"you did not agree to start {agent}; nothing was planned",
            "read how it is defined, then use --yes, or choose another agent with --agent",
        )
    journal.confirm_plan(digest, time.time())


def show_agent(name: str, agent: Preset) -> None:
    """Print how an agent is started and what it gets, on standard error."""
    _print([], [*_agent(name, agent)])


def show_consent(plan: Plan, presets: Presets, checkout: Path, sandbox: SandboxSetting | None = None) -> None:
    """Print everything that a plan would run, on standard error; what is new since the last agreement has a `+`."""
    tasks = sum(len(stage.tasks) for stage in plan.stages)
    sizes = f"{count(tasks, 'task')} in {count(len(plan.stages), 'stage')}, {count(plan.limits.jobs, 'job')} at a time."
    items = list(executed_by(plan, presets, checkout))
    agreed = _agreed_before(plan, checkout)
    inside = [f"Sandbox: {sandbox.level}, network: {sandbox.network}."] if sandbox else []
    _print([f"Goal: {one_line(plan.goal)}", sizes, *inside], items, agreed)
    if withheld := withheld_variables(plan.pass_env):
        _print([], [f"not passed, because of credentials in them: {', '.join(withheld)}"])
    gone = [one for one in agreed if one not in items]
    if gone:
        _print(["Since you last agreed, `+` is new, and this is gone:"], gone)
    elif agreed and any(item not in agreed for item in items):
        _print(["Since you last agreed, `+` is new."], [])


def show_commands(plan: Plan) -> None:
    """Print the commands of a plan, on standard error, if it has any: those of another system's files, before they are adopted."""
    items = list(_commands(plan))
    _print(["A run of it would ask you about these commands:"] if items else [], items)


def record_consent(journal: Journal, plan: Plan, presets: Presets, checkout: Path) -> None:
    """Record that the user agreed to the plan, and keep what was shown, to tell the next time what changed."""
    for digest in _digests(plan, presets, checkout):
        journal.confirm_plan(digest, time.time())
    path = _record(plan, checkout)
    with suppress(OSError):  # the agreement stands without it
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(executed_by(plan, presets, checkout)), encoding="utf-8", errors="replace")


def _print(head: list[str], items: list[str], agreed: list[str] | None = None) -> None:
    """Print lines, and items that are wrapped and never cut."""
    lines = list(head)
    for item in items:
        mark = _NEW if agreed and item not in agreed else _SAME
        lines += wrapped(item, terminal_width(), mark, "      ")
    if lines:
        flush_output()
        print("\n".join(lines), file=sys.stderr)


def executed_by(plan: Plan, presets: Presets, checkout: Path) -> Iterator[str]:
    """Yield everything that a plan would run or pass on, each as one line of any length."""
    for name, agent in agents_used(plan, presets).items():
        yield from _agent(name, agent)
    if plan.pass_env:
        yield f"every agent and check may see your variables: {command_line(', '.join(plan.pass_env))}"
    yield from _brought(plan, checkout)
    if (asked := SandboxSetting.of_plan(plan)) != SandboxSetting():
        network = "" if asked.network is NetworkAccess.ON else f", network: {asked.network}"
        yield f"asks for at least this sandbox: {asked.level}{network}"
    if plan.network.allow:
        yield f"agents and checks may reach: {command_line(', '.join(plan.network.allow))}"
    if plan.notify.webhook:
        yield f"posts to: {command_line(displayed_webhook(plan.notify.webhook))}"
    if plan.task_list is not None and plan.task_list.tick:
        yield f"ticks what lands in this file of your checkout: {command_line(plan.task_list.path)}"
    if notice := notice_command(plan):
        yield f"runs outside of any sandbox, with your permissions: {command_line(redact(notice))}"
    yield from _commands(plan)


def _brought(plan: Plan, checkout: Path) -> Iterator[str]:
    """Yield what workspaces get of the user's checkout, where links lead out of it, and the variables of the plan."""
    setting = plan.workspace
    if setting.copy:
        yield f"every agent and check gets a copy of these of your checkout: {command_line(', '.join(setting.copy))}"
    if setting.link:
        yield f"every agent and check sees these of your checkout: {command_line(', '.join(setting.link))}"
    yield from _links_out(plan, checkout)
    for variable, value in setting.env.items():
        yield f"every agent and check gets: {command_line(redact(f'{variable}={value}'))}"


def _links_out(plan: Plan, checkout: Path) -> Iterator[str]:
    """Yield where each link leads that takes what workspaces get out of the checkout."""
    for path in (*plan.workspace.copy, *plan.workspace.link):
        if place := place_outside(checkout, path):
            yield f"{command_line(path)} is a link out of your checkout, to {command_line(str(place))}"


def _digests(plan: Plan, presets: Presets, checkout: Path) -> Iterator[str]:
    """Yield the digests of all that the user agrees to: the plan with its agents, and where links out of the checkout lead."""
    import hashlib

    yield consent_digest(plan, presets)
    for where in _links_out(plan, checkout):
        yield hashlib.sha256(where.encode("utf-8", "surrogateescape")).hexdigest()


def _commands(plan: Plan) -> Iterator[str]:
    return (f"runs: {command_line(redact(command))}" for command in commands_of(plan))


def _agent(name: str, agent: Preset) -> Iterator[str]:
    who = f"agent {command_line(name)}"
    yield f"{who} starts: {_words(argv_of(agent, agent.command))}"
    if agent.resume:
        yield f"{who} resumes a session with: {_words(argv_of(agent, agent.resume))}"
    for variable, value in agent.env.items():
        yield f"{who} gets: {command_line(redact(f'{variable}={value}'))}"
    if agent.pass_env:
        yield f"{who} may see your variables: {command_line(', '.join(agent.pass_env))}"
    if agent.hosts:
        yield f"{who} may reach, where the network is an allow-list: {command_line(', '.join(agent.hosts))}"
    if files := dict.fromkeys((*agent.credentials, *agent.home)):
        yield f"{who} has your logins and settings: {command_line(', '.join(files))}"


def _words(argv: tuple[str, ...]) -> str:
    import shlex

    return command_line(redact(shlex.join(argv)))


def _record(plan: Plan, checkout: Path) -> Path:
    import hashlib

    name = hashlib.sha256(plan.goal.encode("utf-8", "surrogateescape")).hexdigest()[:16]
    return StateDir.of_checkout(checkout).agreements / f"{name}.txt"


def _agreed_before(plan: Plan, checkout: Path) -> list[str]:
    """Return what was shown when the user last agreed to a plan with this goal; empty if never."""
    try:
        return _record(plan, checkout).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []
