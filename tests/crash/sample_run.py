"""The runs that the sweep breaks: a real repository, and small plans with one instance of all that a run can meet.

Each plan is small, because every point of it is broken, and a cycle costs as much as its plan. A crash must not do
anything twice, so the commands are not idempotent: they append, toggle a file, commit by themselves. A command whose own
write fails ends by a signal, like one that was cut short. The agent goes on from what it finds. The user's checkout is
dirty in every way: modified, staged and untracked files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdfast.core.status import SandboxLevel
from holdfast.runner.sandbox_setting import SANDBOX_VARIABLE

ROOT = Path(__file__).parents[2]
RUN = "01-crash-sweep"
LIMITS = {"jobs": 2, "attempts": 6, "retry_delay": "0s"}


@dataclass(frozen=True, slots=True)
class SampleTask:
    """A task: its entry of the plan, what lands before it, and the line of a file that its check looks for."""

    id: str
    entry: Mapping[str, Any]
    after: tuple[str, ...] = ()
    check: tuple[str, str] | None = None

    def plan_entry(self) -> dict[str, Any]:
        """Return the task as the plan file has it."""
        return {"id": self.id, **self.entry, **({"verify": [_grep(self.check)]} if self.check else {})}


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """A plan, and what git must show in the end: the lines of each file, and commits that tasks made themselves."""

    stages: tuple[tuple[SampleTask, ...], ...]
    lines: Mapping[str, tuple[str, ...]]
    own_commits: tuple[str, ...] = ()
    agents: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=lambda: LIMITS)
    gate: tuple[str, str] | None = None

    def tasks(self) -> Iterator[SampleTask]:
        """Yield the tasks, in plan order."""
        for stage in self.stages:
            yield from stage

    def text(self) -> str:
        """Return the plan file; JSON is YAML."""
        stages: list[dict[str, Any]] = [
            {"id": f"stage-{number}", "tasks": [task.plan_entry() for task in tasks]}
            for number, tasks in enumerate(self.stages, 1)
        ]
        if self.gate:
            stages[0]["exit"] = [_grep(self.gate)]
        plan = {
            "holdfast": 1,
            "goal": "crash sweep",
            "limits": self.limits,
            "agents": self.agents,
            "stages": stages,
        }
        return json.dumps(plan, indent=1)


def _grep(wanted: tuple[str, str]) -> str:
    file, line = wanted
    return f"grep -qx {line} {file}"


def command(script: str) -> dict[str, Any]:
    """Return the entry of a task that is a command. If the script itself fails, a signal ends it."""
    return {"run": ["sh", "-c", f"{{ {script}; }} || kill -9 $$"]}


RESOLVE = "sed '/^[<=>][<=>]/d' shared > .new && mv .new shared"
"""What resolves a conflict in `shared` so that both sides stay."""


def _append_to_shared(name: str) -> SampleTask:
    return SampleTask(
        name, command(f"if grep -q '^<<<<<<<' shared; then {RESOLVE}; else echo {name} >> shared; fi")
    )


# What it writes is replaced as a whole: a torn file would be the agent's own doing, which nobody could set right.
_GO_ON = (
    "rm -f .new && if test ! -f log; then echo first > .new; "
    "elif ! grep -qx second log; then cat log > .new && echo second >> .new; "
    "else exit 0; fi && mv .new log"
)

CONFLICT = SamplePlan(
    stages=((_append_to_shared("left"), _append_to_shared("right")),),
    lines={"shared": ("base", "left", "right"), "kept": ("kept",)},
)
"""Two commands that append to one file: the second meets a conflict and resolves it."""

COMMANDS = SamplePlan(
    stages=(
        (
            SampleTask(
                "toggle", command("if test -f on; then rm on; else echo on > on; fi"), check=("on", "on")
            ),
            SampleTask(
                "commit",
                command("echo own >> own && git add own && git commit -qm own"),
                check=("own", "own"),
            ),
        ),
    ),
    lines={"shared": ("base",), "kept": ("kept",), "on": ("on",), "own": ("own",)},
    own_commits=("own",),
)
"""One toggles a file, one commits by itself. The tree that the second to land makes is checked once more."""

AGENTS = SamplePlan(
    stages=(
        (SampleTask("build", {"agent": "builder", "prompt": "build it"}, check=("log", "second")),),
        (SampleTask("last", command("echo last >> last"), after=("build",)),),
    ),
    lines={"shared": ("base",), "kept": ("kept",), "log": ("first", "second"), "last": ("last",)},
    agents={"builder": {"command": ["sh", "-c", _GO_ON], "prompt": "file"}},
    gate=("log", "first"),
)
"""An agent that does one step an attempt, so that its check fails once; a gate; a second stage."""

_CALL = (
    "if test $HOLDFAST_ATTEMPT_NUMBER = 1; then {down}; exit 1; fi; "
    "{up} && echo $HOLDFAST_TASK > .new && mv .new $HOLDFAST_TASK && {end}"
).format(
    down="""echo '{"type":"result","is_error":true,"api_error_status":503,"result":"API Error: 503"}'""",
    up="""echo '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"on it"}]}}'""",
    end="""echo '{"type":"result","is_error":false,"result":"done"}'""",
)
OUTAGE = SamplePlan(
    stages=(
        (
            SampleTask("one", {"agent": "caller", "prompt": "call"}, check=("one", "one")),
            SampleTask("two", {"agent": "caller", "prompt": "call"}, check=("two", "two")),
        ),
    ),
    lines={"shared": ("base",), "kept": ("kept",), "one": ("one",), "two": ("two",)},
    agents={"caller": {"command": ["sh", "-c", _CALL], "stream": "claude", "prompt": "file"}},
    limits={**LIMITS, "limit_wait": 0.1},
)
"""Two agents whose provider is out of reach when they first call it; then one of them finds out that it is back."""

PLAN = CONFLICT.text()

HOLDFAST = (sys.executable, "-m", "holdfast")
PLANTED = (sys.executable, "-m", "tests.crash.planted_bugs")
START = ("run", "plan.yaml", "--yes", "--json")
CARRY_ON = ("resume", "--yes", "--json")
PREVIEW = ("resume", "--dry-run", "--json")
STATUS = ("status", "--json")


def environment() -> dict[str, str]:
    """Return an environment in which nothing of this machine's own settings takes part."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "HOLDFAST_"))}
    return kept | {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
        "NO_COLOR": "1",
        SANDBOX_VARIABLE: os.environ.get(SANDBOX_VARIABLE, SandboxLevel.OFF),
    }


