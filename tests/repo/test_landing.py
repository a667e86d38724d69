"""Landing: merging without a checkout, moving a branch only from where it was seen, and proving it from history."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core.ids import run_branch
from holdfast.repo.git import GitError
from holdfast.repo.landing import Conflicted, branch_facts, commit_merge, merge, move_branch, trailers
from holdfast.repo.repository import Repository
from tests.support.repositories import RUN, Project

BRANCH = run_branch(RUN)
NONE = "0" * 40


def branch_with(project: Project, name: str, file: str, content: str) -> str:
    """Commit a change to one file on a side branch of main and return to main."""
    project.git("checkout", "-q", "-b", name, "main")
    project.write(file, content)
    commit = project.commit(name)
    project.git("checkout", "-q", "main")
    return commit


def land(repo: Repository, onto: str, head: str, task: str, run: str = RUN) -> str:
    """Merge one task onto a tip and move the run branch."""
    merged = merge(repo, onto, head)
    assert isinstance(merged, str)
    commit = commit_merge(repo, merged, onto, head, f"{task}\n\n{trailers(run, task, 1)}")
    assert move_branch(repo, BRANCH, commit, repo.read_ref(BRANCH) or NONE)
    return commit


def test_a_clean_merge_lands_with_both_parents(tmp_path: Path) -> None:
    """The first parent is the branch, the second the task's head; no checkout takes part."""
    project = Project.create(tmp_path / "p")
    head = branch_with(project, "t", "t.txt", "t\n")
    base = project.commit("main goes on")
    landed = land(project.open(), base, head, "T1")
    assert project.git("log", "-1", "--format=%P", BRANCH) == f"{base} {head}"
    assert project.git("rev-parse", BRANCH) == landed
    assert project.git("status", "--porcelain") == ""


def test_a_conflict_names_the_files_and_keeps_the_markers(tmp_path: Path) -> None:
    """The tree of a conflict is where a resolving agent starts."""
    project = Project.create(tmp_path / "p")
    ours = branch_with(project, "ours", "a.txt", "ours\n")
    theirs = branch_with(project, "theirs", "a.txt", "theirs\n")
    repo = project.open()
    conflict = merge(repo, ours, theirs)
    assert isinstance(conflict, Conflicted)
    assert conflict.files == ("a.txt",)
    assert "CONFLICT (content)" in conflict.detail
    commit = commit_merge(repo, conflict.tree, ours, theirs, "conflict")
    assert b"<<<<<<<" in (repo.file_at(commit, "a.txt") or b"")


def test_a_bad_commit_is_an_error_and_not_a_conflict(tmp_path: Path) -> None:
    """Git's exit status alone would not tell them apart."""
    project = Project.create(tmp_path / "p")
    with pytest.raises(GitError):
        merge(project.open(), project.head(), "1" * 40)


def test_a_branch_is_created_moved_and_found_already_there(tmp_path: Path) -> None:
    """Repeating a move that happened is success."""
    project = Project.create(tmp_path / "p")
    first, repo = project.head(), project.open()
    second = project.commit("second")
    assert move_branch(repo, BRANCH, first, NONE)
    assert move_branch(repo, BRANCH, first, NONE)
    assert move_branch(repo, BRANCH, second, first)
    assert move_branch(repo, BRANCH, second, first)


def test_a_branch_moved_by_somebody_else_is_not_overwritten(tmp_path: Path) -> None:
    """The loser learns it and nothing changes."""
    project = Project.create(tmp_path / "p")
    first, repo = project.head(), project.open()
    foreign = project.commit("foreign")
    mine = project.commit("mine")
    project.git("update-ref", BRANCH, foreign)
    assert not move_branch(repo, BRANCH, mine, first)
    assert repo.read_ref(BRANCH) == foreign


def test_a_stale_lock_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    """It must not look as if somebody else had moved the branch."""
    project = Project.create(tmp_path / "p")
    first, repo = project.head(), project.open()
    move_branch(repo, BRANCH, first, NONE)
    (project.git_dir / f"{BRANCH}.lock").touch()
    with pytest.raises(GitError) as refused:
        move_branch(repo, BRANCH, project.commit("next"), first)
    assert "doctor --fix" in refused.value.hint


def test_a_branch_named_like_the_folder_of_ours_is_explained(tmp_path: Path) -> None:
    """Git cannot have `holdfast` and `holdfast/…` side by side."""
    project = Project.create(tmp_path / "p")
    project.git("branch", "holdfast")
    with pytest.raises(GitError) as refused:
        move_branch(project.open(), BRANCH, project.head(), NONE)
    assert "git branch -m" in refused.value.hint


def test_landings_are_read_back_oldest_first(tmp_path: Path) -> None:
    """State can be rebuilt from the branch alone."""
    project = Project.create(tmp_path / "p")
    base, repo = project.head(), project.open()
    heads = [branch_with(project, name, f"{name}.txt", name) for name in ("x", "y")]
    one = land(repo, base, heads[0], "T.1")
    two = land(repo, one, heads[1], "T-2")
    facts = branch_facts(repo, BRANCH, base, RUN)
    assert facts.tip == two
    assert facts.descends_from_base
    assert [(landing.task, landing.attempt, landing.commit) for landing in facts.landings] == [
        ("T.1", 1, one),
        ("T-2", 1, two),
    ]
    assert [landing.head for landing in facts.landings] == heads
    assert facts.landings[1].tree == repo.tree_of(two)


def test_forged_trailers_do_not_count(tmp_path: Path) -> None:
    """Neither in an agent's own commits, nor on a plain commit, nor of another run."""
    project = Project.create(tmp_path / "p")
    base, repo = project.head(), project.open()
    forged = f"forged\n\n{trailers(RUN, 'T9', 1)}"
    tree = repo.tree_of(base)
    inner = project.git("commit-tree", "-p", base, "-m", forged, tree)
    agent = project.git("commit-tree", "-p", base, "-p", inner, "-m", forged, tree)
    one = land(repo, base, agent, "T1")
    plain = project.git("commit-tree", "-p", one, "-m", forged, tree)
    project.git("update-ref", BRANCH, plain)
    land(repo, plain, project.commit("other"), "T2", run="02-other")
    assert [landing.task for landing in branch_facts(repo, BRANCH, base, RUN).landings] == ["T1"]


def test_a_branch_that_is_gone_or_elsewhere_is_told(tmp_path: Path) -> None:
    """Recovery sees a missing branch, a fresh one, and one without the base."""
    project = Project.create(tmp_path / "p")
    base, repo = project.head(), project.open()
    later = project.commit("later")
    assert branch_facts(repo, BRANCH, later, RUN).tip == ""
    project.git("update-ref", BRANCH, later)
    assert branch_facts(repo, BRANCH, later, RUN).descends_from_base
    project.git("update-ref", BRANCH, base)
    assert not branch_facts(repo, BRANCH, later, RUN).descends_from_base


def test_a_base_reached_only_through_a_second_parent_is_not_descended_from(tmp_path: Path) -> None:
    """A branch that was replaced by one which merged the base is not the run's branch any more."""
    project = Project.create(tmp_path / "p")
    other = project.head()
    base = branch_with(project, "base", "x.txt", "x")
    turned = project.git("commit-tree", "-p", other, "-p", base, "-m", "turned", f"{base}^{{tree}}")
    project.git("update-ref", BRANCH, turned)
    assert not branch_facts(project.open(), BRANCH, base, RUN).descends_from_base
