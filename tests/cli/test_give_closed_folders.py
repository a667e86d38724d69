"""A person's files are never changed by us: what we may not read is refused, and left as it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.command import COMMAND, Cli, Done
from tests.support.repositories import git
from tests.support.users import powerless, require_root


@pytest.fixture
def taken(blocked: Cli) -> Cli:
    """A run whose task `b` was taken by a person who may no more than any user."""
    require_root()
    assert blocked("take", "b").code == 0
    return blocked


def _workspace(cli: Cli) -> Path:
    return cli.here / ".holdfast" / "work" / "01-try-it" / "taken-b"


def _run(cli: Cli, *words: str) -> Done:
    return powerless(cli.here, *COMMAND, *words)


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_closed_folder_is_refused_and_stays_closed(mode: int, taken: Cli) -> None:
    """Nothing of it counts as deleted. The folder is moved aside with all that is in it when the run ends."""
    closed = _workspace(taken) / "closed"
    closed.mkdir()
    (closed / "tracked.txt").write_text("tracked\n")
    git(_workspace(taken), "add", "closed")
    git(_workspace(taken), "commit", "-qm", "with a folder")
    (closed / "mine.txt").write_text("mine\n")
    closed.chmod(mode)
    assert _run(taken, "give", "b").code == 0
    done = _run(taken, "resume", "--yes")
    assert (done.code, "closed cannot be read" in done.out + done.err) == (3, True), done.out + done.err
    assert _mode(closed) == mode
    assert _run(taken, "discard", "--yes").code == 0
    assert _run(taken, "clean", "--all", "--yes").code == 0
    (aside,) = _workspace(taken).parent.glob(".uncommitted-taken-b-*")
    assert _mode(aside / "closed") == mode
    assert (aside / "closed" / "mine.txt").read_text() == "mine\n"


def test_an_ignored_closed_folder_is_no_obstacle_and_stays(taken: Cli) -> None:
    """Git never looks into it. What it holds is in no commit, so it outlives the run."""
    closed = _workspace(taken) / "cache.log"
    closed.mkdir()
    (closed / "mine.txt").write_text("mine\n")
    (_workspace(taken) / "new.txt").write_text("new\n")
    closed.chmod(0)
    _run(taken, "give", "b")
    assert _run(taken, "resume", "--yes").code == 0
    (aside,) = _workspace(taken).parent.glob(".uncommitted-taken-b-*")
    assert (_mode(aside / "cache.log"), (aside / "cache.log" / "mine.txt").exists()) == (0, True)


def test_a_pipe_that_git_would_wait_for_is_refused_and_stays(taken: Cli) -> None:
    """In an agent's workspace it is removed."""
    pipe = _workspace(taken) / ".gitattributes"
    os.mkfifo(pipe)
    _run(taken, "give", "b")
    assert _run(taken, "resume", "--yes").code == 3
    assert pipe.is_fifo()
    assert _run(taken, "discard", "--yes").code == 0
    (aside,) = _workspace(taken).parent.glob(".uncommitted-taken-b-*")
    assert (aside / ".gitattributes").is_fifo()
