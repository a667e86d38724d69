"""The workspaces of a run that is over: the user does not wait for their deletion, and a kill leaves nothing for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.runner.task_workspaces import remove_soon
from tests.support.command import Cli, eventually, writes
from tests.support.repositories import PreparedWorkspace


@pytest.mark.parametrize("clones", [False, True], ids=["worktree", "clone"])
def test_who_must_not_wait_leaves_the_deletion_to_another_process(tmp_path: Path, clones: bool) -> None:
    """At once, nothing is a workspace any more, for us and for git; a moment later, nothing is there."""
    prepared = PreparedWorkspace.create(tmp_path / "p", clones=clones)
    remove_soon(prepared.pool, at_once_s=0)
    assert prepared.pool.names() == []
    assert len(prepared.project.git("worktree", "list").splitlines()) == 1
    eventually(lambda: not prepared.pool.directory.exists(), "the folders are deleted")


def test_a_small_run_leaves_nothing_to_delete_later(tmp_path: Path) -> None:
    """What takes a moment is done before the command ends."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("closed/file.txt", "1\n")
    (prepared.workspace.path / "closed").chmod(0o500)
    remove_soon(prepared.pool, at_once_s=60)
    assert not prepared.pool.directory.exists()


@pytest.mark.parametrize(
    "command", [("doctor", "--fix"), ("resume", "1"), ("clean", "1", "--yes")], ids=" ".join
)
def test_what_a_killed_deletion_left_is_deleted_by_the_next_command(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """The folders were moved aside, so everybody knows that nothing needs them."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert cli("run", "--yes").code == 0
    left = tmp_path / "p/.holdfast/work/01-try-it/.removed-0-12345678"
    (left / "src").mkdir(parents=True)
    (left / "src" / "file.txt").touch()
    assert cli(*command).code == 0
    assert not left.exists()
