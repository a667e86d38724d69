"""Every command with its arguments. Declarations only: nothing heavy is imported, nothing is run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from holdfast import __version__
from holdfast.errors import ExitCode

_Parser = argparse.ArgumentParser
SYSTEMS = ("apex", "execute", "cfn", "auto-claude", "specflow")
_EPILOG = "exit codes: 0 done, 1 tasks failed, 2 bad input, 3 waits for a decision, 4 held by another runner, 130 interrupted"


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed arguments; `handler` names the function to call. Usage errors end the program with 2."""
    parser = _Parser(
        prog="holdfast",
        description="Run a plan of coding tasks with any coding agents. Kill anything; resume; nothing is lost.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands", required=True)
    if " ".join(words[:2]) in COMMANDS:
        words = [" ".join(words[:2]), *words[2:]]
    # A known command needs its own parser alone: to build all of them takes longer than many a command.
    wanted = {words[0]: COMMANDS[words[0]]} if words and words[0] in COMMANDS else COMMANDS
    for name, (handler, summary, add_arguments) in wanted.items():
        command = commands.add_parser(name, help=summary, description=summary)
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


def _init(command: _Parser) -> None:
    command.add_argument(
        "plan", metavar="PLAN", nargs="?", default="plan.yaml", help="file to write (plan.yaml)"
    )


def _plan(command: _Parser) -> None:
    command.add_argument("goal", metavar="GOAL", help="what is to be done, in words")
    command.add_argument("--agent", metavar="A", default="", help="who plans (the first agent installed)")
    command.add_argument(
        "-o", "--output", metavar="FILE", default="plan.yaml", help="file to write (plan.yaml)"
    )
    _add_yes(command)
    _add_json(command)


def _plan_import(command: _Parser) -> None:
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
    _add_json(command)


def _plan_workflows(command: _Parser) -> None:
    command.add_argument(
        "workflow", metavar="NAME|FILE", nargs="?", help="print one to start from, or check a file of yours"
    )


