"""What changes the course of a run."""

from __future__ import annotations

from holdfast.cli.shared_arguments import Commands, Parser, add_json, add_run, add_wait, add_yes


def _steer(command: Parser) -> None:
    add_run(command)
    add_wait(command)
    add_json(command)


def _pause(command: Parser) -> None:
    command.add_argument(
        "--now", action="store_true", help="do not wait for agents: save their work and end them"
    )
    _steer(command)


def _abandon(command: Parser) -> None:
    _steer(command)
    add_yes(command)


def _reset(command: Parser) -> None:
    command.add_argument("run", metavar="RUN", help="run id, number or beginning of its name")
    command.add_argument("task", metavar="TASK", nargs="?", help="this task alone; left out, the whole run")
    add_wait(command)
    add_yes(command)
    add_json(command)


def _steer_task(command: Parser) -> None:
    command.add_argument("task", metavar="TASK")
    add_run(command)
    add_json(command)


def _save(command: Parser) -> None:
    add_run(command, "every run that is being carried on")
    command.add_argument(
        "--wait", metavar="S", type=float, default=10.0, help="how long to wait until all is saved (10)"
    )
    command.add_argument("--quiet", "-q", action="store_true", help="for hooks: print nothing, never fail")


COMMANDS: Commands = {
    "stop": ("holdfast.cli.stop:stop", "end a run's agents now, resumably; their work is kept", _steer),
    "pause": ("holdfast.cli.stop:pause", "start nothing new; what is under way finishes", _pause),
    "save": ("holdfast.cli.save:save", "have all unfinished work saved now", _save),
    "retry": ("holdfast.cli.stop:retry", "give a task all its attempts again", _steer_task),
    "skip": ("holdfast.cli.stop:skip", "declare a task unnecessary", _steer_task),
    "abandon": (
        "holdfast.cli.reset:abandon",
        "give a run up; its branch and all its work stay",
        _abandon,
    ),
    "reset": ("holdfast.cli.reset:reset", "take a task or a run back to nothing, after a backup", _reset),
}
