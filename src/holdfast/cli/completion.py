"""`completion`: what a shell needs to complete commands, options, runs, tasks, formats and files.

The scripts are made from the table of commands, so that a new command is completed without a line here. What changes while
people work, the names of runs and tasks, is asked of `completion_names.py`.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import Any

from holdfast.agents.presets import agent_names, builtin_presets
from holdfast.cli.arguments import Argument, Arguments, OneOf, positional
from holdfast.cli.completion_shells import (
    CompletedCommand,
    CompletedOption,
    bash_script,
    fish_script,
    zsh_script,
)
from holdfast.errors import ExitCode

_SCRIPTS = {"bash": bash_script, "zsh": zsh_script, "fish": fish_script}
_FILE_METAVARS = frozenset({"FILE", "DIR", "F", "PATH", "PLAN", "NAME|FILE"})
_FILE_NAMES = frozenset({"plan", "file", "path", "workflow"})
_TASK_METAVARS = frozenset({"T,…", "STAGE|TASK", "TASK"})

ARGUMENTS: Arguments = (positional("shell", "the shell: bash, zsh or fish", choices=tuple(_SCRIPTS)),)


def execute(args: Namespace) -> int:
    """Print the script of a shell."""
    print(_SCRIPTS[args.shell](completed_commands()), end="")
    return ExitCode.DONE


def completed_commands() -> list[CompletedCommand]:
    """Return what can be completed after each command of the table."""
    from holdfast.cli.commands import COMMANDS, module_of

    return [_completed(name, row.summary, module_of(name).ARGUMENTS) for name, row in COMMANDS.items()]


def _completed(name: str, about: str, arguments: Arguments) -> CompletedCommand:
    flat = list(_flat(arguments))
    options = tuple(
        CompletedOption(tuple(names), details.get("help") or "", _value(names, details))
        for names, details in flat
        if names[0].startswith("-")
    )
    help_ = CompletedOption(("-h", "--help"), "show what it takes", "")
    places = [_value(names, details) for names, details in flat if not names[0].startswith("-")]
    # RUN may be left out, so the first word may be what comes after it.
    if places[:2] == ["run", "task"]:
        places[0] = "run-or-task"
    elif places[:1] == ["run"] and places[1:2] and places[1].startswith("="):
        places[0] = f"run-or{places[1]}"
    return CompletedCommand(name, about, (*options, help_), tuple(places))


def _flat(arguments: Arguments) -> Iterator[Argument]:
    for argument in arguments:
        yield from argument.arguments if isinstance(argument, OneOf) else [Argument(*argument)]


def _value(names: Any, details: dict[str, Any]) -> str:
    """Return what an argument's value is; "" for an option without one."""
    name, metavar = names[0], details.get("metavar") or ""
    if details.get("action") == "store_true":
        return ""
    if choices := details.get("choices"):
        return "=" + ",".join(map(str, choices))
    if name in ("--agent", "agent"):
        return "=" + ",".join(agent_names(builtin_presets()))
    if name in ("run", "task"):
        return str(name)
    if metavar in _TASK_METAVARS:
        return "task"
    if metavar == "BRANCH":
        return "branch"
    return "file" if metavar in _FILE_METAVARS or name in _FILE_NAMES else "any"
