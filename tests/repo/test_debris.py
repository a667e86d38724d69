"""Debris of killed git commands: every kind is removed or named, and the user's own locks stay."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from holdfast.core.ids import task_ref
from holdfast.repo.debris import clear_debris
from holdfast.repo.files import write_atomically
from holdfast.repo.landing import move_branch
from holdfast.repo.workspace_commit import agent_head
from tests.support.repositories import RUN, PreparedWorkspace

SHARED = (
    "packed-refs.lock",
    "packed-refs.new",
    "config.lock",
    "HEAD.lock",
    "gc.pid",
    "objects/maintenance.lock",
    "shallow.lock",
    "refs/heads/main.lock",
    "refs/tags/deep/v1.lock",
)


def clear(prepared: PreparedWorkspace, *in_use: str) -> str:
    """Clear debris and return what was said."""
    return "\n".join(clear_debris(prepared.repo, prepared.pool, in_use))


def leave(prepared: PreparedWorkspace, name: str) -> Path:
    """Leave an empty file in the git directory, as a killed command does."""
    path = prepared.project.git_dir / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_a_healthy_repository_has_no_debris(tmp_path: Path) -> None:
    """Nothing is done and nothing is said."""
    assert clear(PreparedWorkspace.create(tmp_path / "p")) == ""


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_lock_is_removed_when_no_git_runs(tmp_path: Path, name: str) -> None:
    """Each is named; a second time there is nothing left."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    path = leave(prepared, name)
    assert f"Removed {path}" in clear(prepared)
    assert not path.exists()
    assert clear(prepared) == ""


def test_a_shared_lock_stays_while_git_runs_here(tmp_path: Path) -> None:
    """A live command may own it, wherever in the repository it was started."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    path = leave(prepared, "packed-refs.lock")
    command = ["git", "cat-file", "--batch"]
    with subprocess.Popen(
        command, cwd=prepared.workspace.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as alive:
        assert alive.stdin
        assert alive.stdout
        alive.stdin.write(b"HEAD\n")
        alive.stdin.flush()
        alive.stdout.readline()
        said = clear(prepared)
        alive.stdin.close()
    assert f"git is running (process {alive.pid})" in said
    assert path.exists()


def test_git_at_work_in_another_repository_does_not_matter(tmp_path: Path) -> None:
    """Only this repository's processes count."""
    prepared, other = PreparedWorkspace.create(tmp_path / "p"), PreparedWorkspace.create(tmp_path / "other")
    path = leave(prepared, "packed-refs.lock")
    command = ["git", "cat-file", "--batch"]
    with subprocess.Popen(
        command, cwd=other.project.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as alive:
        assert alive.stdin
        clear(prepared)
        alive.stdin.close()
    assert not path.exists()


def test_the_users_index_lock_is_never_touched(tmp_path: Path) -> None:
    """An editor or a waiting commit may own it."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    path = leave(prepared, "index.lock")
    assert clear(prepared) == ""
    assert path.exists()


def test_a_run_can_land_again_after_its_locks_are_cleared(tmp_path: Path) -> None:
    """Locks on the run's own refs go, whatever else runs."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    leave(prepared, f"refs/heads/holdfast/{RUN}.lock")
    leave(prepared, f"refs/holdfast/{RUN}/wip/T1.lock")
    assert clear(prepared).count("Removed") == 2
    assert move_branch(prepared.repo, f"refs/heads/holdfast/{RUN}", prepared.base, "")


def test_an_empty_commondir_of_ours_is_healed(tmp_path: Path) -> None:
    """A single empty file stops git in the whole repository; afterwards it works again."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    (prepared.workspace.git_dir / "commondir").write_text("")
    assert "Repaired" in clear(prepared)
    prepared.project.git("worktree", "list")
    prepared.project.git("branch", "works")
    assert prepared.pool.is_intact("0")


def test_an_empty_commondir_of_somebody_else_is_named(tmp_path: Path) -> None:
    """It is not ours to delete, but the user learns what stops git."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    foreign = leave(prepared, "worktrees/theirs/commondir")
    assert f"delete {foreign.parent}" in clear(prepared)
    assert foreign.exists()


def test_a_half_made_workspace_is_repaired_without_losing_its_files(tmp_path: Path) -> None:
    """Locks and a HEAD of zeros go; the agent's uncommitted work and index stay."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("work.txt", "precious\n")
    (prepared.workspace.git_dir / "locked").write_text("initializing")
    (prepared.workspace.git_dir / "index.lock").touch()
    (prepared.workspace.git_dir / "HEAD").write_text("0" * 40)
    (prepared.workspace.path / ".git").unlink()
    assert "Repaired workspace 0" in clear(prepared)
    assert prepared.agent("status", "--porcelain") == "?? work.txt"
    assert prepared.project.git("fsck", "--strict") == ""


def test_an_agents_own_commit_survives_the_repair(tmp_path: Path) -> None:
    """HEAD is the only thing that leads to it."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    own = prepared.agent_commits("one.txt", "1\n")
    (prepared.workspace.git_dir / "commondir").write_text("")
    (prepared.workspace.git_dir / "HEAD.lock").touch()
    clear(prepared)
    assert agent_head(prepared.repo, prepared.workspace, task_ref(RUN, "T1", 1)) == own


def test_a_workspace_without_its_directory_is_forgotten(tmp_path: Path) -> None:
    """What git still knows of it goes."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    shutil.rmtree(prepared.workspace.path)
    assert "workspace 0" in clear(prepared)
    assert prepared.pool.names() == []
    assert len(prepared.project.git("worktree", "list").splitlines()) == 1


def test_a_directory_without_its_git_files_is_left_for_the_next_preparation(tmp_path: Path) -> None:
    """Its files are not deleted here; preparing makes it whole."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("work.txt", "precious\n")
    shutil.rmtree(prepared.workspace.git_dir)
    clear(prepared)
    assert (prepared.workspace.path / "work.txt").exists()
    prepared.pool.prepare("0", prepared.base)
    assert prepared.pool.is_intact("0")


def test_a_workspace_in_use_is_not_touched(tmp_path: Path) -> None:
    """A live agent's lock is its own."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    lock = prepared.workspace.git_dir / "index.lock"
    lock.touch()
    assert clear(prepared, "0") == ""
    assert lock.exists()


def test_leftovers_of_a_killed_capture_are_removed(tmp_path: Path) -> None:
    """Temporary indexes and half-made directories of this pool go."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    index = prepared.workspace.index
    write_to = index.with_name(f"{index.name}.capture-abc")
    write_to.mkdir()
    index.with_name(f"{index.name}.lock").touch()
    assert clear(prepared).count("Removed") == 2
    assert prepared.pool.leftovers() == []
    assert index.exists()


def test_a_file_that_cannot_be_written_leaves_no_draft_and_is_named(tmp_path: Path) -> None:
    """The folders are the user's: a failed write leaves them as they were, and the error says which file it was."""
    target = tmp_path / "state.json"
    target.mkdir()
    with pytest.raises(OSError, match=r"state\.json") as caught:
        write_atomically(target, b"{}")
    assert caught.value.filename == str(target)
    assert list(tmp_path.iterdir()) == [target]
