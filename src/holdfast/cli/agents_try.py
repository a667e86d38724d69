"""`agents try NAME`: one tiny task for one agent, in a scratch repository, and what was read of its stream."""

from __future__ import annotations

import os
import shutil
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.agents.presets import Preset, agent_names, find_agent, missing_credentials, presets_of
from holdfast.cli.agents import checkout_here
from holdfast.cli.arguments import JSON, YES, Arguments, option, positional
from holdfast.cli.consent import show_agent
from holdfast.cli.installed_agents import ask_version
from holdfast.cli.output import note, show
from holdfast.cli.plan_file import load_plan
from holdfast.cli.prompts import require_yes
from holdfast.cli.sandbox_options import NETWORK, SANDBOX, asked_sandbox, tell_sandbox
from holdfast.core.outcome import OutcomeKind
from holdfast.core.plan import Plan
from holdfast.errors import (
    ExitCode,
    HoldfastError,
    MachineError,
    did_you_mean,
    quoted,
)
from holdfast.repo.files import remove_if_allowed
from holdfast.runner.agent_trial import TrialOrder, TriedAgent, try_agent
from holdfast.runner.sandbox_setting import SandboxSetting
from holdfast.runner.trial_folders import remove_leftovers, trial_folder
from holdfast.system_errors import doing
from holdfast.views.agent_trial import agent_trial_text, agent_trial_view
from holdfast.views.text import count

ARGUMENTS: Arguments = (
    positional("agent", "the agent to try: a known one, one of your agents.toml, or one of the plan"),
    option("--plan", "FILE", "the plan file that describes the agent"),
    option("--keep", "DIR", "leave the scratch repository there afterwards"),
    SANDBOX,
    NETWORK,
    YES,
    JSON,
)
_CODES: dict[str, ExitCode] = {
    OutcomeKind.DONE: ExitCode.DONE,
    OutcomeKind.FAILED: ExitCode.TASKS_FAILED,
    OutcomeKind.LIMITED: ExitCode.NEEDS_DECISION,
    OutcomeKind.BLOCKED: ExitCode.NEEDS_DECISION,
}


def execute(args: Namespace) -> int:
    """Let an agent write one line into a file, and tell how that was seen. The exit code is that of a run of one task."""
    name, checkout = args.agent, checkout_here()
    plan = load_plan(Path(args.plan), "", checkout or Path.cwd()) if args.plan else Plan(goal="")
    agent = _find(name, plan, checkout)
    settings = SandboxSetting.of_plan(plan)
    if removed := remove_leftovers():
        note(f"Removed what {count(removed, 'killed trial')} had left.")
    _require_agreement(name, agent, args)
    tell_sandbox(args, settings)
    version = ask_version(name, agent).version
    with _scratch_folder(args.keep) as folder:
        note(f"{name} works in {folder}; Ctrl-C ends it.")
        tried = _tried(folder, TrialOrder(name, agent, plan, asked_sandbox(args)))
        log = _kept_log(name, tried.output)
        kept = args.keep or ""
        view = agent_trial_view(name, agent.recorded, agent.stream, version, tried, str(log), kept)
    show(view, agent_trial_text, args)
    return _CODES.get(view.outcome, ExitCode.INTERRUPTED)


def _tried(folder: Path, order: TrialOrder) -> TriedAgent:
    """Try the agent. What stops a run has `resume` for a way out; a scratch repository, which goes, has another one."""
    try:
        return try_agent(folder, order)
    except HoldfastError as error:
        if "`holdfast resume" not in error.hint:
            raise
        hint = "remove the cause, or let the agent work elsewhere (`--keep DIR`, or TMPDIR), then try again"
        raise MachineError(error.message, hint) from error


def _find(name: str, plan: Plan, checkout: Path | None) -> Preset:
    """Return the agent that the user means. Raises HoldfastError if it is not known, or not installed."""
    presets = presets_of(checkout)
    agent = find_agent(name, plan.agents, presets)
    if agent is None or not agent.command:
        known = [*plan.agents, *agent_names(presets)]
        raise HoldfastError(
            f"there is no agent {quoted(name)}{did_you_mean(name, known)}",
            "`holdfast agents` lists those that are known; name the plan that describes yours with --plan",
        )
    if shutil.which(agent.needed_program) is None:
        raise HoldfastError(
            f"{name} starts {quoted(agent.needed_program)}, which is not on the PATH",
            f"install it: {agent.install}" if agent.install else "install it, or add its folder to PATH",
        )
    return agent


def _require_agreement(name: str, agent: Preset, args: Namespace) -> None:
    """Ask before a model is paid. An agent may have a login that its preset does not know of: that is only told."""
    if not args.yes:
        show_agent(name, agent)
    if missing := missing_credentials(agent, os.environ):
        note(f"{name} does not look ready: {missing}.")
    question = f"This costs a model call. Let {name} do one tiny task in a scratch repository?"
    require_yes(question, args, f"{name} was not started")


@contextmanager
def _scratch_folder(keep: str | None) -> Iterator[Path]:
    """Yield an empty folder. It is removed afterwards, unless the user named a place for it."""
    if keep is not None:
        folder = Path(keep).absolute()
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise HoldfastError(f"{folder} is not an empty folder", "name a new folder with --keep")
        with doing("make the scratch repository", folder):
            folder.mkdir(parents=True, exist_ok=True)
        yield folder
        return
    with trial_folder() as folder:
        try:
            yield folder
        finally:
            if not remove_if_allowed(folder):
                note(f"{folder} could not be removed as a whole.")


def _kept_log(name: str, output: bytes) -> Path:
    """Keep what the agent printed, in a file of its own: it was paid for."""
    safe = "".join(char if char.isalnum() or char in "-_" else "_" for char in name)
    with tempfile.NamedTemporaryFile(prefix=f"holdfast-try-{safe}-", suffix=".log", delete=False) as file:
        file.write(output)
    return Path(file.name)
