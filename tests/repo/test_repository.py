"""Opening a repository: what is found, what is refused, and what the user is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import RepositoryError
from holdfast.repo.checkout import checkout_notices
from holdfast.repo.git import Git, GitError, git_version
from holdfast.repo.repository import Repository
from tests.support.repositories import Project, git, write


def test_a_subdirectory_leads_to_the_main_checkout(tmp_path: Path) -> None:
    """Standing below the root is enough."""
    project = Project.create(tmp_path / "p")
    repo = Repository.open(project.path / "src")
    assert (repo.checkout, repo.common_dir) == (project.path, project.git_dir)
    assert repo.state_dir.root == project.path / ".holdfast"


def test_a_linked_worktree_leads_to_the_main_checkout_but_keeps_its_own_head(tmp_path: Path) -> None:
    """State is the repository's; the base is where the user stands."""
    project = Project.create(tmp_path / "p")
    project.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    git(tmp_path / "side", "commit", "-q", "--allow-empty", "-m", "aside")
    repo = Repository.open(tmp_path / "side")
    assert repo.checkout == project.path
    assert repo.head_branch() == "side"
    assert repo.resolve("HEAD") == git(tmp_path / "side", "rev-parse", "HEAD")


@pytest.mark.parametrize(
    ("commands", "message", "hint"),
    [
        ([], "not inside a git repository", "git init"),
        ([("init", "-q", "--bare")], "is bare", "git clone"),
        ([("init", "-q")], "no commit", "git commit --allow-empty"),
    ],
)
def test_an_unusable_directory_is_refused_with_the_way_out(
    tmp_path: Path, commands: list[tuple[str, ...]], message: str, hint: str
) -> None:
    """No repository, a bare one, or one without commits: each says what to type next."""
    for command in commands:
        git(tmp_path, *command)
    with pytest.raises(RepositoryError, match=message) as refused:
        Repository.open(tmp_path)
    assert hint in refused.value.hint


