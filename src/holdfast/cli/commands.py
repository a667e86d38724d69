"""Reads the command line and prints the overview of all commands. Their arguments are declared in `declarations/`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from holdfast import __version__
from holdfast.cli.declarations import keeping, looking, results, speaking, starting, steering, systems
from holdfast.cli.shared_arguments import Commands
from holdfast.errors import ExitCode

GROUPS: dict[str, Commands] = {
    "start": starting.COMMANDS,
    "look": looking.COMMANDS,
    "steer": steering.COMMANDS,
    "result": results.COMMANDS,
    "other systems": systems.COMMANDS,
    "agents": speaking.COMMANDS,
    "upkeep": keeping.COMMANDS,
}
COMMANDS: Commands = {name: command for group in GROUPS.values() for name, command in group.items()}
_EPILOG = "exit codes: 0 done, 1 tasks failed, 2 bad input, 3 waits for a decision, 4 held by another runner, 130 interrupted"


class _Holdfast(argparse.ArgumentParser):
    """The parser of the whole command, whose help is the overview: argparse cannot group subcommands itself."""

    def format_help(self) -> str:
        """Return every command by its purpose."""
        return _overview().format_help()


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments; `handler` names the function to call. Usage errors end the program with 2."""
    parser = _Holdfast(prog="holdfast")
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=argparse.ArgumentParser)
    if " ".join(words[:2]) in COMMANDS:
        words = [" ".join(words[:2]), *words[2:]]
    # A known command needs its own parser alone: to build all of them takes longer than many a command.
    wanted = {words[0]: COMMANDS[words[0]]} if words and words[0] in COMMANDS else COMMANDS
    for name, (handler, summary, add_arguments) in wanted.items():
        command = commands.add_parser(name, description=summary)
        command.set_defaults(handler=handler)
        add_arguments(command)
    if not words:
        parser.print_help(sys.stderr)
        parser.exit(ExitCode.BAD_INPUT)
    args, unknown = parser.parse_known_args(words)
    if unknown:
        # The command's own usage names the arguments that it has.
        commands.choices.get(words[0], parser).error(f"unrecognized arguments: {' '.join(unknown)}")
    return args


def _overview() -> argparse.ArgumentParser:
    """Return a parser that is only printed: the commands are its arguments, so that argparse lays them out."""
    overview = argparse.ArgumentParser(
        prog="holdfast",
        usage="holdfast [-h] [--version] COMMAND ...",
        description="Run a plan of coding tasks with any coding agents. Kill anything; resume; nothing is lost.",
        epilog=_EPILOG,
        add_help=False,
    )
    for title, commands in GROUPS.items():
        group = overview.add_argument_group(title)
        for name, (_, summary, _) in commands.items():
            group.add_argument(name, help=summary)
    options = overview.add_argument_group("options")
    options.add_argument("-h", "--help", action="help", help="show this, or with a command its arguments")
    options.add_argument("--version", action="version", help="print the version")
    return overview
