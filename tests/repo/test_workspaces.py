"""Workspaces: made whole, reused clean, repaired from any state, and never deleting elsewhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from holdfast.errors import RepositoryError
from holdfast.repo.workspace import workspace_changes
from holdfast.repo.workspaces import Workspaces
from tests.crash.power_models import NamesOnly, synced
from tests.support.power_cut import after_power_cut
from tests.support.repositories import PreparedWorkspace, Project, git


def assert_pristine(prepared: PreparedWorkspace) -> None:
    """The workspace holds exactly the base commit, detached, and the repository is healthy."""
    assert prepared.pool.is_intact("0")
    assert prepared.agent("rev-parse", "HEAD") == prepared.base
    assert prepared.agent("rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    assert prepared.agent("status", "--porcelain", "--ignored") == ""
    assert sorted(path.name for path in prepared.workspace.path.iterdir()) == [
        ".git",
        ".gitignore",
        "a.txt",
        "src",
    ]
    assert prepared.project.git("worktree", "list")
    assert prepared.project.git("fsck", "--strict") == ""


def test_a_new_workspace_holds_the_commit_and_git_works_in_it(tmp_path: Path) -> None:
    """An agent finds an ordinary worktree on no branch."""
    assert_pristine(PreparedWorkspace.create(tmp_path / "p"))


def test_a_used_workspace_is_clean_again(tmp_path: Path) -> None:
    """Changed, deleted, new, ignored and nested files are all gone after the next preparation."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_commits("new.txt", "new\n")
    prepared.agent("checkout", "-q", "-b", "mine")
    prepared.agent_writes("a.txt", "changed\n")
    prepared.agent_writes("trace.log", "ignored\n")
    prepared.agent("init", "-q", "nested")
    prepared.agent_writes("nested/deep/file", "x")
    shutil.rmtree(prepared.workspace.path / "src")
    prepared.pool.prepare("0", prepared.base)
    assert_pristine(prepared)


def test_what_is_called_git_in_a_tracked_folder_does_not_stay(tmp_path: Path) -> None:
    """Git never looks at that name, so it would lie there for whoever comes next."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("src/.git/planted", "x")
    prepared.pool.prepare("0", prepared.base)
    assert not (prepared.workspace.path / "src" / ".git").exists()


def test_a_change_that_git_takes_for_none_does_not_stay(tmp_path: Path) -> None:
    """A keyword of the same length, written in the second of the preparation: what git would store is the same."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.project.write(".gitattributes", "*.txt ident\n")
    prepared.project.write("keyword.txt", "$Id$\n")
    commit = prepared.project.commit("keyword")
    keyword = prepared.pool.prepare("0", commit) / "keyword.txt"
    before = keyword.read_text()
    for _ in range(3):
        keyword.write_text(f"$Id: {'a' * (len(before) - len('$Id:  $') - 1)} $\n")
        prepared.pool.prepare("0", commit)
        assert keyword.read_text() == before


def test_an_index_that_somebody_rewrote_is_not_believed(tmp_path: Path) -> None:
    """It could say of a changed file that git need not look at it."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    index = prepared.workspace.index
    prepared.agent_writes("a.txt", "planted\n")
    prepared.repo.private_git.run("update-index", "--skip-worktree", "a.txt", index=index)
    prepared.pool.prepare("0", prepared.base)
    assert_pristine(prepared)
    assert (prepared.workspace.path / "a.txt").read_text() != "planted\n"


def test_the_next_commit_replaces_files_by_directories_and_back(tmp_path: Path) -> None:
    """Reuse for another commit gives exactly that commit."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.project.git("rm", "-q", "-r", "src")
    prepared.project.write("src", "a file now\n")
    other = prepared.project.commit("swap")
    prepared.pool.prepare("0", other)
    assert prepared.agent("status", "--porcelain") == ""
    assert (prepared.workspace.path / "src").read_text() == "a file now\n"
    prepared.pool.prepare("0", prepared.base)
    assert_pristine(prepared)


def _sparse(prepared: PreparedWorkspace) -> None:
    prepared.agent("sparse-checkout", "set", "src")


def _half_merge(prepared: PreparedWorkspace) -> None:
    (prepared.workspace.git_dir / "MERGE_HEAD").write_text(prepared.base)
    (prepared.workspace.git_dir / "sequencer").mkdir()


