"""What a workspace holds besides its commit: what stays, what is copied, and what an agent cannot make of that."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.plan import PlanWorkspace
from holdfast.repo.workspace_commit import commit_work
from holdfast.repo.workspace_files import (
    FilesMissingError,
    SetupRecord,
    bring_files,
    ignore_patterns,
    read_record,
    write_record,
)
from holdfast.repo.workspaces import Workspaces
from tests.support.repositories import RUN, Project, git, write

KEPT = "packages/a b/node_modules"
REF, ARCHIVE = "refs/holdfast/x/attempts/t/1", "refs/holdfast/x/archive/t"


def pool_of(project: Project, *, clones: bool = False, **setting: Any) -> Workspaces:
    """Return the pool of a new runner, which knows nothing of what an earlier one prepared."""
    repo = project.open()
    repo.prepare_state_dir()
    return Workspaces(
        repo, repo.state_dir.run(RUN).workspaces, clones=clones, setting=PlanWorkspace(**setting)
    )


@pytest.mark.parametrize("clones", [False, True], ids=["linked", "clone"])
def test_a_kept_folder_survives_preparation_by_a_new_runner(tmp_path: Path, clones: bool) -> None:
    """Also one deep in a folder that is tracked, with a space in its name; the rest of what is ignored goes."""
    project = Project.create(tmp_path / "p")
    project.write("packages/a b/index.js", "1\n")
    base = project.commit("a package")
    pool = pool_of(project, clones=clones, keep=(KEPT,))
    folder = pool.prepare("0", base)
    write(folder / KEPT / "one.js", "1")
    write(folder / KEPT / "inner" / ".git" / "config", "")
    write(folder / "build.log", "x")
    write_record(pool.get("0").setup_file, SetupRecord(complete=True, left_out=(KEPT,)))
    for again in (pool, pool_of(project, clones=clones, keep=(KEPT,))):
        again.prepare("0", base)
        assert (folder / KEPT / "one.js").read_text() == "1"
        assert not (folder / "build.log").exists()
        assert (folder / "packages/a b/index.js").read_text() == "1\n"


@pytest.mark.parametrize("loss", ["unfinished", "power cut"])
def test_what_an_unfinished_set_up_left_is_not_kept(tmp_path: Path, loss: str) -> None:
    """Nor what a power cut may have torn."""
    project = Project.create(tmp_path / "p")
    pool = pool_of(project, keep=(".venv",))
    folder = pool.prepare("0", project.head())
    write(folder / ".venv" / "half", "x")
    write_record(
        pool.get("0").setup_file, SetupRecord(complete=loss == "power cut", left_out=(".venv", "made.txt"))
    )
    if loss == "power cut":
        pool.forget_files()
    pool.prepare("0", project.head())
    assert not (folder / ".venv").exists()
    assert read_record(pool.get("0").setup_file) == SetupRecord(left_out=(".venv",))


@pytest.mark.parametrize("link", ["packages", KEPT])
def test_a_link_in_the_place_of_a_kept_folder_is_not_kept(tmp_path: Path, link: str) -> None:
    """It goes, what it led to stays, and set-up has to run again."""
    project = Project.create(tmp_path / "p")
    outside = tmp_path / "outside"
    write(outside / "a b" / "node_modules" / "theirs", "x")
    pool = pool_of(project, keep=(KEPT,))
    folder = pool.prepare("0", project.head())
    write_record(pool.get("0").setup_file, SetupRecord(complete=True, digest="d", left_out=(KEPT,)))
    (folder / link).parent.mkdir(parents=True, exist_ok=True)
    (folder / link).symlink_to(outside)
    pool.prepare("0", project.head())
    assert not os.path.lexists(folder / link)
    assert not read_record(pool.get("0").setup_file).complete
    assert (outside / "a b" / "node_modules" / "theirs").read_text() == "x"


def test_a_copy_does_not_leave_the_workspace_through_a_link_of_an_agent(tmp_path: Path) -> None:
    """An agent committed a link in the place of a folder: nothing is written where it leads."""
    project = Project.create(tmp_path / "p")
    project.write("config/.env", "secret")
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = pool_of(project).prepare("0", project.head())
    (folder / "config").symlink_to(outside)
    bring_files(project.path, folder, PlanWorkspace(copy=("config/.env",)))
    assert list(outside.iterdir()) == []


def test_a_copied_folder_has_its_files_and_links_and_nothing_that_blocks(tmp_path: Path) -> None:
    """Repositories and pipes in it stay where they are."""
    project = Project.create(tmp_path / "p")
    project.write("data/one.txt", "1")
    project.write("data/.git/config", "")
    (project.path / "data" / "two.txt").symlink_to("one.txt")
    os.mkfifo(project.path / "data" / "pipe")
    folder = pool_of(project, copy=("data",)).prepare("0", project.head())
    assert sorted(path.name for path in (folder / "data").iterdir()) == ["one.txt", "two.txt"]
    assert (folder / "data" / "two.txt").read_text() == "1"


def test_a_copy_that_is_gone_from_the_checkout_stops_the_preparation(tmp_path: Path) -> None:
    """It may vanish while a run is under way; the message names it."""
    project = Project.create(tmp_path / "p")
    with pytest.raises(FilesMissingError, match=r"workspace.copy names \.env, which is not in your checkout"):
        pool_of(project, copy=(".env",)).prepare("0", project.head())


def test_names_with_special_characters_are_taken_literally(tmp_path: Path) -> None:
    """A pattern that left out too much would lose an agent's work."""
    project = Project.create(tmp_path / "p")
    names = ["a[1] *", "back\\slash", "!not"]
    pool = pool_of(project)
    folder = pool.prepare("0", project.head())
    write_record(pool.get("0").setup_file, SetupRecord(left_out=tuple(names)))
    for name in [*names, "a1 x", "not"]:
        write(folder / name, name)
    done = commit_work(project.open(), pool.get("0"), project.head(), REF, "work", ARCHIVE)
    assert set(done.changed) == {"a1 x", "not"}
    assert ignore_patterns(["a*"]) == ["/a\\*"]


def test_commits_of_an_agent_that_hold_what_never_lands_are_kept_aside(tmp_path: Path) -> None:
    """The files land without it, on the commit that the agent began with; its own commits are at the archive ref."""
    project = Project.create(tmp_path / "p")
    project.write(".env", "secret")
    pool = pool_of(project, clones=True, copy=(".env",))
    folder = pool.prepare("0", project.head())
    write(folder / "work.txt", "w")
    git(folder, "add", "-f", ".env", "work.txt")
    git(folder, "commit", "-q", "-m", "all of it")
    mine = git(folder, "rev-parse", "HEAD")
    done = commit_work(project.open(), pool.get("0"), project.head(), REF, "work", ARCHIVE)
    assert done.changed == ("work.txt",)
    assert project.git("rev-parse", ARCHIVE) == mine
    assert project.git("rev-parse", f"{done.commit}^") == project.head()
    assert any(".env" in remark for remark in done.remarks)