def _run(command: _Parser) -> None:
    command.add_argument(
        "plan",
        metavar="PLAN",
        nargs="?",
        help="plan file (plan.yaml, plan.yml, plan.json, holdfast.yaml), a goal in words, or a workflow's input",
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


def _resume(command: _Parser) -> None:
    _add_run(command)
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


def _add_carrying_on(command: _Parser) -> None:
    command.add_argument("--jobs", metavar="N", type=_positive, help="how many tasks run at the same time")
    command.add_argument("--dry-run", action="store_true", help="say what would happen and do nothing")
    command.add_argument("--detach", action="store_true", help="run in the background")
    command.add_argument(
        "--land", action="store_true", help="when completed, bring the result into the branch it began on"
    )
    _add_yes(command)
    _add_json(command)


def _look(command: _Parser) -> None:
    _add_run(command)
    _add_json(command)


def _recap(command: _Parser) -> None:
    _add_any_run(command)
    _add_json(command)


def _logs(command: _Parser) -> None:
    command.add_argument("run", metavar="RUN", help="run id, number or beginning of its name")
    command.add_argument("task", metavar="TASK")
    command.add_argument("-f", "--follow", action="store_true", help="go on until the attempt ends")
    command.add_argument("--attempt", metavar="N", type=_positive, help="an earlier attempt (the newest)")


def _inspect(command: _Parser) -> None:
    _add_run(command)
    command.add_argument("task", metavar="TASK", nargs="?")
    command.add_argument("--at", metavar="SEQ", type=_positive, help="as it was after event number SEQ")
    command.add_argument(
        "--brief", action="store_true", help="the brief that the task's agent got or would get"
    )
    command.add_argument("--attempt", metavar="N", type=_positive, help="with --brief: an earlier attempt")
    command.add_argument("--wip", action="store_true", help="the snapshots of the task's unfinished work")
    command.add_argument("--restore", metavar="DIR", help="write a snapshot's files into a new directory")
    command.add_argument(
        "--snapshot",
        metavar="N",
        type=_positive,
        help="with --restore: the number of the snapshot (the newest)",
    )
    _add_json(command)


def _steer(command: _Parser) -> None:
    _add_run(command)
    _add_wait(command)


def _pause(command: _Parser) -> None:
    command.add_argument(
        "--now", action="store_true", help="do not wait for agents: save their work and end them"
    )
    _steer(command)


def _abandon(command: _Parser) -> None:
    _steer(command)
    _add_yes(command)


def _reset(command: _Parser) -> None:
    command.add_argument("run", metavar="RUN", help="run id, number or beginning of its name")
    command.add_argument("task", metavar="TASK", nargs="?", help="this task alone; left out, the whole run")
    _add_wait(command)
    _add_yes(command)


def _rebuild(command: _Parser) -> None:
    command.add_argument("--yes", "-y", action="store_true", help="replace the journal even if it is sound")
    _add_json(command)


def _clean(command: _Parser) -> None:
    command.add_argument("run", metavar="RUN", nargs="?", help="run id, number or beginning of its name")
    command.add_argument("--all", action="store_true", help="every completed or abandoned run")
    command.add_argument("--dry-run", action="store_true", help="say what would be freed and remove nothing")
    _add_yes(command)
    _add_json(command)


def _steer_task(command: _Parser) -> None:
    command.add_argument("task", metavar="TASK")
    _add_run(command)


def _land(command: _Parser) -> None:
    _add_any_run(command)
    command.add_argument(
        "--into", metavar="BRANCH", help="the branch to bring the result into (where the run began)"
    )
    _add_yes(command)


def _discard(command: _Parser) -> None:
    _add_any_run(command)
    _add_yes(command)


def _doctor(command: _Parser) -> None:
    command.add_argument("--fix", action="store_true", help="remove what killed git commands left behind")
    _add_json(command)


def _demo(command: _Parser) -> None:
    command.add_argument("--crash", action="store_true", help="kill the runner on the way, then resume")
    command.add_argument("--keep", metavar="DIR", help="leave the repository there afterwards")


def _save(command: _Parser) -> None:
    _add_run(command, "every run that is being carried on")
    command.add_argument(
        "--wait", metavar="S", type=float, default=10.0, help="how long to wait until all is saved (10)"
    )
    command.add_argument("--quiet", "-q", action="store_true", help="for hooks: print nothing, never fail")


def _mcp(command: _Parser) -> None:
    command.add_argument(
        "--agree", metavar="PLAN", help="show what a plan runs, note that you agree to it, and end"
    )
    command.add_argument(
        "--yes", "-y", action="store_true", help="agree to whatever the plans run that an agent opens"
    )


def _adopt(command: _Parser) -> None:
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
    command.add_argument("--fresh", action="store_true", help="a new run, even if another has these files")
    _add_yes(command)
    _add_json(command)


def _export(command: _Parser) -> None:
    _add_any_run(command)
    command.add_argument(
        "--as", dest="format", choices=SYSTEMS, required=True, help="whose files: " + ", ".join(SYSTEMS)
    )
    command.add_argument(
        "-o", "--output", metavar="F", help="a file for the state, or a folder/ for all (standard output)"
    )
    command.add_argument("--force", action="store_true", help="replace files that are there")


def _mirror(command: _Parser) -> None:
    command.add_argument("run", metavar="RUN", help="run id, number or beginning of its name")
    command.add_argument(
        "format", metavar="FORMAT", choices=SYSTEMS, help="whose files: " + ", ".join(SYSTEMS)
    )
    where = command.add_mutually_exclusive_group()
    where.add_argument("--to", metavar="DIR", help="a folder of the project (their own places)")
    where.add_argument("--off", action="store_true", help="no longer keep them up to date")


def _report(command: _Parser) -> None:
    # Only for the list of commands: `report` reads its own arguments, see `cli/main.py`.
    command.add_argument("words", nargs=argparse.REMAINDER)


def _add_run(command: _Parser, default: str = "the latest unfinished") -> None:
    command.add_argument(
        "run", metavar="RUN", nargs="?", help=f"run id, number or beginning of its name ({default})"
    )


def _add_any_run(command: _Parser) -> None:
    _add_run(command, "the latest")


def _acp(command: _Parser) -> None:
    command.add_argument("--brief", metavar="FILE", default="", help="what is to be done (standard input)")
    command.add_argument("--session", metavar="ID", default="", help="go on with this session of the agent's")
    command.add_argument(
        "--permissions",
        choices=("allow", "workspace", "refuse"),
        default="allow",
        help="how to answer an agent that asks (allow); workspace: yes, but for files outside it",
    )
    command.add_argument("agent_command", metavar="-- COMMAND", nargs="*", help="how the agent is started")


def _add_wait(command: _Parser) -> None:
    command.add_argument(
        "--wait", metavar="S", type=float, default=60.0, help="how long to wait until the run rests (60)"
    )


def _add_yes(command: _Parser) -> None:
    command.add_argument("--yes", "-y", action="store_true", help="answer every question with yes")


def _add_json(command: _Parser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON for programs")


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a whole number above 0")
    return int(text)


COMMANDS: dict[str, tuple[str, str, Callable[[_Parser], None]]] = {
    "init": ("holdfast.cli.init:init", "write a starter plan", _init),
    "plan": ("holdfast.cli.plan:plan", "let an agent write the plan for a goal, never twice", _plan),
    "plan import": (
        "holdfast.cli.plan_import:import_list",
        "make a plan of a task list that you have",
        _plan_import,
    ),
    "plan workflows": (
        "holdfast.cli.workflow:workflows",
        "list the workflows, print one, or check one of yours",
        _plan_workflows,
    ),
    "run": ("holdfast.cli.run:run", "start a plan; offers to resume an unfinished run of it", _run),
    "resume": ("holdfast.cli.run:resume", "carry an unfinished run on", _resume),
    "status": ("holdfast.cli.look:status", "show where a run stands", _look),
    "list": ("holdfast.cli.look:list_runs", "show every run", _add_json),
    "logs": ("holdfast.cli.look:logs", "print what an agent printed", _logs),
    "inspect": ("holdfast.cli.inspecting:inspect", "show a run or a task whole, also as it was", _inspect),
    "recap": ("holdfast.cli.look:recap", "tell what happened in a run and what was redone", _recap),
    "stop": ("holdfast.cli.steer:stop", "end a run's agents now, resumably; their work is kept", _steer),
    "pause": ("holdfast.cli.steer:pause", "start nothing new; what is under way finishes", _pause),
    "retry": ("holdfast.cli.steer:retry", "give a task all its attempts again", _steer_task),
    "skip": ("holdfast.cli.steer:skip", "declare a task unnecessary", _steer_task),
    "abandon": (
        "holdfast.cli.giving_up:abandon",
        "give a run up; its branch and all its work stay",
        _abandon,
    ),
    "reset": ("holdfast.cli.giving_up:reset", "take a task or a run back to nothing, after a backup", _reset),
    "review": ("holdfast.cli.outcome:review", "show what a run produced", _add_any_run),
    "land": ("holdfast.cli.outcome:land", "bring a run's result into a branch", _land),
    "discard": ("holdfast.cli.outcome:discard", "put a run's branch away, archived", _discard),
    "doctor": ("holdfast.cli.health:doctor", "check the machine, the repository and the runs", _doctor),
    "rebuild": ("holdfast.cli.upkeep:rebuild", "restore a lost or damaged journal from git", _rebuild),
    "clean": ("holdfast.cli.upkeep:clean", "remove what finished runs occupy; their branches stay", _clean),
    "adopt": ("holdfast.cli.adopting:adopt", "carry on what another system began", _adopt),
    "export": ("holdfast.cli.mirroring:export", "write a run in another system's own files", _export),
    "mirror": ("holdfast.cli.mirroring:mirror", "keep another system's files up to date", _mirror),
    "report": ("holdfast.cli.report:report", "for agents: tell how far you are", _report),
    "acp": ("holdfast.cli.acp:acp", "for plans: run an agent that speaks the Agent Client Protocol", _acp),
    "save": ("holdfast.cli.saving:save", "have all unfinished work saved now", _save),
    "mcp": ("holdfast.cli.mcp:mcp", "for agents: report, or lead a run, over MCP", _mcp),
    "demo": ("holdfast.cli.demo:demo", "see a run in thirty seconds, without key or network", _demo),
}
