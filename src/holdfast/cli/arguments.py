"""Arguments of commands as data: how a command declares them, those that several have, and checks of typed values."""

from __future__ import annotations

import re
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from typing import Any, NamedTuple

_AMOUNT_MAX = 1e9


class Argument(NamedTuple):
    """One argument of a command, as argparse's `add_argument` takes it."""

    names: Sequence[str]
    details: dict[str, Any]


class OneOf(NamedTuple):
    """Arguments that exclude each other."""

    arguments: Sequence[Argument]


Arguments = Sequence[Argument | OneOf]


def positional(name: str, description: str | None = None, **details: Any) -> Argument:
    """Declare a positional argument."""
    return Argument((name,), {"metavar": name.upper(), "help": description, **details})


def option(names: str, metavar: str | None, description: str, **details: Any) -> Argument:
    """Declare an option with a value; `names` are its spellings with a space between.

    Without a `metavar` the help shows the choices.
    """
    return Argument(names.split(), {"metavar": metavar, "help": description, **details})


def flag(names: str, description: str) -> Argument:
    """Declare an option without a value; `names` are its spellings with a space between."""
    return Argument(names.split(), {"action": "store_true", "help": description})


def one_of(*arguments: Argument) -> OneOf:
    """Declare arguments that exclude each other."""
    return OneOf(arguments)


def add_arguments(parser: ArgumentParser, arguments: Arguments) -> None:
    """Add the arguments to a parser."""
    for argument in arguments:
        if isinstance(argument, OneOf):
            group = parser.add_mutually_exclusive_group()
            for names, details in argument.arguments:
                group.add_argument(*names, **details)
        else:
            names, details = argument
            parser.add_argument(*names, **details)


def takes_any_words(arguments: Arguments) -> bool:
    """Tell whether a command takes words without end that are not its own, and may look like options."""
    plain = (argument for argument in arguments if not isinstance(argument, OneOf))
    return any(
        details.get("nargs") == "..." or str(details.get("metavar")).startswith("-- ") for _, details in plain
    )


def amount(text: str) -> float:
    """Return a sum of money that a user typed, or refuse it."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < _AMOUNT_MAX:
        raise ArgumentTypeError(f"{text} is not an amount above 0")
    return value


def commit_id(text: str) -> str:
    """Return the id of a commit that a user typed, or its beginning, or refuse it."""
    if not re.fullmatch(r"[0-9a-f]{7,64}", text):
        raise ArgumentTypeError(f"{text} is not the id of a commit, or its first 7 characters or more")
    return text


def positive(text: str) -> int:
    """Return a count that a user typed, or refuse it."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


_NAME_OF_RUN = "run id, number or beginning of its name"
RUN_OF_TASK = positional("run", f"{_NAME_OF_RUN} (the latest that has the task)", nargs="?")
TASK = positional("task", "task id, or the beginning of it")
OPTIONAL_TASK = positional("task", "only this task; its run need not be named", nargs="?")
RUN = positional("run", f"{_NAME_OF_RUN} (the latest unfinished)", nargs="?")
LAST_RUN = positional("run", f"{_NAME_OF_RUN} (the one in which something happened last)", nargs="?")
ANY_RUN = positional("run", f"{_NAME_OF_RUN} (the latest)", nargs="?")
JSON = flag("--json", "print JSON for programs")
YES = flag("--yes -y", "answer every question with yes")
WAIT = option("--wait", "S", "seconds to wait until the run has stopped (60)", type=float, default=60.0)
PLAN_OUTPUT = option("-o --output", "FILE", "file to write (plan.yaml)", default="plan.yaml")
ACCEPT_BRANCH = option(
    "--accept-branch",
    "COMMIT",
    "take the run branch as it is at COMMIT, with commits that Holdfast did not make",
    type=commit_id,
)
