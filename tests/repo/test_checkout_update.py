"""A branch that is checked out moves with its files; a move that was cut short is completed, and no edit is lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.core.ids import run_branch
from holdfast.errors import RepositoryError
from holdfast.repo.checkout_update import CheckoutUpdate
from holdfast.repo.land_run import land_on_branch
from tests.support.repositories import RUN, Project


def cut_short(project: Project) -> str:
    """Leave what a kill of git leaves while it brings a commit into the checkout; return that commit.

    The commit changes `a.txt`, removes `src/b.txt` and adds `new.txt`. Git had removed one file and begun the others.
    """
    old = project.head()
    project.git("checkout", "-q", "-b", run_branch(RUN).removeprefix("refs/heads/"))
    project.write("a.txt", "uno\ndue\ntre\n")
    project.write("new.txt", "new\n")
    (project.path / "src/b.txt").unlink()
    new = project.commit("run")
    project.git("checkout", "-q", "main")
    fields = ["main", old, new, "a.txt", "new.txt", "src/b.txt"]
    (project.git_dir / "holdfast-update").write_text("\0".join(fields))
    (project.git_dir / "index.lock").touch()
    (project.git_dir / "HEAD.lock").touch()
    project.write("a.txt", "uno\ndu")
    project.write("new.txt", "")
    (project.path / "src/b.txt").unlink()
    return new


def update(project: Project) -> CheckoutUpdate:
    """Return the update of the main checkout."""
    return CheckoutUpdate(project.open(), project.path, project.git_dir)


def test_a_landing_that_was_cut_short_is_completed_by_landing_again(tmp_path: Path) -> None:
    """Half-written files and locks of the killed git are not in the way."""
    project = Project.create(tmp_path / "p")
    new = cut_short(project)
    assert land_on_branch(project.open(), new, "main", "m").commit == new
    assert (project.head(), project.git("status", "--porcelain")) == (new, "")
    assert (project.path / "a.txt").read_text() == "uno\ndue\ntre\n"
    assert not list(project.git_dir.glob("*.lock"))


def test_what_git_had_begun_is_put_back(tmp_path: Path) -> None:
    """Without a second try, the checkout is as it was before."""
    project = Project.create(tmp_path / "p")
    before = (project.path / "a.txt").read_text()
    cut_short(project)
    update(project).complete()
    assert project.git("status", "--porcelain") == ""
    assert (project.path / "a.txt").read_text() == before
    assert not (project.path / "new.txt").exists()
    assert (project.path / "src/b.txt").exists()


def test_what_the_user_wrote_since_stays(tmp_path: Path) -> None:
    """A file that holds neither the old content nor the beginning of the new one is the user's."""
    project = Project.create(tmp_path / "p")
    new = cut_short(project)
    project.write("a.txt", "uno\nmine\n")
    project.write("new.txt", "mine, too\n")
    with pytest.raises(RepositoryError, match=r"a\.txt"):
        land_on_branch(project.open(), new, "main", "m")
    assert (project.path / "a.txt").read_text() == "uno\nmine\n"
    assert (project.path / "new.txt").read_text() == "mine, too\n"


def test_a_file_that_was_changed_before_is_not_put_back(tmp_path: Path) -> None:
    """Git refused to begin: what looks like the new content was the user's own."""
    project = Project.create(tmp_path / "p")
    project.git("branch", "new")
    project.git("checkout", "-q", "new")
    project.write("a.txt", "same\n")
    new = project.commit("run")
    project.git("checkout", "-q", "main")
    project.write("a.txt", "same\n")
    with pytest.raises(RepositoryError, match=r"a\.txt"):
        land_on_branch(project.open(), new, "main", "m")
    assert (project.path / "a.txt").read_text() == "same\n"
    assert not (project.git_dir / "holdfast-update").exists()


def test_nothing_is_removed_while_git_is_at_work(tmp_path: Path) -> None:
    """The lock may be that of the user's own command."""
    project = Project.create(tmp_path / "p")
    new = cut_short(project)
    with subprocess.Popen(
        ["git", "-C", project.path, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as alive:
        assert alive.stdin
        assert alive.stdout
        alive.stdin.write(b"HEAD\n")
        alive.stdin.flush()
        alive.stdout.readline()  # it is git by now, no longer what started it
        with pytest.raises(RepositoryError, match="git is running"):
            land_on_branch(project.open(), new, "main", "m")
        alive.stdin.close()
    assert (project.git_dir / "index.lock").exists()


def test_a_branch_that_has_moved_keeps_its_files(tmp_path: Path) -> None:
    """Cut short after the branch moved, only the locks are left to remove."""
    project = Project.create(tmp_path / "p")
    new = cut_short(project)
    (project.git_dir / "index.lock").unlink()
    (project.git_dir / "HEAD.lock").unlink()
    project.git("reset", "-q", "--hard", new)
    (project.git_dir / "HEAD.lock").touch()
    assert land_on_branch(project.open(), new, "main", "m").kind == "already there"
    assert project.git("status", "--porcelain") == ""
    assert not (project.git_dir / "HEAD.lock").exists()
