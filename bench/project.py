"""A small real repository with a plan of real tasks, driven through the command line as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bench.measurement import environment
from holdfast.core.status import TASK_IS_SETTLED
from holdfast.journal import open_reader
from holdfast.journal.protocol import JournalReader
from holdfast.paths import StateDir

_FILES = 20
_CHAINS = 8
_MAIN = "refs/heads/main"


class Project:
    """One repository; each task writes one file, and the plan needs no agent."""

    def __init__(self, checkout: Path) -> None:
        self.checkout = checkout
        self.plan = checkout.with_name("plan.json")
        self.state = StateDir.of_checkout(checkout)
        generate_repository(checkout, _FILES, 0)

    def write_plan(self, goal: str, tasks: int, work_s: float = 0.0) -> None:
        """Replace the plan beside the repository. Each task works for `work_s` before it writes.

        Its eight chains keep tasks from starting long before others land.
        """
        plan = {
            "holdfast": 1,
            "goal": goal,
            "limits": {"jobs": _CHAINS},
            "stages": [{"id": "only", "tasks": [_task(goal, number, work_s) for number in range(tasks)]}],
        }
        self.plan.write_bytes(msgspec.json.encode(plan))

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a `holdfast` command in the repository."""
        argv = [sys.executable, "-m", "holdfast", *words]
        return subprocess.Popen(argv, cwd=self.checkout, stdout=subprocess.DEVNULL, env=environment())

    def call(self, *words: str) -> None:
        """Run a `holdfast` command to its end. It must succeed."""
        code = self.start(*words).wait()
        assert code == 0, f"holdfast {' '.join(words)} ended with {code}"

    def completed(self) -> int:
        """Return how many tasks of the newest run have landed."""
        if not self.state.journal.exists():
            return 0
        reader = self.reader()
        runs = reader.runs()
        return (
            sum(task.status in TASK_IS_SETTLED for task in reader.load(runs[-1].row.run).tasks) if runs else 0
        )

    def reader(self) -> JournalReader:
        """Open the journal read-only."""
        return open_reader(self.state.journal)


def _task(goal: str, number: int, work_s: float) -> dict[str, object]:
    work = f"sleep {work_s}; " if work_s else ""
    return {
        "id": f"t{number}",
        "title": f"Task {number}",
        "run": ["sh", "-c", f"{work}echo {goal} > new-{number}.txt"],
        "needs": [f"t{number - _CHAINS}"] if number >= _CHAINS else [],
    }


def generate_repository(checkout: Path, files: int, branches: int) -> None:
    """Make a repository with branches `t0`, `t1` … that each change a different file."""
    checkout.mkdir()
    run_git(checkout, "init", "-q", "-b", "main")
    stream = "".join(_commits(files, branches)).encode()
    subprocess.run(["git", "-C", checkout, "fast-import", "--quiet"], input=stream, check=True)
    run_git(checkout, "reset", "-q", "--hard", "main")


def _commits(files: int, branches: int) -> Iterator[str]:
    yield _commit(_MAIN, "", (f"d{i // 50}/f{i}.txt" for i in range(files)), "line\n" * 20)
    for branch in range(branches):
        number = branch * files // branches
        yield _commit(
            f"refs/heads/t{branch}", _MAIN, [f"d{number // 50}/f{number}.txt"], f"changed {branch}\n"
        )


def _commit(ref: str, parent: str, paths: Iterator[str] | list[str], content: str) -> str:
    who = "committer Bench <bench@localhost> 1700000000 +0000"
    start = f"from {parent}\n" if parent else ""
    changes = "".join(f"M 100644 inline {path}\ndata {len(content)}\n{content}\n" for path in paths)
    return f"commit {ref}\n{who}\ndata 2\nx\n{start}{changes}\n"


def run_git(where: Path, *args: str) -> str:
    """Run git with a fixed author and none of the user's configuration; return its output."""
    who = {f"GIT_{role}_{what}": "bench" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-C", where, *args], env=env, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
