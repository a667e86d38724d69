"""A branch that is checked out moves with its files; a move that was cut short is completed, and no edit is lost."""

from __future__ import annotations

import os
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


def cut_after_the_branch_moved(project: Project) -> str:
    """Leave what a kill leaves after git did all of it, before anything was synced; return the commit."""
    new = cut_short(project)
    (project.git_dir / "index.lock").unlink()
    (project.git_dir / "HEAD.lock").unlink()
    project.git("reset", "-q", "--hard", new)
    return new


def tear(path: Path, *, keep_size: bool) -> None:
    """Leave what a power cut leaves of a file that was not synced: nothing, or zeros and the times that git knows."""
    found = path.stat()
    path.write_bytes(bytes(found.st_size if keep_size else 0))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


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
    new = cut_after_the_branch_moved(project)
    (project.git_dir / "HEAD.lock").touch()
    assert land_on_branch(project.open(), new, "main", "m").kind == "already there"
    assert project.git("status", "--porcelain") == ""
    assert not (project.git_dir / "HEAD.lock").exists()


@pytest.mark.parametrize("keep_size", [False, True])
def test_files_that_a_power_cut_tore_after_the_branch_moved_are_written_again(
    tmp_path: Path, keep_size: bool
) -> None:
    """The user's next commit would have them; git may take zeros of the right size for unchanged."""
    project = Project.create(tmp_path / "p")
    new = cut_after_the_branch_moved(project)
    tear(project.path / "a.txt", keep_size=keep_size)
    tear(project.path / "new.txt", keep_size=keep_size)
    assert land_on_branch(project.open(), new, "main", "m").kind == "already there"
    assert (project.path / "a.txt").read_text() == "uno\ndue\ntre\n"
    assert (project.path / "new.txt").read_text() == "new\n"
    assert project.git("status", "--porcelain") == ""


def test_files_that_a_power_cut_filled_with_zeros_before_the_branch_moved_are_put_back(
    tmp_path: Path,
) -> None:
    """They are not the user's, and not in the way of the next try."""
    project = Project.create(tmp_path / "p")
    before = (project.path / "a.txt").read_text()
    new = cut_short(project)
    project.write("a.txt", "\0" * len("uno\ndue\ntre\n"))
    project.write("new.txt", "\0" * len("new\n"))
    update(project).complete()
    assert (project.git("status", "--porcelain"), (project.path / "a.txt").read_text()) == ("", before)
    assert land_on_branch(project.open(), new, "main", "m").commit == new
    assert project.git("status", "--porcelain") == ""


def test_an_index_that_is_behind_its_branch_follows_and_keeps_what_is_staged(tmp_path: Path) -> None:
    """Its new name was lost to a power cut, that of the branch was not."""
    project = Project.create(tmp_path / "p")
    new = cut_after_the_branch_moved(project)
    project.git("read-tree", "main@{1}")
    project.write("mine.txt", "mine\n")
    project.git("add", "mine.txt")
    land_on_branch(project.open(), new, "main", "m")
    assert project.git("status", "--porcelain") == "A  mine.txt"


def test_an_index_that_is_ahead_of_its_branch_is_put_back(tmp_path: Path) -> None:
    """Git had written files and index, not yet the branch."""
    project = Project.create(tmp_path / "p")
    cut_after_the_branch_moved(project)
    project.git("update-ref", "refs/heads/main", "main@{1}")
    update(project).complete()
    assert project.git("status", "--porcelain") == ""
    assert not (project.path / "new.txt").exists()


def test_an_edit_after_the_branch_moved_stays(tmp_path: Path) -> None:
    """Lines that the user changed, lines deleted at the end, and what is staged."""
    project = Project.create(tmp_path / "p")
    new = cut_after_the_branch_moved(project)
    project.write("a.txt", "uno\n")
    project.write("new.txt", "mine\n")
    project.git("add", "new.txt")
    land_on_branch(project.open(), new, "main", "m")
    assert (project.path / "a.txt").read_text() == "uno\n"
    assert project.git("status", "--porcelain").split("\n") == ["M a.txt", "M  new.txt"]


def test_what_was_staged_before_is_not_put_back(tmp_path: Path) -> None:
    """It is the user's, also where the run changed the file in the same way."""
    project = Project.create(tmp_path / "p")
    new = cut_short(project)
    update(project).complete()
    project.write("a.txt", "uno\ndue\ntre\n")
    project.git("add", "a.txt")
    project.write("new.txt", "in the way\n")
    with pytest.raises(RepositoryError, match=r"new\.txt"):
        land_on_branch(project.open(), new, "main", "m")
    assert project.git("status", "--porcelain").split("\n") == ["M  a.txt", "?? new.txt"]


def test_a_file_takes_the_place_of_a_folder_again(tmp_path: Path) -> None:
    """And a folder that of a file, whichever git had begun with."""
    project = Project.create(tmp_path / "p")
    old = project.head()
    (project.path / "a.txt").unlink()
    project.write("a.txt/inner", "inner\n")
    (project.path / "src/b.txt").unlink()
    (project.path / "src").rmdir()
    project.write("src", "a file now\n")
    new = project.commit("swap")
    project.git("update-ref", "refs/heads/main", old)
    project.git("read-tree", old)
    fields = ["main", old, new, "a.txt", "a.txt/inner", "src", "src/b.txt"]
    (project.git_dir / "holdfast-update").write_text("\0".join(fields))
    update(project).complete()
    assert project.git("status", "--porcelain") == ""
    assert (project.path / "a.txt").is_file()


def test_a_torn_file_with_other_line_ends_is_recognised(tmp_path: Path) -> None:
    """What git writes is not what it stores, if an attribute says so."""
    project = Project.create(tmp_path / "p")
    project.write(".gitattributes", "a.txt eol=crlf\n")
    project.commit("line ends")
    new = cut_short(project)
    (project.path / "a.txt").write_bytes(b"uno\r\ndu")
    assert land_on_branch(project.open(), new, "main", "m").commit == new
    assert project.git("status", "--porcelain") == ""


def test_a_checkout_with_a_split_index_is_completed(tmp_path: Path) -> None:
    """Large repositories use one."""
    project = Project.create(tmp_path / "p")
    project.git("update-index", "--split-index")
    new = cut_short(project)
    assert land_on_branch(project.open(), new, "main", "m").commit == new
    assert project.git("status", "--porcelain") == ""


def test_files_left_out_of_a_sparse_checkout_stay_out(tmp_path: Path) -> None:
    """Git did not write them, so nothing is missing."""
    project = Project.create(tmp_path / "p")
    new = cut_after_the_branch_moved(project)
    project.git("update-index", "--skip-worktree", "new.txt")
    (project.path / "new.txt").unlink()
    assert land_on_branch(project.open(), new, "main", "m").kind == "already there"
    assert not (project.path / "new.txt").exists()


def test_nothing_behind_a_link_of_the_user_is_written(tmp_path: Path) -> None:
    """A folder that the user moved elsewhere is the user's."""
    project = Project.create(tmp_path / "p")
    cut_short(project)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project.path / "src").rmdir()
    (project.path / "src").symlink_to(elsewhere)
    update(project).complete()
    assert (project.path / "src").is_symlink()
    assert not list(elsewhere.iterdir())
