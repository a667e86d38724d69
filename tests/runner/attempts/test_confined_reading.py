"""What reads the files of a live agent can open the workspace and what git needs, and nothing of the user's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.status import SandboxLevel
from holdfast.process.landlock import landlock_obstacle
from holdfast.runner.attempts.confined_reading import read_confined
from holdfast.runner.sandbox import Sandbox
from holdfast.runner.sandbox_setting import SandboxSetting
from tests.support.command import Cli, eventually
from tests.support.repositories import Project, write
from tests.support.runs import DEADLINE_S
from tests.support.sandboxes import needs_sandbox

needs_landlock = pytest.mark.skipif(bool(landlock_obstacle()), reason=landlock_obstacle())


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a key, and a link to it in a workspace beside."""
    write(tmp_path / "home" / ".ssh" / "key", "secret")
    write(tmp_path / "home" / ".gitconfig", "[include]\n\tpath = more\n")
    write(tmp_path / "home" / "more", "[core]\n\tabbrev = 11\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    return tmp_path / "home"


@pytest.fixture
def sandbox(tmp_path: Path, home: Path) -> Sandbox:
    """The sandbox of a run with a workspace."""
    repo = Project.create(tmp_path / "p").open()
    directory = repo.state_dir.run("01-run")
    write(directory.workspaces / "0" / "file", "work")
    (directory.workspaces / "0" / "link").symlink_to(home / ".ssh")
    return Sandbox(repo, directory, SandboxSetting(SandboxLevel.STRICT), repo.resolve("HEAD"))


@needs_landlock
@pytest.mark.parametrize(
    "does",
    [
        lambda path: path.read_text(),
        lambda path: path.write_text(""),
        lambda path: path.unlink(),
        lambda path: path.rename(path.with_name("other")),
        lambda path: list(path.parent.iterdir()),
    ],
)
def test_a_link_leads_to_nothing_of_the_users(
    sandbox: Sandbox, home: Path, does: Callable[[Path], object]
) -> None:
    """It may appear at any moment in the place of a folder."""
    workspace = sandbox.directory.workspaces / "0"
    with pytest.raises(PermissionError):
        read_confined(sandbox, workspace, lambda: does(workspace / "link" / "key"))
    assert (home / ".ssh" / "key").read_text() == "secret"


@needs_landlock
def test_git_stores_what_is_in_the_workspace_and_not_what_a_link_leads_to(sandbox: Sandbox) -> None:
    """Git is started by that thread, and reads the user's settings, also those that they include."""
    git, workspace = sandbox.repo.private_git, sandbox.directory.workspaces / "0"

    def stored(name: str) -> tuple[int, str]:
        done = git.try_run("hash-object", "-w", str(workspace / name))
        return done.rc, done.stderr

    assert read_confined(sandbox, workspace, lambda: stored("file")) == (0, "")
    rc, said = read_confined(sandbox, workspace, lambda: stored("link/key"))
    assert (rc, "Permission denied" in said) == (128, True)


def test_who_called_may_open_everything_afterwards(sandbox: Sandbox, home: Path) -> None:
    """Only the thread was confined."""
    workspace = sandbox.directory.workspaces / "0"
    assert read_confined(sandbox, workspace, (workspace / "file").read_text) == "work"
    assert (home / ".ssh" / "key").read_text() == "secret"


@needs_sandbox
def test_the_work_of_a_live_agent_in_a_sandbox_is_saved(tmp_path: Path) -> None:
    """With its commits, ignored files that it staged, nested repositories, and files that it closed."""
    script = """
        echo a > a.txt; git add -A; git commit -qm one; echo b > b.txt; mkdir closed; echo c > closed/c; chmod 000 closed
        git init -q inner; echo d > inner/d; echo log > x.log; git add -f x.log; mkfifo wait; echo > there; read x < wait"""
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    runner = cli.start("run", "--yes", "--sandbox", "workspace")
    there = cli.here / ".holdfast" / "work" / "01-try-it" / "0" / "there"
    eventually(there.exists, "the agent is at work")
    assert cli("save").code == 0
    ref = cli.project.git("for-each-ref", "--format=%(refname)", "refs/holdfast/01-try-it/wip")
    files = cli.project.git("ls-tree", "-r", "--name-only", ref).split()
    assert {"a.txt", "b.txt", "closed/c", "inner/d", "x.log"} <= set(files)
    assert cli("stop").code == 0
    runner.wait(timeout=DEADLINE_S)
