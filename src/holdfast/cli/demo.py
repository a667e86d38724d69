"""`demo`: the real program on a small real repository, with scripted agents; with --crash, killed half-way."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from holdfast.cli.arguments import Arguments, flag, option
from holdfast.cli.main import main
from holdfast.core.projection import TaskRow
from holdfast.core.status import TaskStatus
from holdfast.demo.project import PLAN_FILE, write_project
from holdfast.errors import ExitCode, HoldfastError
from holdfast.paths import StateDir
from holdfast.process.programs import has_ended, kill_started, start_in_background
from holdfast.repo.discovery import create_repository
from holdfast.views.read_only_repo import open_read_only

_POLL_S = 0.05
_DEADLINE_S = 60.0
_LANDED_BEFORE_THE_KILL = 3
_LONG_TASK = "tags"


ARGUMENTS: Arguments = (
    flag("--crash", "kill the runner half-way, then resume"),
    option("--keep", "DIR", "leave the repository there afterwards"),
)


def execute(args: Namespace) -> int:
    """Show a run in a new repository, and remove it afterwards unless `--keep` names its place."""
    folder = _folder(args.keep)
    home = Path.cwd()
    try:
        write_project(folder)
        create_repository(folder, "A tiny note keeper")
        os.chdir(folder)
        _say(f"A small repository in {folder}: 8 tasks in 3 stages, scripted agents, no key, no network.")
        code = _run_and_kill(folder) if args.crash else main(["run", PLAN_FILE, "--yes"])
        _say("What git and the journal say about it:")
        recap = main(["recap"])
        look = f"It is all in {args.keep}" if args.keep else "`holdfast demo --keep DIR` keeps the repository"
        _say(f"{look}. In your own repository, start with `holdfast init`.")
        return recap or code
    finally:
        os.chdir(home)
        if args.keep is None:
            shutil.rmtree(folder)


def _folder(keep: str | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="holdfast-demo-"))
    folder = Path(keep).absolute()
    if folder.exists() and any(folder.iterdir()):
        raise HoldfastError(f"{folder} is not empty", "Name a new folder: `holdfast demo --keep DIR`.")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _run_and_kill(folder: Path) -> int:
    """Run in a second process, kill it half-way, show that its agents live, and resume."""
    output = StateDir.of_checkout(folder).root / "demo.log"
    pid = start_in_background(["run", PLAN_FILE, "--yes"], output)
    shown = _follow_until_busy(pid, output)
    if has_ended(pid):
        _say("The run ended before it could be killed; see above.")
        return ExitCode.TASKS_FAILED
    kill_started(pid)
    shown = _show(output, shown)
    working = [task.id for task in _tasks() if task.status is TaskStatus.RUNNING]
    _say(f"kill -9 {pid}: the runner is dead. Its agents still work: {', '.join(working)}.")
    _say("holdfast resume")
    return main(["resume", "--yes"])


def _follow_until_busy(pid: int, output: Path) -> int:
    """Print what the runner prints until some tasks landed and the long one is under way."""
    shown = 0
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline and not has_ended(pid):
        shown = _show(output, shown)
        tasks = {task.id: task.status for task in _tasks()}
        landed = list(tasks.values()).count(TaskStatus.COMPLETED)
        if landed >= _LANDED_BEFORE_THE_KILL and tasks.get(_LONG_TASK) is TaskStatus.RUNNING:
            break
        time.sleep(_POLL_S)
    return shown


def _show(output: Path, shown: int) -> int:
    """Print the whole lines that are new in the runner's output and return how much has been shown."""
    data = output.read_bytes() if output.exists() else b""
    end = data.rfind(b"\n") + 1
    print(data[shown:end].decode(errors="replace"), end="", flush=True)
    return max(shown, end)


def _tasks() -> Sequence[TaskRow]:
    """Return the tasks of the newest run."""
    opened = open_read_only()
    runs = opened.runs()
    return opened.require_journal().load(runs[-1].row.run).tasks if runs else []


def _say(text: str) -> None:
    print(f"\n== {text}", flush=True)
