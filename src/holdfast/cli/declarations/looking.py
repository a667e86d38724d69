"""What only shows."""

from __future__ import annotations

from holdfast.cli.shared_arguments import Commands, Parser, add_any_run, add_json, add_run, positive


def _look(command: Parser) -> None:
    add_run(command)
    add_json(command)


def _recap(command: Parser) -> None:
    add_any_run(command)
    add_json(command)


def _logs(command: Parser) -> None:
    command.add_argument("run", metavar="RUN", help="run id, number or beginning of its name")
    command.add_argument("task", metavar="TASK")
    command.add_argument("-f", "--follow", action="store_true", help="go on until the attempt ends")
    command.add_argument("--attempt", metavar="N", type=positive, help="an earlier attempt (the newest)")


def _inspect(command: Parser) -> None:
    add_run(command)
    command.add_argument("task", metavar="TASK", nargs="?")
    command.add_argument("--at", metavar="SEQ", type=positive, help="as it was after event number SEQ")
    command.add_argument(
        "--brief", action="store_true", help="the brief that the task's agent got or would get"
    )
    command.add_argument("--attempt", metavar="N", type=positive, help="with --brief: an earlier attempt")
    command.add_argument("--wip", action="store_true", help="the snapshots of the task's unfinished work")
    command.add_argument("--restore", metavar="DIR", help="write a snapshot's files into a new directory")
    command.add_argument(
        "--snapshot",
        metavar="N",
        type=positive,
        help="with --restore: the number of the snapshot (the newest)",
    )
    add_json(command)


COMMANDS: Commands = {
    "status": ("holdfast.cli.status:status", "show where a run stands", _look),
    "list": ("holdfast.cli.status:list_runs", "show every run", add_json),
    "logs": ("holdfast.cli.status:logs", "print what an agent printed", _logs),
    "inspect": ("holdfast.cli.inspect:inspect", "show a run or a task whole, also as it was", _inspect),
    "recap": ("holdfast.cli.status:recap", "tell what happened in a run and what was redone", _recap),
}