def git(repository: Path, *args: str) -> str:
    """Run the user's git and return what it printed."""
    made = subprocess.run(
        ["git", "-C", str(repository), *args],
        env=environment() | {"GIT_OPTIONAL_LOCKS": "0"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if made.returncode != 0:
        raise AssertionError(f"git {' '.join(args)} failed with {made.returncode}: {made.stderr}")
    return made.stdout


def make_template(path: Path, plan: str = PLAN) -> None:
    """Make the repository as it is before the run. It knows no worktrees, so it works wherever it is copied to."""
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", "main")
    git(path, "config", "user.name", "Ada")
    git(path, "config", "user.email", "ada@example.org")
    (path / "shared").write_text("base\n")
    (path / "kept").write_text("kept\n")
    git(path, "add", ".")
    git(path, "commit", "-q", "-m", "start")
    (path / "kept").write_text("edited by the user\n")
    (path / "untracked").write_text("the user's notes\n")
    (path / "staged").write_text("the user's next commit\n")
    git(path, "add", "staged")
    (path / "plan.yaml").write_text(plan)


def copy(source: Path, target: Path) -> None:
    """Copy a repository with its time stamps, which its index compares with."""
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


@dataclass(frozen=True, slots=True)
class Checkout:
    """All that is the user's: bytes and time stamp of each file, the index, HEAD, configuration and own refs."""

    files: dict[str, tuple[int, bytes]]

    @classmethod
    def of(cls, repository: Path) -> Checkout:
        """Look at a repository."""
        theirs = [path for path in repository.rglob("*") if path.is_file() and not _is_ours(path, repository)]
        own = [repository / ".git" / name for name in ("index", "HEAD", "config", "refs/heads/main")]
        return cls(
            {str(p.relative_to(repository)): (p.stat().st_mtime_ns, p.read_bytes()) for p in [*theirs, *own]}
        )

    def differences(self, other: Checkout) -> list[str]:
        """Return what is not the same in both."""
        return sorted(
            name
            for name in self.files.keys() | other.files.keys()
            if self.files.get(name) != other.files.get(name)
        )


def _is_ours(path: Path, repository: Path) -> bool:
    return path.relative_to(repository).parts[0] in (".git", ".holdfast")
