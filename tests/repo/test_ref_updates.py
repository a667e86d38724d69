"""Refs that were moved or deleted stay so, with all that they hold, when the power fails right afterwards."""

from __future__ import annotations

import errno
import re
from pathlib import Path

import pytest

from holdfast.core.ids import run_branch
from tests.crash.faults import Fault, list_points, run_with_fault
from tests.support.power_cut import after_power_cut, using
from tests.support.repositories import RUN, Project

REF = f"refs/holdfast/{RUN}/kept/one"
BRANCH = run_branch(RUN)


def is_whole(project: Project, ref: str) -> bool:
    """Tell whether everything that a ref holds can be read."""
    assert project.git("fsck", "--strict", "--no-dangling", check=False) == ""
    return bool(project.git("rev-list", "--objects", ref, check=False))


def test_a_commit_of_ours_survives(tmp_path: Path) -> None:
    """Its tree and its files were written by commands of ours that do not sync."""
    left = after_power_cut(
        Project.create(tmp_path / "p"),
        f"""
blob = repo.private_git.text("hash-object", "-w", "--stdin", stdin=b"new")
tree = repo.private_git.text("mktree", stdin=f"100644 blob {{blob}}\\tnew.txt\\n".encode())
repo.keep({REF!r}, repo.private_git.commit_tree(tree, message="new"))
""",
    )
    assert is_whole(left, REF)
    assert left.git("show", f"{REF}:new.txt") == "new"


def test_what_an_agent_committed_by_itself_survives(tmp_path: Path) -> None:
    """Its git syncs nothing. What we keep is durable all the same, and so is all below it."""
    code = f"commit('one.txt', 'one'); last = commit('two.txt', 'two'); repo.keep({REF!r}, last)"
    left = after_power_cut(Project.create(tmp_path / "p"), code)
    assert is_whole(left, REF)
    assert left.git("show", f"{REF}:one.txt", f"{REF}:two.txt") == "onetwo"


def test_an_object_that_was_there_before_survives(tmp_path: Path) -> None:
    """Git does not write an object again which somebody else has just written without a sync."""
    code = f"""
Path("same.txt").write_text("same")
git("hash-object", "-w", "same.txt")
repo.keep({REF!r}, repo.git.text("rev-parse", "HEAD"))
blob = repo.private_git.text("hash-object", "-w", "--stdin", stdin=b"same")
tree = repo.private_git.text("mktree", stdin=f"100644 blob {{blob}}\\tsame.txt\\n".encode())
repo.keep({REF!r}, repo.private_git.commit_tree(tree, message="same"))
"""
    assert is_whole(after_power_cut(Project.create(tmp_path / "p"), code), REF)


@pytest.mark.parametrize("before", ["", f"repo.keep({REF!r}, repo.git.text('rev-parse', 'HEAD'))"])
def test_objects_that_were_packed_meanwhile_survive(tmp_path: Path, before: str) -> None:
    """A repack moves objects into a new pack; the loose ones and older packs are gone."""
    code = f"""
{before}
last = commit("one.txt", "one")
git("-c", "core.fsync=none", "repack", "-q", "-a", "-d")
repo.keep({REF!r}, last)
"""
    assert is_whole(after_power_cut(Project.create(tmp_path / "p"), code), REF)


def test_objects_of_another_repository_that_this_one_borrows_survive(tmp_path: Path) -> None:
    """The user may have committed there a moment ago."""
    lender = Project.create(tmp_path / "both" / "lender")
    lender.git("clone", "-q", "--shared", ".", "../p")
    code = f"""
os.chdir("lender")
commit("one.txt", "one")
os.chdir("../p")
git("pull", "-q")
repo = Repository.open(Path.cwd())
repo.keep({REF!r}, repo.resolve("HEAD"))
"""
    left = after_power_cut(Project(tmp_path / "both"), code)
    alternates = left.path / "p" / ".git" / "objects" / "info" / "alternates"
    alternates.write_text(f"{left.path}/lender/.git/objects\n")
    assert is_whole(Project(left.path / "p"), REF)


def test_hundreds_of_new_files_survive(tmp_path: Path) -> None:
    """So many objects are synced in another way than a few."""
    code = f"""
for number in range(400):
    Path(f"{{number}}.txt").write_text(str(number))
repo.keep({REF!r}, commit("last.txt", "last"))
"""
    left = after_power_cut(Project.create(tmp_path / "p"), code)
    assert is_whole(left, REF)
    assert left.git("show", f"{REF}:399.txt") == "399"


