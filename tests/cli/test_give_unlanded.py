"""What a person made by hand is never lost: what was given and has not landed stays at a ref, also after `clean`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Cli, fails
from tests.support.repositories import git

REFS = "refs/holdfast/01-try-it/archive"


def _workspace(cli: Cli) -> Path:
    return cli.here / ".holdfast" / "work" / "01-try-it" / "taken-b"


def _refused(tmp_path: Path) -> Cli:
    """Return a run whose task `b` was done by hand, in files without a commit, given, and refused by a check."""
    task = fails("b", verify=["test ! -e mine.txt"])
    cli = Cli.of(tmp_path / "p", task, limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    assert cli("take", "b").code == 0
    (_workspace(cli) / "mine.txt").write_text("mine\n")
    assert cli("give", "b").code == 0
    assert cli("resume", "--yes").code == 3
    return cli


def _clean(cli: Cli) -> None:
    assert cli("discard", "--yes").code == 0
    assert cli("clean", "--all", "--yes").code == 0


def _refs_with(cli: Cli, text: str) -> list[str]:
    """Return the refs whose files hold a text."""
    refs = git(cli.here, "for-each-ref", "--format=%(refname)").splitlines()
    return [ref for ref in refs if text in git(cli.here, "grep", "-h", "-e", "", ref)]


@pytest.mark.parametrize(
    "way", [(), ("reset", "1", "b", "--yes"), ("retry", "b", "--clean"), ("retry", "b")], ids=" ".join
)
def test_what_was_given_and_refused_outlives_clean(way: tuple[str, ...], tmp_path: Path) -> None:
    """Whatever the task did between."""
    cli = _refused(tmp_path)
    if way:
        assert cli(*way).code == 0
        cli("resume", "--yes")
    _clean(cli)
    (ref,) = _refs_with(cli, "mine")
    assert ref.startswith(f"{REFS}/b-")
    assert ref.endswith("-taken")


@pytest.mark.parametrize("gives", [False, True], ids=["left", "given and not taken in"])
def test_each_work_that_was_left_outlives_clean_and_gits_own_tidying(gives: bool, blocked: Cli) -> None:
    """A person takes the task twice and an agent gets it each time; git forgets what only the log of a ref has."""
    for text in ("first work", "second work"):
        assert blocked("take", "b").code == 0
        (_workspace(blocked) / "mine.txt").write_text(f"{text}\n")
        assert not gives or blocked("give", "b").code == 0
        assert blocked("retry", "b").code == 0
    _clean(blocked)
    git(blocked.here, "reflog", "expire", "--expire=now", "--all")
    git(blocked.here, "gc", "-q", "--prune=now")
    assert [len(_refs_with(blocked, text)) for text in ("first work", "second work")] == [1, 1]


def test_what_was_given_back_outlives_clean(blocked: Cli) -> None:
    """The agent that got it failed."""
    blocked("take", "b")
    (_workspace(blocked) / "mine.txt").write_text("mine\n")
    assert blocked("give", "b", "--back").code == 0
    blocked("resume", "--yes")
    _clean(blocked)
    assert _refs_with(blocked, "mine")


def test_each_work_that_was_given_is_kept(tmp_path: Path) -> None:
    """Not only the last."""
    cli = _refused(tmp_path)
    (_workspace(cli) / "mine.txt").write_text("second\n")
    cli("give", "b")
    assert cli("resume", "--yes").code == 3
    _clean(cli)
    assert _refs_with(cli, "mine")
    assert _refs_with(cli, "second")


def test_commits_beside_the_history_that_was_handed_over_outlive_clean(tmp_path: Path) -> None:
    """A person began a history of their own, gave that, and moved off again."""
    cli = _refused(tmp_path)
    here = _workspace(cli)
    start = git(here, "rev-parse", "HEAD")
    git(here, "checkout", "-q", "--orphan", "own")
    git(here, "add", "mine.txt")
    git(here, "commit", "-qm", "own")
    made = git(here, "rev-parse", "HEAD")
    git(here, "checkout", "-q", "--detach")
    git(here, "branch", "-qD", "own")
    cli("give", "b")
    assert cli("resume", "--yes").code == 3
    git(here, "checkout", "-qf", start)
    _clean(cli)
    assert git(cli.here, "for-each-ref", "--contains", made)


def test_what_has_landed_leaves_no_ref_of_its_own(blocked: Cli) -> None:
    """The branch has it."""
    blocked("take", "b")
    (_workspace(blocked) / "mine.txt").write_text("mine\n")
    blocked("give", "b")
    assert blocked("resume", "--yes").code == 0
    assert blocked("clean", "--all", "--yes").code == 0
    assert git(blocked.here, "for-each-ref", "--format=%(refname)", "refs/holdfast") == ""
    assert _refs_with(blocked, "mine") == ["refs/heads/holdfast/01-try-it"]