def _hidden_edit(prepared: PreparedWorkspace) -> None:
    prepared.agent("update-index", "--assume-unchanged", "a.txt")
    prepared.agent("update-index", "--skip-worktree", "src/b.txt")
    prepared.agent_writes("a.txt", "hidden\n")
    prepared.agent_writes("src/b.txt", "hidden\n")


def _locks(prepared: PreparedWorkspace) -> None:
    for name in ("index.lock", "HEAD.lock", "locked"):
        (prepared.workspace.git_dir / name).write_text("initializing")
    prepared.workspace.index.with_name(prepared.workspace.index.name + ".lock").touch()


def _empty_commondir(prepared: PreparedWorkspace) -> None:
    (prepared.workspace.git_dir / "commondir").write_text("")


def _zero_head(prepared: PreparedWorkspace) -> None:
    (prepared.workspace.git_dir / "HEAD").write_text("0" * 40 + "\n")


def _no_directory(prepared: PreparedWorkspace) -> None:
    shutil.rmtree(prepared.workspace.path)


def _no_admin(prepared: PreparedWorkspace) -> None:
    shutil.rmtree(prepared.workspace.git_dir)


def _moved_pointer(prepared: PreparedWorkspace) -> None:
    (prepared.workspace.path / ".git").write_text(f"gitdir: {prepared.project.git_dir}\n")


def _own_repository(prepared: PreparedWorkspace) -> None:
    (prepared.workspace.path / ".git").unlink()
    prepared.agent("init", "-q")


def _damaged_index(prepared: PreparedWorkspace) -> None:
    prepared.workspace.index.write_bytes(b"not an index")


def _planted_config(prepared: PreparedWorkspace) -> None:
    (prepared.workspace.git_dir / "config.worktree").write_text("[core]\n\tsparseCheckout = true\n")


def _half_deleted(prepared: PreparedWorkspace) -> None:
    shutil.rmtree(prepared.workspace.path / "src")
    (prepared.workspace.path / ".git").unlink()


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
    prepared = PreparedWorkspace.create(tmp_path / "p")
    damage(prepared)
    prepared.pool.prepare("0", prepared.base)
    assert_pristine(prepared)
    assert not list(prepared.workspace.git_dir.glob("*lock*"))
    assert not (prepared.workspace.git_dir / "config.worktree").exists()


def test_a_workspace_replaced_by_a_link_never_empties_the_target(tmp_path: Path) -> None:
    """The link goes; what it points at stays."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("keep")
    shutil.rmtree(prepared.workspace.path)
    prepared.workspace.path.symlink_to(precious)
    prepared.pool.prepare("0", prepared.base)
    assert (precious / "file").read_text() == "keep"
    assert_pristine(prepared)


def test_a_link_in_place_of_the_pool_is_replaced(tmp_path: Path) -> None:
    """The same trick one level higher: nothing behind the link is read, changed or deleted."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    precious = tmp_path / "precious"
    (precious / "0").mkdir(parents=True)
    (precious / "0" / "file").write_text("keep")
    shutil.rmtree(prepared.pool.directory)
    prepared.pool.directory.symlink_to(precious)
    prepared.pool.prepare("0", prepared.base)
    assert (prepared.pool.directory / "0" / "a.txt").exists()
    shutil.rmtree(prepared.pool.directory)
    prepared.pool.directory.symlink_to(precious)
    prepared.pool.remove_all()
    assert not prepared.pool.directory.exists()
    assert [path.name for path in precious.rglob("*")] == ["0", "file"]


def test_a_pool_below_a_link_is_refused(tmp_path: Path) -> None:
    """Another level higher, it stops the run instead."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    above = prepared.pool.directory.parent
    above.rename(tmp_path / "elsewhere")
    above.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RepositoryError, match="symbolic link"):
        prepared.pool.prepare("0", prepared.base)
    with pytest.raises(RepositoryError, match="symbolic link"):
        prepared.pool.remove_all()
    assert (tmp_path / "elsewhere" / prepared.pool.directory.name / "0" / "a.txt").exists()


def test_two_runs_make_their_pools_at_once(tmp_path: Path) -> None:
    """Equal names of two runs do not collide, and parallel preparation leaves all of them whole."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    pools = [
        Workspaces(prepared.repo, prepared.repo.state_dir.run(run).workspaces) for run in ("02-x", "03-y")
    ]
    jobs = [(pool, str(slot)) for pool in pools for slot in range(4)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda job: job[0].prepare(job[1], prepared.base), jobs))
    assert all(pool.is_intact(name) for pool, name in jobs)
    assert len({pool.get(name).git_dir for pool, name in jobs}) == 8
    assert len(prepared.project.git("worktree", "list").splitlines()) == 10


