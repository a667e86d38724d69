"""Files of another user in a workspace, as a container leaves them: they cost nobody an attempt, and stop no command."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command import COMMAND, Cli, Done, writes
from tests.support.repositories import PreparedWorkspace
from tests.support.runs import DEADLINE_S, Fifo
from tests.support.users import OTHER_USER, POWERLESS, powerless, require_root

PREPARE = """
import sys; from tests.support.repositories import RUN, Project; from pathlib import Path
from holdfast.repo.workspaces import Workspaces
repo = Project(Path(sys.argv[1])).open()
pool = Workspaces(repo, repo.state_dir.run(RUN).workspaces, clones=True)
print(pool.prepare("0", sys.argv[2]))
pool.remove_all()
"""


@dataclass(frozen=True, slots=True)
class Mixed:
    """A user whose agent works in a container that writes files as another user."""

    cli: Cli
    working: Fifo
    finish: Fifo

    @property
    def pool(self) -> Path:
        """The folder of the run's workspaces."""
        return self.cli.here / ".holdfast" / "work" / "01-try-it"

    def __call__(self, *args: str) -> Done:
        """Run a command with no more rights than an ordinary user has."""
        return powerless(self.cli.here, *COMMAND, *args)

    def run(self, mode: int = 0o755) -> int:
        """Run the plan. Meanwhile a folder of the other user, of this mode, appears in the workspace of task `a`."""
        argv = [*POWERLESS, *COMMAND, "run", "--yes", "--no-sandbox"]
        runner = subprocess.Popen(
            argv, cwd=self.cli.here, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self.working.wait()
        cache = self.pool / "0" / "cache"
        cache.mkdir(parents=True)
        (cache / "made.log").write_text("by root, say")
        cache.chmod(mode)
        for path in (cache / "made.log", cache):
            os.chown(path, OTHER_USER, OTHER_USER)
        self.finish.release()
        return runner.wait(DEADLINE_S * 2)


@pytest.fixture
def mixed(tmp_path: Path) -> Mixed:
    """A run of `a`, then `b` in the same workspace."""
    require_root()
    working, finish = Fifo(tmp_path / "working"), Fifo(tmp_path / "finish")
    script = f"echo a > a.txt; {working.give}; {finish.take}"
    cli = Cli.of(
        tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]}, writes("b", needs=["a"]), limits={"jobs": 1}
    )
    return Mixed(cli, working, finish)


@pytest.mark.parametrize("mode", [0o755, 0o700])
def test_the_next_task_gets_a_fresh_workspace(mixed: Mixed, mode: int) -> None:
    """What cannot be deleted is moved aside; no attempt fails for it, readable or not."""
    assert mixed.run(mode) == 0
    tasks = [mixed.cli.task(name) for name in ("a", "b")]
    assert [(task["status"], task["attempts"]) for task in tasks] == [("completed", 1)] * 2


def test_clean_says_what_it_had_to_leave_and_how_to_remove_it(mixed: Mixed) -> None:
    """All else is gone, and the command succeeds; the one that it names removes the rest."""
    assert mixed.run() == 0
    cleaned = mixed("clean", "1", "--yes")
    assert cleaned.code == 0, cleaned.err
    (named,) = [line for line in cleaned.out.splitlines() if "sudo rm -rf" in line]
    left = [path for path in mixed.pool.rglob("*") if path.is_file()]
    assert [path.name for path in left] == ["made.log"]
    subprocess.run(["sh", "-c", named.split("`")[1].removeprefix("sudo ")], check=True)
    assert not left[0].exists()
    assert mixed("status").code == 0


@pytest.mark.parametrize("command", ["discard", "abandon"])
def test_a_run_can_be_left(mixed: Mixed, command: str) -> None:
    """Its runner ended in the middle of `b`, which the user does not want any more."""
    mixed.cli.plan(
        {"id": "a", "run": ["sh", "-c", f"{mixed.working.give}; {mixed.finish.take}; exit 3"]},
        limits={"attempts": 1},
    )
    assert mixed.run() == 1
    left = mixed(command, "1", "--yes")
    assert left.code == 0, left.err
    assert mixed.cli.run_status() == "abandoned"
    assert mixed("doctor").code == 0


def test_closed_folders_of_ones_own_are_deleted(tmp_path: Path) -> None:
    """A cache of Go's modules is read-only all through. It is the user's own, and goes with the workspaces."""
    require_root()
    cache = "mkdir -p cache/mod/x; echo x > cache/mod/x/go.mod; chmod -R a-w cache; echo a > a.txt"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", cache]}, writes("b", needs=["a"]))
    cli.project.write(".gitignore", "cache/\n.holdfast/\nplan.yaml\n")
    done = powerless(cli.here, *COMMAND, "run", "--yes", "--no-sandbox")
    assert done.code == 0, done.err
    assert not (cli.here / ".holdfast" / "work" / "01-try-it").exists()
    assert "another user" not in powerless(cli.here, *COMMAND, "clean", "1", "--yes").out


def test_objects_of_anothers_git_in_a_clone_are_moved_aside(tmp_path: Path) -> None:
    """A container ran git as root in a workspace of the sandbox: its folder of objects can be neither emptied nor reused."""
    require_root()
    prepared = PreparedWorkspace.create(tmp_path / "p", clones=True)
    objects = prepared.workspace.git_dir / "objects" / "ab"
    objects.mkdir()
    (objects / ("c" * 38)).write_text("theirs")
    os.chown(objects, OTHER_USER, OTHER_USER)
    root = Path(__file__).parents[2]
    done = powerless(root, sys.executable, "-c", PREPARE, str(prepared.project.path), prepared.base)
    assert done.out.strip() == str(prepared.workspace.path), done.err
    left = [path for path in prepared.pool.directory.rglob("*") if path.is_file()]
    assert [path.name for path in left] == ["c" * 38]
