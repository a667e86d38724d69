"""Upkeep of the machine, the journal and the disk."""

from __future__ import annotations

from holdfast.cli.shared_arguments import Commands, Parser, add_json, add_yes


def _rebuild(command: Parser) -> None:
    command.add_argument("--yes", "-y", action="store_true", help="replace the journal even if it is sound")
    add_json(command)


def _clean(command: Parser) -> None:
    command.add_argument("run", metavar="RUN", nargs="?", help="run id, number or beginning of its name")
    command.add_argument("--all", action="store_true", help="every completed or abandoned run")
    command.add_argument("--dry-run", action="store_true", help="say what would be freed and remove nothing")
    add_yes(command)
    add_json(command)


def _doctor(command: Parser) -> None:
    command.add_argument("--fix", action="store_true", help="remove what killed git commands left behind")
    add_json(command)


COMMANDS: Commands = {
    "doctor": ("holdfast.cli.doctor:doctor", "check the machine, the repository and the runs", _doctor),
    "rebuild": ("holdfast.cli.clean:rebuild", "restore a lost or damaged journal from git", _rebuild),
    "clean": ("holdfast.cli.clean:clean", "remove what finished runs occupy; their branches stay", _clean),
}
