"""Workspaces: made whole, reused clean, repaired from any state, and never deleting elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import RepositoryError
from holdfast.repo.checkout import workspace_changes
from holdfast.repo.workspaces import Workspaces
from tests.support.repositories import PreparedWorkspace, Project, git


def assert_pristine(bench: PreparedWorkspace) -> None:
    """The workspace holds exactly the base commit, detached, and the repository is healthy."""
    assert bench.pool.is_intact("0")
    assert bench.agent("rev-parse", "HEAD") == bench.base
    assert bench.agent("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    assert bench.agent("status", "--porcelain", "--ignored") == ""
    assert sorted(path.name for path in bench.slot.path.iterdir()) == [".git", ".gitignore", "a.txt", "src"]
    assert bench.project.git("worktree", "list")
    assert bench.project.git("fsck", "--strict") == ""


def test_a_new_workspace_holds_the_commit_and_git_works_in_it(tmp_path: Path) -> None:
    """An agent finds an ordinary worktree on no branch."""
    assert_pristine(PreparedWorkspace.create(tmp_path / "p"))


def test_a_used_workspace_is_clean_again(tmp_path: Path) -> None:
    """Changed, deleted, new, ignored and nested files are all gone after the next preparation."""
    bench = PreparedWorkspace.create(tmp_path / "p")
    bench.agent_commits("new.txt", "new\n")
    bench.agent("checkout", "-q", "-b", "mine")
    bench.agent_writes("a.txt", "changed\n")
    bench.agent_writes("trace.log", "ignored\n")
    bench.agent("init", "-q", "nested")
    bench.agent_writes("nested/deep/file", "x")
    shutil.rmtree(bench.slot.path / "src")
    bench.pool.prepare("0", bench.base)
    assert_pristine(bench)


def test_the_next_commit_replaces_files_by_directories_and_back(tmp_path: Path) -> None:
    """Reuse for another commit gives exactly that commit."""
    bench = PreparedWorkspace.create(tmp_path / "p")
    bench.project.git("rm", "-q", "-r", "src")
    bench.project.write("src", "a file now\n")
    other = bench.project.commit("swap")
    bench.pool.prepare("0", other)
    assert bench.agent("status", "--porcelain") == ""
    assert (bench.slot.path / "src").read_text() == "a file now\n"
    bench.pool.prepare("0", bench.base)
    assert_pristine(bench)


def _sparse(bench: PreparedWorkspace) -> None:
    bench.agent("sparse-checkout", "set", "src")


def _half_merge(bench: PreparedWorkspace) -> None:
    (bench.slot.git_dir / "MERGE_HEAD").write_text(bench.base)
    (bench.slot.git_dir / "sequencer").mkdir()


def _hidden_edit(bench: PreparedWorkspace) -> None:
    bench.agent("update-index", "--assume-unchanged", "a.txt")
    bench.agent("update-index", "--skip-worktree", "src/b.txt")
    bench.agent_writes("a.txt", "hidden\n")
    bench.agent_writes("src/b.txt", "hidden\n")


def _locks(bench: PreparedWorkspace) -> None:
    for name in ("index.lock", "HEAD.lock", "locked"):
        (bench.slot.git_dir / name).write_text("initializing")
    bench.slot.index.with_name(bench.slot.index.name + ".lock").touch()


def _empty_commondir(bench: PreparedWorkspace) -> None:
    (bench.slot.git_dir / "commondir").write_text("")


def _zero_head(bench: PreparedWorkspace) -> None:
    (bench.slot.git_dir / "HEAD").write_text("0" * 40 + "\n")


def _no_directory(bench: PreparedWorkspace) -> None:
    shutil.rmtree(bench.slot.path)


def _no_admin(bench: PreparedWorkspace) -> None:
    shutil.rmtree(bench.slot.git_dir)


def _moved_pointer(bench: PreparedWorkspace) -> None:
    (bench.slot.path / ".git").write_text(f"gitdir: {bench.project.git_dir}\n")


def _own_repository(bench: PreparedWorkspace) -> None:
    (bench.slot.path / ".git").unlink()
    bench.agent("init", "-q")


def _damaged_index(bench: PreparedWorkspace) -> None:
    bench.slot.index.write_bytes(b"not an index")


def _planted_config(bench: PreparedWorkspace) -> None:
    (bench.slot.git_dir / "config.worktree").write_text("[core]\n\tsparseCheckout = true\n")


def _half_deleted(bench: PreparedWorkspace) -> None:
    shutil.rmtree(bench.slot.path / "src")
    (bench.slot.path / ".git").unlink()


DAMAGES = [
    _sparse,
    _half_merge,
    _hidden_edit,
    _locks,
    _empty_commondir,
    _zero_head,
    _no_directory,
    _no_admin,
    _moved_pointer,
    _own_repository,
    _damaged_index,
    _planted_config,
    _half_deleted,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__.strip("_"))
def test_preparing_repairs(tmp_path: Path, damage: Callable[[PreparedWorkspace], None]) -> None:
    """Whatever a kill or an agent left, the next preparation gives a whole workspace."""
    bench = PreparedWorkspace.create(tmp_path / "p")
    damage(bench)
    bench.pool.prepare("0", bench.base)
    assert_pristine(bench)
    assert not list(bench.slot.git_dir.glob("*lock*"))
    assert not (bench.slot.git_dir / "config.worktree").exists()


def test_a_workspace_replaced_by_a_link_never_empties_the_target(tmp_path: Path) -> None:
    """The link goes; what it points at stays."""
    bench = PreparedWorkspace.create(tmp_path / "p")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    shutil.rmtree(bench.slot.path)
    bench.slot.path.symlink_to(precious)
    bench.pool.prepare("0", bench.base)
    assert (precious / "file").read_text() == "keep"
    assert_pristine(bench)


def test_a_pool_reached_through_a_link_is_refused(tmp_path: Path) -> None:
    """The same trick one level higher stops the run instead."""
    bench = PreparedWorkspace.create(tmp_path / "p")
    precious = tmp_path / "precious"
    (precious / "0").mkdir(parents=True)
    (precious / "0" / "file").write_text("keep")
    shutil.rmtree(bench.pool.directory)
    bench.pool.directory.symlink_to(precious)
    for action in (lambda: bench.pool.prepare("0", bench.base), bench.pool.remove_all):
        with pytest.raises(RepositoryError, match="symbolic link"):
            action()
    assert (precious / "0" / "file").read_text() == "keep"


def test_two_runs_make_their_pools_at_once(tmp_path: Path) -> None:
    """Equal names of two runs do not collide, and parallel preparation leaves all of them whole."""
    bench = PreparedWorkspace.create(tmp_path / "p")
    pools = [Workspaces(bench.repo, bench.repo.state.run(run).workspaces) for run in ("02-x", "03-y")]
    jobs = [(pool, str(slot)) for pool in pools for slot in range(4)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda job: job[0].prepare(job[1], bench.base), jobs))
    assert all(pool.is_intact(name) for pool, name in jobs)
    assert len({pool.git_dir(name) for pool, name in jobs}) == 8
    assert len(bench.project.git("worktree", "list").splitlines()) == 10


def test_an_intact_workspace_is_told_from_a_broken_one(tmp_path: Path) -> None:
    """Recovery re-attaches only to workspaces in which git works."""
    bench = PreparedWorkspace.create(tmp_path / "p")
    assert bench.pool.is_intact("0")
    assert not bench.pool.is_intact("1")
    _zero_head(bench)
    assert not bench.pool.is_intact("0")


def test_removing_the_pool_leaves_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    """No directory, no administrative files, no index; also if some are gone already."""
    bench = PreparedWorkspace.create(tmp_path / "p")
    bench.pool.prepare("landing", bench.base)
    assert bench.pool.names() == ["0", "landing"]
    shutil.rmtree(bench.slot.path)
    bench.pool.remove_all()
    bench.pool.remove_all()
    assert bench.pool.names() == []
    assert not bench.pool.directory.exists()
    assert len(bench.project.git("worktree", "list").splitlines()) == 1


def test_changes_in_an_idle_workspace_are_seen(tmp_path: Path) -> None:
    """Something that writes where nobody works is noticed."""
    bench = PreparedWorkspace.create(tmp_path / "p")
    assert workspace_changes(bench.repo, bench.slot) == ()
    bench.agent_writes("a.txt", "intruder\n")
    bench.agent_writes("x.txt", "intruder\n")
    assert workspace_changes(bench.repo, bench.slot) == ("a.txt", "x.txt")


def test_write_protected_directories_do_not_stop_the_next_task(tmp_path: Path) -> None:
    """Package caches that take away write access are cleaned like anything else."""
    bench = PreparedWorkspace.create(tmp_path / "p")
    bench.agent_writes("cache/module/file", "x")
    (bench.slot.path / "cache" / "module").chmod(0o555)
    bench.pool.prepare("0", bench.base)
    assert_pristine(bench)


def test_a_submodule_that_an_agent_checked_out_is_empty_again(tmp_path: Path) -> None:
    """Git would leave its files to the next task; and a link put in its way leads to no deletion elsewhere."""
    bench, library = PreparedWorkspace.create(tmp_path / "p"), Project.create(tmp_path / "lib")
    allow = ("-c", "protocol.file.allow=always", "submodule")
    bench.project.git(*allow, "add", "-q", str(library.path), "vendor/lib")
    commit = bench.project.commit("submodule")
    bench.pool.prepare("0", commit)
    bench.agent(*allow, "update", "-q", "--init")
    assert (bench.slot.path / "vendor" / "lib" / "a.txt").exists()
    bench.pool.prepare("0", commit)
    assert list((bench.slot.path / "vendor" / "lib").iterdir()) == []
    assert bench.agent("status", "--porcelain") == ""
    shutil.rmtree(bench.slot.path / "vendor")
    (bench.slot.path / "vendor").symlink_to(library.path.parent)
    bench.pool.prepare("0", commit)
    assert (library.path / "a.txt").exists()


def test_the_agents_stash_and_branches_survive(tmp_path: Path) -> None:
    """They are the repository's, not the workspace's."""
    bench = PreparedWorkspace.create(tmp_path / "p")
    bench.agent("checkout", "-q", "-b", "idea")
    kept = bench.agent_commits("idea.txt", "x")
    bench.pool.prepare("0", bench.base)
    assert git(bench.project.path, "rev-parse", "idea") == kept
