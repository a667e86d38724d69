"""Plans and runs: how work begins."""

from __future__ import annotations

from holdfast.cli.declarations.systems import SYSTEMS
from holdfast.cli.shared_arguments import Commands, Parser, add_json, add_run, add_yes, amount, positive


def _init(command: Parser) -> None:
    command.add_argument(
        "plan", metavar="PLAN", nargs="?", default="plan.yaml", help="file to write (plan.yaml)"
    )


def _plan(command: Parser) -> None:
    command.add_argument("goal", metavar="GOAL", help="what is to be done, in words")
    command.add_argument("--agent", metavar="A", default="", help="who plans (the first agent installed)")
    command.add_argument(
        "-o", "--output", metavar="FILE", default="plan.yaml", help="file to write (plan.yaml)"
    )
    add_yes(command)
    add_json(command)


def _plan_import(command: Parser) -> None:
    command.add_argument(
        "file", metavar="FILE", help="tasks.md of spec-kit, tasks.json, a backlog folder, any checklist"
    )
    command.add_argument(
        "-o", "--output", metavar="FILE", default="plan.yaml", help="file to write (plan.yaml)"
    )
    command.add_argument(
        "--from",
        dest="kind",
        choices=("spec-kit", "task-master", "backlog", "checklist"),
        help="what kind of list it is (told by its content)",
    )
    command.add_argument("--tag", metavar="TAG", default="", help="the list of a tasks.json to take (master)")
    command.add_argument("--all", action="store_true", help="import also what is marked as done")
    command.add_argument(
        "--parallel", action="store_true", help="let the points of a checklist run beside each other"
    )
    command.add_argument("--agent", metavar="A", default="", help="who works (the first agent installed)")
    command.add_argument("--force", action="store_true", help="replace the file if it is there")
    add_json(command)


def _plan_workflows(command: Parser) -> None:
    command.add_argument(
        "workflow", metavar="NAME|FILE", nargs="?", help="print one to start from, or check a file of yours"
    )


def _run(command: Parser) -> None:
    command.add_argument(
        "plan",
        metavar="PLAN",
        nargs="?",
        help="plan file (plan.yaml, plan.yml, plan.json, holdfast.yaml), - for standard input, "
        "a goal in words, or a workflow's input",
    )
    command.add_argument(
        "--workflow", metavar="NAME|FILE", help="make the plan this way (`plan workflows` lists them)"
    )
    command.add_argument(
        "--with", metavar="FLAG,…", dest="with_flags", default="", help="flags of the workflow to turn on"
    )
    command.add_argument(
        "--without",
        metavar="FLAG,…",
        dest="without_flags",
        default="",
        help="flags of the workflow to turn off",
    )
    command.add_argument(
        "--set",
        metavar="NAME=TEXT",
        dest="values",
        action="append",
        default=[],
        help="a value of the workflow",
    )
    command.add_argument(
        "--mirror", metavar="FORMAT", choices=SYSTEMS, help="keep this system's own files beside the run"
    )
    command.add_argument(
        "--goal", metavar="TEXT", help="let a planner write the plan for this goal, then run it"
    )
    command.add_argument(
        "--agent", metavar="A", default="", help="use this agent instead of the plan's default"
    )
    command.add_argument(
        "--fresh", action="store_true", help="give up an unfinished run of this plan and start anew"
    )
    command.add_argument(
        "--auto-continue", action="store_true", help="carry an unfinished run of this plan on without asking"
    )
    _add_carrying_on(command)


def _resume(command: Parser) -> None:
    add_run(command)
    which = command.add_mutually_exclusive_group()
    which.add_argument("--only", metavar="T,…", help="work on these tasks only")
    which.add_argument(
        "--failed-only",
        action="store_true",
        help="give failed tasks all attempts again and work on them only",
    )
    which.add_argument(
        "--from", metavar="STAGE|TASK", dest="begin_at", help="begin again there, with all that builds on it"
    )
    which.add_argument("--restart-stage", metavar="STAGE", help="begin a whole stage again")
    command.add_argument(
        "--accept", metavar="STAGE,…", help="go on with these stages although a check of theirs failed"
    )
    _add_carrying_on(command)


def _add_carrying_on(command: Parser) -> None:
    command.add_argument("--jobs", metavar="N", type=positive, help="how many tasks run at the same time")
    command.add_argument(
        "--tokens",
        metavar="N",
        type=positive,
        help="let the run use this many tokens in all, whatever its plan says",
    )
    command.add_argument(
        "--cost-usd",
        metavar="USD",
        type=amount,
        help="let the run cost this much in all, whatever its plan says",
    )
    command.add_argument("--dry-run", action="store_true", help="say what would happen and do nothing")
    command.add_argument("--detach", action="store_true", help="run in the background")
    command.add_argument(
        "--native-resume",
        action="store_true",
        help="let agents go on with their own session where that is possible, instead of starting fresh",
    )
    command.add_argument(
        "--land", action="store_true", help="when completed, bring the result into the branch it began on"
    )
    add_yes(command)
    add_json(command)


def _demo(command: Parser) -> None:
    command.add_argument("--crash", action="store_true", help="kill the runner on the way, then resume")
    command.add_argument("--keep", metavar="DIR", help="leave the repository there afterwards")


COMMANDS: Commands = {
    "init": ("holdfast.cli.init:init", "write a starter plan", _init),
    "plan": ("holdfast.cli.plan:plan", "let an agent write the plan for a goal, never twice", _plan),
    "plan import": (
        "holdfast.cli.plan_import:import_list",
        "make a plan of a task list that you have",
        _plan_import,
    ),
    "plan workflows": (
        "holdfast.cli.plan_workflows:workflows",
        "list the workflows, print one, or check one of yours",
        _plan_workflows,
    ),
    "run": ("holdfast.cli.run:run", "start a plan; offers to resume an unfinished run of it", _run),
    "resume": ("holdfast.cli.run:resume", "carry an unfinished run on", _resume),
    "demo": ("holdfast.cli.demo:demo", "see a run in thirty seconds, without key or network", _demo),
}