def test_an_earlier_value_is_still_in_the_log(tmp_path: Path) -> None:
    """The earlier snapshots of a task can be reached in no other way."""
    code = f"""
for name in ("one", "two", "three"):
    repo.keep({REF!r}, commit(f"{{name}}.txt", name), logged=True)
"""
    left = after_power_cut(Project.create(tmp_path / "p"), code)
    assert [left.git("show", f"{REF}@{{2}}:one.txt"), left.git("show", f"{REF}@{{1}}:two.txt")] == [
        "one",
        "two",
    ]


def test_a_ref_survives_in_a_folder_that_was_removed_meanwhile(tmp_path: Path) -> None:
    """Packing refs removes their empty folders; the next ref gets new ones, of the same name."""
    code = f"""
base = repo.resolve("HEAD")
repo.keep({REF!r}, base)
git("pack-refs", "--all", "--prune")
repo.keep({REF!r}, commit("one.txt", "one"))
repo.ref_updates.delete({{{REF!r}: repo.read_ref({REF!r})}})
repo.keep({REF!r}, commit("two.txt", "two"))
"""
    left = after_power_cut(Project.create(tmp_path / "p"), code)
    assert left.git("show", f"{REF}:two.txt") == "two"


@pytest.mark.parametrize("packed", ["", "git('-c', 'core.fsync=all', 'pack-refs', '--all')"])
def test_a_deleted_ref_does_not_come_back(tmp_path: Path, packed: str) -> None:
    """Neither as a file of its own nor in the file of packed refs."""
    code = f"""
base = repo.resolve("HEAD")
repo.keep({REF!r}, base)
repo.keep("{REF}-other", base)
{packed}
repo.ref_updates.delete({{{REF!r}: base}})
"""
    left = after_power_cut(Project.create(tmp_path / "p"), code)
    assert left.git("for-each-ref", "--format=%(refname)", "refs/holdfast") == f"{REF}-other"


def test_a_ref_that_somebody_else_moved_is_made_durable(tmp_path: Path) -> None:
    """What we conclude from a ref must hold after a power cut, whoever moved it."""
    code = """
last = commit("one.txt", "one")
git("-c", "core.fsync=none", "pack-refs", "--all")
last = commit("two.txt", "two")
repo.ref_updates.sync("refs/heads/main")
"""
    left = after_power_cut(Project.create(tmp_path / "p"), code)
    assert left.git("show", "main:one.txt", "main:two.txt") == "onetwo"


def test_a_repository_that_was_made_a_moment_ago_survives(tmp_path: Path) -> None:
    """HEAD and configuration are not objects, but without them there is no repository."""
    code = f"""
git("-c", "init.defaultBranch=main", "init", "-q", "new")
os.chdir("new")
git("config", "user.name", "Ada")
git("config", "user.email", "ada@example.org")
base = commit("one.txt", "one")
repo = Repository.open(Path.cwd())
repo.keep({REF!r}, base)
"""
    left = after_power_cut(Project.create(tmp_path / "p"), code)
    assert is_whole(Project(left.path / "new"), REF)


@pytest.mark.parametrize(
    "what", [".git/objects/..", f".git/{REF}.lock", f".git/logs/{REF}", f".git/{Path(REF).parent}"]
)
def test_a_failed_sync_is_an_error(tmp_path: Path, what: str) -> None:
    """Nothing is acknowledged that may not be on disk. A ref has not moved to objects that may not be."""
    code = f"repo.keep({REF!r}, commit('one.txt', 'one'), logged=True); print('all is well')"
    points = list_points(using(Project.create(tmp_path / "p"), code))
    number = next(p.number for p in points if p.syscall == "fsync" and re.fullmatch(what, p.path))
    fresh = Project.create(tmp_path / "fresh")
    result = run_with_fault(using(fresh, code), Fault("errno", number, errno.EIO))
    assert result.fired
    assert (result.exit_status, "all is well" in result.output) == (1, False)
    if "logs" in what or what == f".git/{Path(REF).parent}":
        assert "Input/output error" in result.output
    else:
        assert fresh.git("for-each-ref", "refs/holdfast") == ""


def test_after_a_failed_sync_no_ref_moves_any_more(tmp_path: Path) -> None:
    """The kernel reports a failure once: the same sync would succeed the next time, with nothing written."""
    code = f"""
last = commit("one.txt", "one")
for _ in range(2):
    try:
        repo.keep({REF!r}, last)
    except OSError as error:
        print("refused:", error.strerror)
"""
    points = list_points(using(Project.create(tmp_path / "p"), code))
    number = next(p.number for p in points if p.syscall == "fsync" and p.path.startswith(".git/objects/"))
    fresh = Project.create(tmp_path / "fresh")
    result = run_with_fault(using(fresh, code), Fault("errno", number, errno.EIO))
    assert result.output.count("refused: Input/output error") == 2
    assert fresh.git("for-each-ref", "refs/holdfast") == ""
