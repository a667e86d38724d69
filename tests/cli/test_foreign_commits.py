"""Commits on a run branch that Holdfast did not make: they count for nothing, are told, and are landed by no accident."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Cli, killed_cli, writes

BRANCH = "refs/heads/holdfast/01-try-it"
FORGED = (
    "printf 'Land b\\n\\nHoldfast-Run: 01-try-it\\nHoldfast-Task: b\\nHoldfast-Attempt: 1\\n' | "
    f"git commit-tree -p {BRANCH} -p $(git commit-tree -m b -p {BRANCH} {BRANCH}^{{tree}}) {BRANCH}^{{tree}}"
)


@pytest.fixture
def forged(tmp_path: Path) -> Cli:
    """A run whose agent `a` put a landing of `b`, which never ran, on the run branch."""
    moves = f"echo a > a.txt; git update-ref {BRANCH} $({FORGED})"
    b = {"id": "b", "run": ["sh", "-c", "echo b > b.txt"], "verify": ["test -f b.txt"], "needs": ["a"]}
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", moves]}, b)
    assert cli("run", "--yes", "--no-sandbox").code == 3
    return cli


def _tip(cli: Cli) -> str:
    return cli.project.git("rev-parse", BRANCH)


def _commit_on_top(cli: Cli, name: str) -> str:
    """Put a commit with one more file on the run branch, as an agent does that knows git; return it."""
    project = cli.project
    blob = project.git("hash-object", "-w", "--stdin")
    listing = project.git("ls-tree", BRANCH) + f"\n100644 blob {blob}\t{name}\n"
    (cli.here / ".git" / "listing").write_text(listing)
    tree = project.git("-c", "alias.t=!git mktree < .git/listing", "t")
    commit = project.git("commit-tree", "-p", BRANCH, "-m", "more", tree)
    project.git("update-ref", BRANCH, commit)
    return commit


def test_a_forged_landing_stops_the_run_and_resume_says_what_it_is(forged: Cli) -> None:
    """Its trailers are right and git shows it; but the journal knows of no such merge."""
    assert forged.task("b")["status"] != "completed"
    refused = forged("resume", "--yes", "--no-sandbox")
    assert refused.code == 3
    assert "1 of its commits is not Holdfast's" in refused.err
    assert "claim to be landings of b" in refused.err
    assert f"git update-ref {BRANCH}" in refused.err
    assert forged.task("b")["status"] != "completed"
    assert forged("resume", "--dry-run").code == 3
    recap = forged.json("recap")
    assert (recap["landed"], recap["repeated"], recap["foreign"]) == (0, 0, 1)


def test_with_the_forged_landing_taken_off_the_real_one_follows(forged: Cli) -> None:
    """The way out that the message names works as typed, and `b` is done by its own agent."""
    command = next(word for word in forged("resume", "--yes").err.split("`") if "update-ref" in word)
    forged.project.git(*command.split()[1:])
    assert forged("resume", "--yes", "--no-sandbox").code == 0
    assert forged.project.git("show", f"{BRANCH}:b.txt") == "b"
    assert forged("doctor").code == 0


def test_only_the_commit_that_the_user_named_is_accepted(tmp_path: Path) -> None:
    """The branch may move between the look and the word: the word is for one tip."""
    cli = Cli.of(
        tmp_path / "p", writes("a"), {"id": "b", "run": ["false"], "needs": ["a"]}, limits={"attempts": 1}
    )
    assert cli("run", "--yes").code == 1
    seen = _commit_on_top(cli, "seen.txt")
    unseen = _commit_on_top(cli, "unseen.txt")
    assert cli("resume", "--yes", "--accept-branch", seen[:12]).code == 3
    assert cli("resume", "--yes", "--accept-branch", unseen[:12]).code == 1
    assert cli("land", "--yes").code == 0
    assert (cli.here / "unseen.txt").exists()


@pytest.mark.parametrize("command", ["stop", "abandon", "discard"])
def test_a_run_with_a_forged_branch_can_be_left(tmp_path: Path, command: str) -> None:
    """Its runner was killed: what it left running ends, and nothing forged is believed on the way."""
    cli, _ = killed_cli(tmp_path)
    cli.project.git("update-ref", BRANCH, cli.project.git("-c", f"alias.f=!{FORGED}", "f"))
    done = cli(command, *(["--yes"] if command != "stop" else []))
    assert done.code == 0, done.err
    assert cli.run_status() == ("stopped" if command == "stop" else "abandoned")
    assert cli.task("b")["status"] != "completed"


def test_a_branch_that_moved_after_the_run_is_not_landed(completed: Cli) -> None:
    """Both commits are named, and nothing changes until the user decides."""
    before, recorded = completed.project.head(), _tip(completed)
    moved = _commit_on_top(completed, "evil.txt")
    refused = completed("land", "--yes")
    assert (refused.code, completed.project.head()) == (3, before)
    assert {recorded[:12], moved[:12]} <= set(refused.err.replace(",", " ").split())
    assert completed("land", "--yes", "--accept-branch", recorded[:12]).code == 3
    assert completed("land", "--yes", "--accept-branch", moved[:12]).code == 0
    assert (completed.here / "evil.txt").exists()


def test_the_branch_can_be_put_back_and_then_lands(completed: Cli) -> None:
    """The other way out, as the message spells it."""
    _commit_on_top(completed, "evil.txt")
    command = next(word for word in completed("land", "--yes").err.split("`") if "update-ref" in word)
    completed.project.git(*command.split()[1:])
    assert completed("land", "--yes").code == 0
    assert not (completed.here / "evil.txt").exists()


def test_review_tells_which_commits_are_not_holdfasts(completed: Cli) -> None:
    """What nobody checked is not shown as a landing."""
    forged = completed.project.git("-c", f"alias.f=!{FORGED.replace('Task: b', 'Task: a')}", "f")
    completed.project.git("update-ref", BRANCH, forged)
    said = completed("review").out
    assert "somebody moved it" in said
    assert f"not made by Holdfast: {forged[:12]}  Land b" in said
    assert said.count("attempt 1)") == 1


def test_rebuild_says_that_it_believes_git(completed: Cli) -> None:
    """Without a journal, what is on the branch is all there is to go by."""
    (completed.here / ".holdfast" / "journal.db").unlink()
    said = completed("rebuild").out
    assert "without a journal nobody can tell whether Holdfast put it there" in said
