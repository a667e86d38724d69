"""Arguments that several commands have."""

from __future__ import annotations

import argparse
from collections.abc import Callable

_AMOUNT_MAX = 1e9
Parser = argparse.ArgumentParser
Commands = dict[str, tuple[str, str, Callable[[Parser], None]]]
"""Name, then the handler to import, what it does in one line, and what adds its arguments."""


def add_run(command: Parser, default: str = "the latest unfinished") -> None:
    """Take a run's name; `default` says which run is meant without one."""
    command.add_argument(
        "run", metavar="RUN", nargs="?", help=f"run id, number or beginning of its name ({default})"
    )


def add_any_run(command: Parser) -> None:
    """Take a run's name; without one the latest is meant, finished or not."""
    add_run(command, "the latest")


def add_wait(command: Parser) -> None:
    """Take how long to wait for a run to rest."""
    command.add_argument(
        "--wait", metavar="S", type=float, default=60.0, help="how long to wait until the run rests (60)"
    )


def add_yes(command: Parser) -> None:
    """Take consent in advance."""
    command.add_argument("--yes", "-y", action="store_true", help="answer every question with yes")


def add_json(command: Parser) -> None:
    """Take the wish for JSON."""
    command.add_argument("--json", action="store_true", help="print JSON for programs")


def amount(text: str) -> float:
    """Return a sum of money that somebody typed, or refuse it."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < _AMOUNT_MAX:
        raise argparse.ArgumentTypeError(f"{text} is not an amount above 0")
    return value


def positive(text: str) -> int:
    """Return a count that somebody typed, or refuse it."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)
