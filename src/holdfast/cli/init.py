"""`init`: a starter plan that is valid, commented, and uses an agent that is installed here."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from holdfast.agents.presets import presets_of
from holdfast.cli.arguments import Arguments, positional
from holdfast.cli.installed_agents import find_installed_agents
from holdfast.cli.project_tools import Proposal, propose
from holdfast.errors import ExitCode, HoldfastError
from holdfast.repo.files import write_durably
from holdfast.repo.repository import Repository
from holdfast.system_errors import doing

_HEAD = """\
# A plan for Holdfast. Look at it without running anything: holdfast run --dry-run
holdfast: 1
goal: Describe in one sentence what the whole run is for
"""

_LIMITS = """
# How many tasks run at once, how often each is tried, how long one try may take.
limits: {{jobs: 2, attempts: 3, timeout: 60m}}

# Checks for every task, run in its workspace and again on the merged tree.
{verify}
{workspace}
stages:
  - id: first
    # exit: ["make test"]          # must hold before the next stage opens
    tasks:
"""

_AGENT_TASKS = """\
      - id: first-task
        title: A short name for people
        prompt: |
          Describe what the agent must do and how it knows that it is done.
        # files: [docs/result.md]    # deliverables, checked when the task ends
        # verify: ["test -s docs/result.md"]
      - id: second-task
        needs: [first-task]          # starts when the first has landed
        prompt: Describe what comes next.
"""

_COMMAND_TASKS = """\
      - id: first-task
        title: A command does this one, so no model is needed
        run: ["sh", "-c", "echo hello > hello.txt"]
        files: [hello.txt]           # deliverables, checked when the task ends
      - id: second-task
        needs: [first-task]          # starts when the first has landed
        run: ["sh", "-c", "cat hello.txt hello.txt > twice.txt"]
"""


ARGUMENTS: Arguments = (positional("plan", "file to write (plan.yaml)", nargs="?", default="plan.yaml"),)


def execute(args: Namespace) -> int:
    """Write a starter plan and hide `.holdfast/` from git. A file that exists is never overwritten."""
    repo = Repository.open(Path.cwd())
    repo.require_own_state_dir()
    path, found = Path(args.plan), find_installed_agents(presets_of(repo.checkout))
    if os.path.lexists(path):
        raise HoldfastError(f"{path} already exists", "it was not changed; name another file")
    with doing("write the starter plan", path):
        write_durably(path, starter([agent.name for agent in found], propose(repo)).encode())
    repo.prepare_state_dir()
    agents = ", ".join(agent.describe() for agent in found) or "none, so its tasks are commands"
    print(f"Wrote {path} (agents found: {agents}).")
    print(f"Edit it, look at it with `holdfast run {path} --dry-run`, start it with `holdfast run {path}`.")
    return ExitCode.DONE


def starter(agents: list[str], proposal: Proposal | None = None) -> str:
    """Return the text of a starter plan for the agents that are installed, with what the project's files propose."""
    found = proposal or Proposal()
    limits = _LIMITS.format(verify=found.verify_text(), workspace=found.workspace_text())
    if not agents:
        hint = "# No known agent was found on the PATH. With one, write `agent: claude` and tasks with a `prompt:`.\n"
        return _HEAD + hint + limits + _COMMAND_TASKS
    others = f"    # also installed: {', '.join(agents[1:])}" if agents[1:] else ""
    return f"{_HEAD}agent: {agents[0]}{others}\n{limits}{_AGENT_TASKS}"
