"""A task taken by hand whose work conflicts: a person's own merge counts, and `take` hands over what it met."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Cli, fails, writes
from tests.support.repositories import git

BRANCH = "holdfast/01-try-it"


def _workspace(cli: Cli) -> Path:
    return cli.here / ".holdfast" / "work" / "01-try-it" / "taken-b"


@pytest.fixture
def conflicting(tmp_path: Path) -> Cli:
    """Return a run at rest: `b` is taken and has a.txt in a commit of the person's, and `a` has landed another a.txt."""
    cli = Cli.of(tmp_path / "p", fails("b"), writes("a"), limits={"attempts": 1, "jobs": 1})
    assert cli("run", "--yes").code == 1
    assert cli("take", "b").code == 0
    (_workspace(cli) / "a.txt").write_text("mine\n")
    git(_workspace(cli), "add", "-A")
    git(_workspace(cli), "commit", "-q", "-m", "my own commit")
    assert cli("resume", "--yes").code == 3
    assert cli.task("a")["status"] == "completed"
    return cli


def _resolve(cli: Cli, *commands: tuple[str, ...]) -> None:
    """Put both sides into a.txt, then run these git commands."""
    (_workspace(cli) / "a.txt").write_text("a\nmine\n")
    for command in commands:
        git(_workspace(cli), *command)


def _lands_at_once(cli: Cli) -> None:
    assert cli("give", "b").code == 0
    shown = cli("resume", "--yes")
    assert (shown.code, "conflicts" in shown.out + shown.err) == (0, False)
    assert git(cli.here, "show", f"{BRANCH}:a.txt") == "a\nmine"
    landed = git(cli.here, "log", "--first-parent", "--format=%s", BRANCH).splitlines()
    assert landed[:2] == ["Land b", "Land a"]
    assert "my own commit" in git(cli.here, "log", "--format=%s", BRANCH)


def test_a_persons_own_merge_of_the_run_branch_counts(conflicting: Cli) -> None:
    """What the person resolved need not be resolved again."""
    git(_workspace(conflicting), "merge", "-q", BRANCH, check=False)
    _resolve(conflicting, ("commit", "-q", "-a", "-m", "merged"))
    _lands_at_once(conflicting)


@pytest.mark.parametrize("stage", [("add", "a.txt"), ("status",)], ids=["staged", "edited"])
def test_a_merge_that_the_person_did_not_commit_counts(conflicting: Cli, stage: tuple[str, ...]) -> None:
    """A person may commit, or not."""
    git(_workspace(conflicting), "merge", "-q", BRANCH, check=False)
    _resolve(conflicting, stage)
    _lands_at_once(conflicting)


def test_a_merge_with_markers_left_in_it_does_not_count(conflicting: Cli) -> None:
    """Nobody finished it: it conflicts, and no marker lands."""
    git(_workspace(conflicting), "merge", "-q", BRANCH, check=False)
    assert conflicting("give", "b").code == 0
    assert conflicting("resume", "--yes").code == 3
    assert git(conflicting.here, "show", f"{BRANCH}:a.txt") == "a"


def test_a_persons_own_merge_counts_after_a_conflict_too(conflicting: Cli) -> None:
    """Nobody has to take the task again who knows how to merge."""
    assert conflicting("give", "b").code == 0
    assert conflicting("resume", "--yes").code == 3
    git(_workspace(conflicting), "merge", "-q", BRANCH, check=False)
    _resolve(conflicting, ("commit", "-q", "-a", "-m", "merged"))
    _lands_at_once(conflicting)


def test_work_that_a_person_rebased_onto_the_run_branch_counts(conflicting: Cli) -> None:
    """As a merge does, also if what it began with is below it no more."""
    assert conflicting("give", "b").code == 0
    assert conflicting("resume", "--yes").code == 3
    git(_workspace(conflicting), "rebase", "-q", BRANCH, check=False)
    _resolve(conflicting, ("add", "a.txt"), ("-c", "core.editor=true", "rebase", "--continue"))
    _lands_at_once(conflicting)


def test_work_without_anything_of_what_landed_undoes_nothing(conflicting: Cli) -> None:
    """`git reset --soft` puts the files of before on top of the run branch."""
    git(_workspace(conflicting), "reset", "-q", "--hard", "HEAD~1")
    (_workspace(conflicting) / "mine.txt").write_text("mine\n")
    git(_workspace(conflicting), "reset", "-q", "--soft", BRANCH)
    assert conflicting("give", "b").code == 0
    assert conflicting("resume", "--yes").code == 0
    assert git(conflicting.here, "show", f"{BRANCH}:a.txt") == "a"
    assert git(conflicting.here, "show", f"{BRANCH}:mine.txt") == "mine"


def _conflict(cli: Cli) -> str:
    """Give work that conflicts; return what the run said."""
    assert cli("give", "b").code == 0
    shown = cli("resume", "--yes")
    assert shown.code == 3
    return shown.out + shown.err


def test_after_a_conflict_every_hint_says_take(conflicting: Cli) -> None:
    """To give again what did not merge leads nowhere. No agent resolves it."""
    said = _conflict(conflicting)
    assert "b: conflicts in a.txt; `holdfast take` hands you the merge" in said
    shown = said + conflicting("status").out
    assert ("holdfast take 1 b" in shown, "holdfast give" in shown) == (True, False)
    assert shown.count("`holdfast take 1 b` puts the merge into your workspace;") == 2
    taken = conflicting("take", "b")
    assert "Resolve the markers in a.txt." in taken.out
    assert "holdfast give 1 b" in conflicting("status").out


def test_the_merge_is_handed_over_also_after_a_resolution_was_refused(conflicting: Cli) -> None:
    """As long as it is in no workspace of the person's."""
    _conflict(conflicting)
    (_workspace(conflicting) / "other.txt").write_text("more\n")
    assert "already landed" in _conflict(conflicting)
    assert "holdfast take 1 b" in conflicting("status").out
    assert "a.txt" in conflicting("take", "b").out
    assert "<<<<<<<" in (_workspace(conflicting) / "a.txt").read_text()
    _resolve(conflicting)
    _lands_at_once(conflicting)


def test_a_merge_that_the_person_began_is_not_replaced(conflicting: Cli) -> None:
    """`take` again changes nothing then."""
    _conflict(conflicting)
    git(_workspace(conflicting), "merge", "-q", BRANCH, check=False)
    _resolve(conflicting)
    assert conflicting("take", "b").code == 0
    assert (_workspace(conflicting) / "a.txt").read_text() == "a\nmine\n"
