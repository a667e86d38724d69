"""The table of commands, and the parser of the command line.

A command is one row here and one module of its name (`plan import` is `plan_import.py`) with `ARGUMENTS` and
`execute(args)`. The module is imported only when its command is given, so start-up stays short.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import NamedTuple, NoReturn

from holdfast import __version__
from holdfast.cli.arguments import Argument, Arguments, add_arguments, option, takes_any_words
from holdfast.errors import ExitCode, HoldfastError, did_you_mean, quoted
from holdfast.runner.store_choice import ACCEPT_VARIABLE, FLEET_VARIABLE, STORE_VARIABLE

_HELP, _VERSION = ("-h", "--help"), "--version"
_STORE, _ACCEPT = "--store", "--accept-volatile"
_OF_EVERY_COMMAND = (
    option(_STORE, "URL", argparse.SUPPRESS),
    Argument((_ACCEPT,), {"action": "store_true", "help": argparse.SUPPRESS}),
)
_EPILOG = "exit codes: 0 done, 1 tasks failed, 2 bad input, 3 waits for a decision, 4 held by another runner, 130 interrupted"


class Command(NamedTuple):
    """One row: the group of the overview that lists the command, and what it does in one line."""

    group: str
    summary: str


COMMANDS: dict[str, Command] = {
    "init": Command("start", "write a starter plan"),
    "plan": Command("start", "let an agent write the plan for a goal; the same goal is planned once"),
    "plan import": Command("start", "make a plan from an existing task list"),
    "plan workflows": Command("start", "list the workflows, print one, or check one of yours"),
    "run": Command("start", "start a plan, or offer to resume an unfinished run of it"),
    "resume": Command("start", "continue an unfinished run"),
    "demo": Command("start", "see a run in thirty seconds, without key or network"),
    "status": Command("look", "show where a run stands"),
    "list": Command("look", "show every run"),
    "watch": Command("look", "see a run live in the terminal, with keys to steer it"),
    "logs": Command("look", "print what an agent printed"),
    "inspect": Command("look", "show everything about a run or a task, now or at an earlier event"),
    "recap": Command("look", "tell what happened in a run and what was redone"),
    "serve": Command("look", "show runs in the browser, live, with a button for every decision"),
    "stop": Command("steer", "end a run's agents now; their work is kept and the run can resume"),
    "pause": Command("steer", "start nothing new; tasks under way finish"),
    "save": Command("steer", "save all unfinished work now"),
    "amend": Command(
        "steer", "give a run that has begun its edited plan, or let a planner edit it; what landed stays"
    ),
    "retry": Command("steer", "run a task again, with all its attempts"),
    "answer": Command("steer", "answer what an agent asked; its task goes on"),
    "take": Command("steer", "work on a task by hand, in a workspace of your own"),
    "give": Command("steer", "have what you did by hand checked and landed, or return it to the agents"),
    "skip": Command("steer", "skip a task; tasks that need it may start"),
    "abandon": Command("steer", "abandon a run; its branch and all its work stay"),
    "reset": Command("steer", "reset a task or a run to its beginning, after a backup"),
    "review": Command("result", "show what a run or a task produced"),
    "land": Command("result", "bring the result of runs into a branch, or open a pull request"),
    "discard": Command("result", "archive a run's branch and remove it"),
    "adopt": Command("other systems", "continue what another system began"),
    "export": Command("other systems", "write a run in another system's own files"),
    "mirror": Command("other systems", "keep another system's files up to date"),
    "tick": Command("other systems", "tick landed tasks in the list that the plan was made from"),
    "worker": Command("hosts", "offer this machine to runs that use a fleet of many machines"),
    "agents": Command("agents", "show the agents that Holdfast knows, and which are installed"),
    "agents try": Command("agents", "let an agent do one tiny task, and show what was read of its stream"),
    "report": Command("agents", "for agents: tell how far you are"),
    "acp": Command("agents", "for plans: run an agent that speaks the Agent Client Protocol"),
    "mcp": Command("agents", "for agents: report, or lead a run, over MCP"),
    "doctor": Command("upkeep", "check the machine, the repository and the runs"),
    "move": Command("upkeep", "take runs to another store, such as a Redis server, or back"),
    "backup": Command("upkeep", "write all runs into one file"),
    "restore": Command("upkeep", "bring back from a backup what the store lacks"),
    "rebuild": Command("upkeep", "restore a lost or damaged journal from git"),
    "completion": Command("upkeep", "print what bash, zsh or fish needs to complete commands and names"),
    "clean": Command("upkeep", "remove what finished runs occupy, or branches that have landed"),
}


def execute(words: Sequence[str]) -> int:
    """Run the command that the words name and return its exit code. A usage error ends the program with 2."""
    leading = _leading_options(words)
    name, args = parse(words[len(leading) :])
    for given in (_parser("holdfast", _OF_EVERY_COMMAND).parse_args(leading), args):
        if given.store == "":
            raise HoldfastError(
                f"{_STORE} names no store",
                "was it to come from a variable that is empty? `--store sqlite` is the file in .holdfast",
            )
        # For what this process starts, too, such as a runner that goes on alone.
        if given.store is not None:
            os.environ[STORE_VARIABLE] = given.store
        if given.accept_volatile:
            os.environ[ACCEPT_VARIABLE] = "1"
    if named := getattr(args, "fleet", None):
        os.environ[FLEET_VARIABLE] = named
    return int(module_of(name).execute(args))


def _leading_options(words: Sequence[str]) -> Sequence[str]:
    """Return the words before the command that are options of every command: the overview lists them as its own."""
    at = 0
    while at < len(words) and words[at].partition("=")[0] in (_STORE, _ACCEPT):
        at += 2 if words[at] == _STORE else 1
    return words[:at]


def parse(words: Sequence[str]) -> tuple[str, argparse.Namespace]:
    """Return the command that the words name, and its arguments. A usage error ends the program with 2."""
    name, arguments = _split_command(words)
    declared = module_of(name).ARGUMENTS
    parser = _parser(f"holdfast {name}", (*declared, *_OF_EVERY_COMMAND), COMMANDS[name].summary)
    # Options may stand between RUN and TASK. Words that are another program's are left as they are.
    parse = parser.parse_args if takes_any_words(declared) else parser.parse_intermixed_args
    return name, parse(arguments)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors repeat no password: an address in the wrong place is a word like any other."""

    def error(self, message: str) -> NoReturn:
        """End the program with a usage error."""
        from holdfast.redaction import redact

        super().error(redact(message))


