"""What becomes of a run's result."""

from __future__ import annotations

from holdfast.cli.shared_arguments import Commands, Parser, add_any_run, add_json, add_yes


def _land(command: Parser) -> None:
    add_any_run(command)
    command.add_argument(
        "--into", metavar="BRANCH", help="the branch to bring the result into (where the run began)"
    )
    add_yes(command)
    add_json(command)


def _discard(command: Parser) -> None:
    add_any_run(command)
    add_yes(command)
    add_json(command)


COMMANDS: Commands = {
    "review": ("holdfast.cli.land:review", "show what a run produced", add_any_run),
    "land": ("holdfast.cli.land:land", "bring a run's result into a branch", _land),
    "discard": ("holdfast.cli.land:discard", "put a run's branch away, archived", _discard),
}
