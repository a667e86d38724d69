"""Arguments that several commands take, and the checks of what a user typed."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError

_AMOUNT_MAX = 1e9
_RUN = "run id, number or beginning of its name"


def add_run(parser: ArgumentParser, default: str = "the latest unfinished") -> None:
    """Take a run's name; `default` says which run is meant without one."""
    parser.add_argument("run", metavar="RUN", nargs="?", help=f"{_RUN} ({default})")


def add_any_run(parser: ArgumentParser) -> None:
    """Take a run's name; without one the latest is meant, finished or not."""
    add_run(parser, "the latest")


def add_required_run(parser: ArgumentParser) -> None:
    """Take a run's name, which must be given."""
    parser.add_argument("run", metavar="RUN", help=_RUN)


def add_wait(parser: ArgumentParser) -> None:
    """Take how long to wait until a run has stopped."""
    parser.add_argument(
        "--wait", metavar="S", type=float, default=60.0, help="seconds to wait until the run has stopped (60)"
    )


def add_yes(parser: ArgumentParser, help: str = "answer every question with yes") -> None:  # noqa: A002
    """Take consent in advance."""
    parser.add_argument("--yes", "-y", action="store_true", help=help)


def add_json(parser: ArgumentParser) -> None:
    """Take the choice of JSON."""
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def add_plan_output(parser: ArgumentParser) -> None:
    """Take the name of the plan file to write."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", default="plan.yaml", help="file to write (plan.yaml)"
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


def positive(text: str) -> int:
    """Return a count that a user typed, or refuse it."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)