def test_a_worktree_of_a_bare_repository_is_refused_for_what_it_lacks(tmp_path: Path) -> None:
    """It has files checked out; what it lacks is the main checkout, which has Holdfast's own."""
    Project.create(tmp_path / "p").git("clone", "-q", "--bare", ".", str(tmp_path / "bare"))
    git(tmp_path / "bare", "worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    with pytest.raises(RepositoryError, match="no main checkout"):
        Repository.open(tmp_path / "side")


def test_a_git_that_is_too_old_is_refused_by_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the version found and the version needed."""
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\necho git version 2.30.2\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(RepositoryError, match=r"2\.30\.2 is too old.*2\.38") as refused:
        Repository.open(tmp_path)
    assert "Install git" in refused.value.hint


def test_a_missing_git_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git on the PATH the error is not a stack trace."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RepositoryError, match="git is not installed"):
        git_version()


def test_a_wrong_revision_is_an_error_with_a_hint(tmp_path: Path) -> None:
    """A typing error in `base:` is explained."""
    repo = Project.create(tmp_path / "p").open()
    with pytest.raises(RepositoryError, match="'nope' names no commit") as refused:
        repo.resolve("nope")
    assert refused.value.hint


def test_notices_name_a_detached_head_and_uncommitted_changes(tmp_path: Path) -> None:
    """The user learns before the run what is not part of it; staged, changed and new files all count."""
    project = Project.create(tmp_path / "p")
    project.git("checkout", "-q", "--detach")
    project.write("a.txt", "changed\n")
    project.write("new.txt", "new\n")
    project.write("src/b.txt", "staged\n")
    project.git("add", "src/b.txt")
    notices = " ".join(checkout_notices(project.open()))
    assert "detached" in notices
    assert "3 uncommitted changes" in notices


def test_notices_name_a_shallow_clone_and_submodules(tmp_path: Path) -> None:
    """Both limit what a run can do."""
    project = Project.create(tmp_path / "p")
    project.write(".gitmodules", "")
    project.commit("second")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{project.path}", "clone")
    notices = " ".join(checkout_notices(Repository.open(tmp_path / "clone")))
    assert "shallow" in notices
    assert "Submodules" in notices


def test_a_clean_checkout_has_no_notices(tmp_path: Path) -> None:
    """Silence means that all is as usual."""
    assert list(checkout_notices(Project.create(tmp_path / "p").open())) == []


def test_the_state_folder_is_hidden_once_and_without_a_gitignore(tmp_path: Path) -> None:
    """The exclude file gets one line, however often; what it held is kept."""
    project = Project.create(tmp_path / "p")
    exclude = project.git_dir / "info" / "exclude"
    write(exclude, "mine")
    repo = project.open()
    repo.prepare_state_dir()
    repo.prepare_state_dir()
    project.write(".holdfast/journal.db", "x")
    assert exclude.read_text() == "mine\n/.holdfast/\n"
    assert project.git("status", "--porcelain") == ""


def test_a_repository_in_sha256_works(tmp_path: Path) -> None:
    """Object ids of the longer kind are understood."""
    git(tmp_path, "init", "-q", "--object-format=sha256")
    git(tmp_path, "-c", "user.name=A", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "x")
    repo = Repository.open(tmp_path)
    assert len(repo.resolve("HEAD")) == 64
    assert repo.changed_files("HEAD", repo.resolve("HEAD")) == ()


def test_missing_commits_are_told_apart_in_one_question(tmp_path: Path) -> None:
    """Recovery asks for many at once."""
    project = Project.create(tmp_path / "p")
    repo = project.open()
    absent = "1" * 40
    assert repo.missing([project.head(), absent]) == {absent}
    assert repo.exists(project.head())


def test_a_long_difference_is_cut_with_a_note(tmp_path: Path) -> None:
    """A brief never grows without bound."""
    project = Project.create(tmp_path / "p")
    base = project.head()
    project.write("a.txt", "x\n" * 5000)
    text = project.open().diff(base, project.commit("long"), 400)
    assert len(text) < 500
    assert text.endswith("[cut after 400 bytes]\n")


def test_files_and_counts_are_read_from_commits(tmp_path: Path) -> None:
    """Content comes from the commit, not from the checkout."""
    project = Project.create(tmp_path / "p")
    base = project.head()
    project.write("c.txt", "c\n")
    new = project.commit("more")
    repo = project.open()
    assert repo.file_at(new, "c.txt") == b"c\n"
    assert repo.file_at(base, "c.txt") is None
    assert repo.changed_files(base, new) == ("c.txt",)
    assert repo.commit_count(base, new) == 1


def test_a_failing_command_says_what_was_run_and_what_git_said(tmp_path: Path) -> None:
    """A GitError is enough to understand a report."""
    project = Project.create(tmp_path / "p")
    with pytest.raises(GitError) as failed:
        Git(project.git_dir).run("cat-file", "blob", "nonsense")
    assert failed.value.argv == ("cat-file", "blob", "nonsense")
    assert failed.value.rc == 128
    assert "nonsense" in failed.value.stderr


def test_without_an_identity_commits_are_holdfasts_own(tmp_path: Path) -> None:
    """A machine where git knows no user can still run."""
    project = Project.create(tmp_path / "p")
    tree = project.git("rev-parse", "HEAD^{tree}")
    named = project.open().private_git.run("commit-tree", tree, stdin=b"x").decode().strip()
    project.git("config", "--unset", "user.email")
    anonymous = project.open().private_git.run("commit-tree", tree, stdin=b"x").decode().strip()
    assert project.git("log", "-1", "--format=%ae", named) == "ada@example.org"
    assert project.git("log", "-1", "--format=%an %ce", anonymous) == "Holdfast holdfast@localhost"


def test_inherited_git_variables_lead_nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started from a git hook, Holdfast still works on the repository around it."""
    project = Project.create(tmp_path / "p")
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    assert Repository.open(project.path).common_dir == project.git_dir
