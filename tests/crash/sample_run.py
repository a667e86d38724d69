"""The run that the sweep breaks: a real repository, a real plan, and one small instance of all that a run can meet.

Two stages, two jobs, four tasks: two that conflict (the second resolves the conflict), one whose check fails once and
is mended, one more that makes the merged tree differ from the checked one; and an exit gate. The tasks' scripts look
only at the files they find, so they do the right thing however often a crash makes them begin again. The user's
checkout is dirty in every way: modified, staged and untracked files.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = "01-crash-sweep"
TASKS = {"left": "one", "right": "one", "flaky": "two", "last": "two"}
NEEDS = {"left": (), "right": (), "flaky": ("left", "right"), "last": ("left", "right")}
CHECKS = {"flaky": "test -f mended", "last": "test -f last"}
FILES = {"flaky": "flaky\n", "last": "last\n", "mended": "mended\n", "kept": "kept\n"}

# Each file is replaced as a whole: a torn one would be the agent's own doing, which nobody could set right.
_WRITE = (
    "set -e; rm -f .new; if grep -q '^<<<<<<<' shared; then sed '/^[<=>][<=>]/d' shared > .new; "
    "elif grep -q base shared; then echo NAME > .new; "
    "elif grep -q NAME shared; then exit; "
    "else cat shared > .new; echo NAME >> .new; fi; mv .new shared"
)
_MEND = "set -e; if test -f flaky; then echo mended > mended; fi; echo flaky > flaky"
PLAN = f"""\
holdfast: 1
goal: crash sweep
limits: {{jobs: 2, attempts: 6, retry_delay: 0s}}
stages:
  - id: one
    tasks:
      - {{id: left, run: [sh, -c, "{_WRITE.replace("NAME", "left")}"]}}
      - {{id: right, run: [sh, -c, "{_WRITE.replace("NAME", "right")}"]}}
  - id: two
    exit: ["{CHECKS["flaky"]}"]
    tasks:
      - {{id: flaky, needs: [left], run: [sh, -c, "{_MEND}"], verify: ["{CHECKS["flaky"]}"]}}
      - {{id: last, needs: [right], run: [sh, -c, "echo last > last"], verify: ["{CHECKS["last"]}"]}}
"""

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