def test_an_intact_workspace_is_told_from_a_broken_one(tmp_path: Path) -> None:
    """Recovery re-attaches only to workspaces in which git works."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    assert prepared.pool.is_intact("0")
    assert not prepared.pool.is_intact("1")
    _zero_head(prepared)
    assert not prepared.pool.is_intact("0")


def test_removing_the_pool_leaves_nothing_and_can_be_repeated(tmp_path: Path) -> None:
    """No directory, no administrative files, no index; also if some are gone already."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.pool.prepare("landing", prepared.base)
    assert prepared.pool.names() == ["0", "landing"]
    shutil.rmtree(prepared.workspace.path)
    prepared.pool.remove_all()
    prepared.pool.remove_all()
    assert prepared.pool.names() == []
    assert not prepared.pool.directory.exists()
    assert len(prepared.project.git("worktree", "list").splitlines()) == 1


def test_changes_in_an_idle_workspace_are_seen(tmp_path: Path) -> None:
    """Something that writes where nobody works is noticed."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    assert workspace_changes(prepared.repo, prepared.workspace) == ()
    prepared.agent_writes("a.txt", "intruder\n")
    prepared.agent_writes("x.txt", "intruder\n")
    assert workspace_changes(prepared.repo, prepared.workspace) == ("a.txt", "x.txt")


def test_write_protected_directories_do_not_stop_the_next_task(tmp_path: Path) -> None:
    """Package caches that take away write access are cleaned like anything else."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent_writes("cache/module/file", "x")
    (prepared.workspace.path / "cache" / "module").chmod(0o555)
    prepared.pool.prepare("0", prepared.base)
    assert_pristine(prepared)


def test_a_submodule_that_an_agent_checked_out_is_empty_again(tmp_path: Path) -> None:
    """Git would leave its files to the next task; and a link put in its way leads to no deletion elsewhere."""
    prepared, library = PreparedWorkspace.create(tmp_path / "p"), Project.create(tmp_path / "lib")
    allow = ("-c", "protocol.file.allow=always", "submodule")
    prepared.project.git(*allow, "add", "-q", str(library.path), "vendor/lib")
    commit = prepared.project.commit("submodule")
    prepared.pool.prepare("0", commit)
    prepared.agent(*allow, "update", "-q", "--init")
    assert (prepared.workspace.path / "vendor" / "lib" / "a.txt").exists()
    prepared.pool.prepare("0", commit)
    assert list((prepared.workspace.path / "vendor" / "lib").iterdir()) == []
    assert prepared.agent("status", "--porcelain") == ""
    shutil.rmtree(prepared.workspace.path / "vendor")
    (prepared.workspace.path / "vendor").symlink_to(library.path.parent)
    prepared.pool.prepare("0", commit)
    assert (library.path / "a.txt").exists()


def test_the_agents_stash_and_branches_survive(tmp_path: Path) -> None:
    """They are the repository's, not the workspace's."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    prepared.agent("checkout", "-q", "-b", "idea")
    kept = prepared.agent_commits("idea.txt", "x")
    prepared.pool.prepare("0", prepared.base)
    assert git(prepared.project.path, "rev-parse", "idea") == kept


def test_a_power_cut_tears_nothing_that_the_users_own_git_reads(tmp_path: Path) -> None:
    """The folder of a workspace must not be there with empty files in it: git would not know it, or fail elsewhere."""
    code = """
from holdfast.repo.workspaces import Workspaces
Workspaces(repo, Path.cwd() / ".holdfast/work/run").prepare("0", repo.resolve("HEAD"))
"""
    left = after_power_cut(Project.create(tmp_path / "p"), code, NamesOnly(synced))
    assert [path.name for path in (left.git_dir / "worktrees").iterdir()]
    assert left.git("worktree", "list", "--porcelain").count("worktree ") == 2
    left.git("fetch", "-q", ".", "HEAD:copy")