def _parser(program: str, arguments: Arguments, description: str | None = None) -> _Parser:
    parser = _Parser(prog=program, description=description)
    add_arguments(parser, arguments)
    return parser


def module_of(name: str) -> ModuleType:
    """Import the module of a command."""
    return import_module(f"holdfast.cli.{name.replace(' ', '_')}")


def _split_command(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """Return the command that the words begin with and its arguments.

    Help and version need no command: they are printed here, and end the program.
    """
    for length in (2, 1):
        if (name := " ".join(words[:length])) in COMMANDS:
            return name, words[length:]
    overview, first = _overview(), next(iter(words), "")
    if not first:
        overview.print_help(sys.stderr)
        overview.exit(ExitCode.BAD_INPUT)
    if first in _HELP:
        overview.print_help()
        overview.exit()
    if first == _VERSION:
        print(f"holdfast {__version__}")
        overview.exit()
    kind, known = ("option", (*_HELP, _VERSION)) if first.startswith("-") else ("command", COMMANDS)
    raise HoldfastError(
        f"there is no {kind} {quoted(first)}{did_you_mean(first, known)}",
        "`holdfast --help` lists the commands",
    )


def _overview() -> argparse.ArgumentParser:
    """Return a parser that is only printed. The commands are its arguments, so that argparse formats them."""
    overview = argparse.ArgumentParser(
        prog="holdfast",
        usage="holdfast [-h] [--version] COMMAND ...",
        description="Run a plan of coding tasks with any coding agents. Kill anything; resume; nothing is lost.",
        epilog=_EPILOG,
        add_help=False,
    )
    groups = {
        title: overview.add_argument_group(title)
        for title in dict.fromkeys(row.group for row in COMMANDS.values())
    }
    for name, row in COMMANDS.items():
        groups[row.group].add_argument(name, help=row.summary)
    options = overview.add_argument_group("options")
    options.add_argument(*_HELP, action="help", help="show this, or with a command its arguments")
    options.add_argument(_VERSION, action="version", help="print the version")
    options.add_argument(_STORE, metavar="URL", help="with any command: the server that keeps the runs")
    options.add_argument(
        _ACCEPT,
        action="store_true",
        help="with any command: use a server that may forget what it acknowledged",
    )
    return overview
