"""Finds and reads the plan to run, from a file or a pipe. Nothing runs here.

A named pipe is refused like anything else that is not a file: the command might wait for it. The run
keeps its plan in the journal and in git, so a pipe need not be read again after a crash.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from holdfast.agents.consent import agents_used
from holdfast.agents.presets import Preset, Presets, agent_names, place_of, presets_of
from holdfast.core.plan import Plan
from holdfast.core.state import RunState
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import HoldfastError, PlanError, quoted
from holdfast.plans import parse_plan, read_plan
from holdfast.plans.source import MAX_SIZE
from holdfast.runner.plan_files import edited_plan_file

_PLAN_NAMES = ("plan.yaml", "plan.yml", "plan.json", "holdfast.yaml")
_STANDARD_INPUT = "-"
_OPEN_FILES = ("/dev/fd/", "/proc/self/fd/")


def find_plan(named: str | None, checkout: Path) -> Path:
    """Return the named plan file, else one of the usual names, here or at the repository's root."""
    if named is not None:
        # Not repeated: it may hold a password, and a path would lose what shows that it is an address.
        if "://" in named and not _is_there(named):
            raise PlanError("an address is no plan file", "`--store URL` names the store of the runs")
        return Path(named)
    if found := next((path for path in usual_plans(checkout) if path.is_file()), None):
        return found
    raise PlanError(
        f"there is no plan here (looked for {', '.join(_PLAN_NAMES)})",
        "`holdfast init` writes a starter plan",
    )


def usual_plans(checkout: Path) -> list[Path]:
    """Return where a plan file usually is: under one of the usual names, here or at the repository's root."""
    return [folder / name for folder in (Path.cwd(), checkout) for name in _PLAN_NAMES]


def goal_of(args: Namespace) -> str | None:
    """Return the goal that `run` got instead of a plan file, or None. A goal has spaces and is not the name of a file."""
    if args.goal is not None:
        return one_line_goal(args.goal)
    return one_line_goal(args.plan) if is_goal(args.plan) else None


def is_goal(word: str | None) -> bool:
    """Tell whether a word that may name a file is a goal: it has spaces, and is not the name of a file."""
    named = (word or "").strip()
    return " " in named and not named.endswith((".yaml", ".yml", ".json")) and not _is_there(named)


def _is_there(named: str) -> bool:
    """Tell whether a file has this name. A goal may be longer than any file name, which is not an error."""
    try:
        return Path(named).exists()
    except OSError:
        return False


def one_line_goal(goal: str) -> str:
    """Return a goal as one line. Raises HoldfastError if it is empty."""
    cleaned = " ".join(goal.split())
    if not cleaned:
        raise HoldfastError("the goal is empty", 'describe the goal: `holdfast plan "Add a login page"`')
    return cleaned


def load_plan(path: Path, agent: str, checkout: Path) -> Plan:
    """Read and check a plan; `agent` replaces its default agent. A task list is recognized by its content."""
    try:
        return read_plan(path, agent_names(presets_of(checkout)), agent)
    except PlanError:
        from holdfast.cli.plan_import import list_kind_at

        if kind := list_kind_at(path):
            raise PlanError(
                f"{path} is a task list ({kind}), not a plan",
                f"`holdfast plan import {path}` makes a plan from it",
            ) from None
        raise


def edited_plan_words(state: RunState, checkout: Path) -> str:
    """Return what to say if the plan file of a run has changed since; empty if it has not, or if the run is over.

    It is read with the default agent that the run has: `run --agent` may have replaced the one of the file.
    """
    names = agent_names(presets_of(checkout))
    if state.row.status in RUN_IS_OVER:
        return ""
    edited = edited_plan_file(
        checkout, state, lambda data, name: parse_plan(data, name, names, state.plan.agent)
    )
    gives = f"`holdfast amend {state.row.run}` gives the run the changed plan"
    return f"{edited} has changed since; {gives}" if edited else ""


def is_piped(named: str | None) -> bool:
    """Tell whether the named plan comes through standard input or a pipe that the shell has opened for us."""
    return named is not None and (named == _STANDARD_INPUT or named.startswith(_OPEN_FILES))


def plan_from_pipe(named: str, agent: str, checkout: Path) -> Plan:
    """Read a plan from a pipe, but no more bytes than a plan may have; `agent` replaces its default agent."""
    try:
        return parse_plan(_piped_content(named), named, agent_names(presets_of(checkout)), agent)
    except PlanError as error:
        raise PlanError(
            error.message,
            "fix the text that comes through the pipe; `--dry-run` shows the plan without running it",
        ) from None


def _piped_content(named: str) -> bytes:
    if named != _STANDARD_INPUT:
        with Path(named).open("rb") as pipe:
            return pipe.read(MAX_SIZE + 1)
    if sys.stdin.isatty():
        print("Reading the plan from the terminal; Ctrl-D ends it.", file=sys.stderr)
    return sys.stdin.buffer.read(MAX_SIZE + 1)


def source_of(path: Path, checkout: Path) -> str:
    """Return how a run remembers its plan file: relative to the repository if it is inside."""
    full = path.resolve()
    return str(full.relative_to(checkout)) if full.is_relative_to(checkout) else str(full)


def shown_path(path: Path) -> str:
    """Return how people see a file: from where they are, if it is below."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def command_for(source: str) -> str:
    """Return the command that starts the plan that a run remembers by this source."""
    workflow = re.fullmatch(r"workflow ([^:]+)(?:: (.*))?", source)
    if workflow:
        given = f" {shlex.quote(workflow[2])}" if workflow[2] else ""
        return f"holdfast run --workflow {shlex.quote(workflow[1])}{given}"
    return "holdfast run" if source in ("", *_PLAN_NAMES) else f"holdfast run {shlex.quote(source)}"


def require_commands(plan: Plan, checkout: Path) -> None:
    """Raise HoldfastError if an agent of the plan, or a task's own command, cannot be started on this machine."""
    used = agents_used(plan, presets_of(checkout))
    for name, preset in used.items():
        _require_files(name, preset)
    for who, program in _programs(plan, used):
        if "/" not in program and shutil.which(program) is None:
            raise HoldfastError(
                f"{who} starts {quoted(program)}, which is not on the PATH",
                "install it, add its folder to PATH, or choose another agent with --agent",
            )


def _require_files(name: str, preset: Preset) -> None:
    """Raise HoldfastError for what an agent's home would be without, although its preset names it."""
    for path in (*preset.credentials, *preset.home):
        if (place := place_of(path, os.environ)) and place.is_dir():
            raise HoldfastError(
                f"agent {name} names {path}, which is a folder: only files are copied into its home",
                "name the files in it that the agent needs",
            )


def _programs(plan: Plan, used: Presets) -> Iterator[tuple[str, str]]:
    """Yield each agent or task with the program that it starts."""
    for _, task in plan.tasks():
        if task.run:
            yield f"task {task.id}", task.run[0]
        yield from ((f"validator {who.id}", who.run[0]) for who in task.validators if who.run)
    yield from ((f"agent {name}", spec.needed_program) for name, spec in used.items())
