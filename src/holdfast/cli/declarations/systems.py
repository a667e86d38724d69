"""How runs come from other systems and go back to them."""

from __future__ import annotations

from holdfast.cli.shared_arguments import Commands, Parser, add_any_run, add_json, add_yes

SYSTEMS = ("apex", "execute", "cfn", "auto-claude", "specflow")


def _adopt(command: Parser) -> None:
    command.add_argument("path", metavar="PATH", help="a state file, a folder with one, or a repository")
    command.add_argument("--list", action="store_true", help="show every run of another system that is there")
    command.add_argument(
        "--dry-run", action="store_true", help="say what would be adopted and change nothing"
    )
    command.add_argument(
        "--agent", metavar="A", default="", help="who works on it (the only agent installed)"
    )
    command.add_argument(
        "--base", metavar="REV", default="", help="go on from there (the branch that holds what is done)"
    )
    command.add_argument(
        "--accept-named", action="store_true", help="a task called done is, if a commit of the base names it"
    )
    command.add_argument(
        "--trust-claims", action="store_true", help="what the files call done is, even without proof in git"
    )
    command.add_argument(
        "--with-checkout",
        action="store_true",
        help="the checkout's uncommitted files are the running task's work",
    )
    command.add_argument(
        "--from",
        dest="resume_at",
        metavar="TASK",
        default="",
        help="go on at this task: what is before it is done with",
    )
    command.add_argument("--fresh", action="store_true", help="a new run, even if another has these files")
    add_yes(command)
    add_json(command)


def _export(command: Parser) -> None:
    add_any_run(command)
    command.add_argument(
        "--as", dest="format", choices=SYSTEMS, required=True, help="whose files: " + ", ".join(SYSTEMS)
    )
    command.add_argument(
        "-o", "--output", metavar="F", help="a file for the state, or a folder/ for all (standard output)"
    )
    command.add_argument("--force", action="store_true", help="replace files that are there")


def _mirror(command: Parser) -> None:
    command.add_argument("run", metavar="RUN", help="run id, number or beginning of its name")
    command.add_argument(
        "format", metavar="FORMAT", choices=SYSTEMS, help="whose files: " + ", ".join(SYSTEMS)
    )
    where = command.add_mutually_exclusive_group()
    where.add_argument("--to", metavar="DIR", help="a folder of the project (their own places)")
    where.add_argument("--off", action="store_true", help="no longer keep them up to date")


COMMANDS: Commands = {
    "adopt": ("holdfast.cli.adopt:adopt", "carry on what another system began", _adopt),
    "export": ("holdfast.cli.mirror:export", "write a run in another system's own files", _export),
    "mirror": ("holdfast.cli.mirror:mirror", "keep another system's files up to date", _mirror),
}
