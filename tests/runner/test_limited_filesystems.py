"""Runs on file systems that lack something: each works all the same, or says what it lacks and what to do."""

from __future__ import annotations

import errno
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.errors import JournalUnavailableError
from holdfast.journal.sqlite_errors import explained
from tests.crash.faults import Fault, Program, run_with_fault
from tests.support.command import COMMAND, Cli, eventually, writes
from tests.support.limited_filesystem import limited_filesystem
from tests.support.runs import Fifo

DISPENSABLE = ("fifo", "hardlink", "chmod")


@dataclass(frozen=True, slots=True)
class SlowProject:
    """A project whose task `a` reports, says that it works, and waits to be told to finish. `b` comes after it."""

    cli: Cli
    working: Fifo
    finish: Fifo


@pytest.fixture
def limited(tmp_path: Path) -> Iterator[SlowProject]:
    """Such a project on a file system without pipes, hard links and modes."""
    working, finish = Fifo(tmp_path / "working"), Fifo(tmp_path / "finish")
    script = f"holdfast report progress 40; echo a > a.txt; {working.give}; {finish.take}"
    Cli.of(tmp_path / "behind" / "p", {"id": "a", "run": ["sh", "-c", script]}, writes("b", needs=["a"]))
    with limited_filesystem(tmp_path / "behind", *DISPENSABLE) as mounted:
        yield SlowProject(Cli(mounted.root / "p"), working, finish)
        finish.release()


def test_a_run_needs_no_pipes_hard_links_or_modes(limited: SlowProject) -> None:
    """From the first start to the branch it is meant for."""
    limited.finish.release()
    ended = limited.cli("run", "--yes")
    assert (ended.code, limited.cli.run_status()) == (0, "completed"), ended.err
    assert limited.cli("land", "--yes").code == 0
    assert (limited.cli.here / "b.txt").read_text() == "b\n"
    assert limited.cli("doctor").code == 0


def test_a_runner_that_nobody_can_wake_stops_and_resumes(limited: SlowProject) -> None:
    """It looks for requests by itself, and `resume` goes on from the work that was saved."""
    runner = limited.cli.start("run", "--yes")
    limited.working.wait()
    assert limited.cli("stop").code == 0
    runner.wait()
    assert limited.cli.run_status() == "stopped"
    limited.finish.release()
    assert limited.cli("resume", "--yes").code == 0
    assert limited.cli.run_status() == "completed"


def test_a_runner_that_nobody_can_wake_hears_its_agents(limited: SlowProject) -> None:
    """What an agent reports is shown while it works."""
    runner = limited.cli.start("run", "--yes")
    limited.working.wait()
    eventually(lambda: limited.cli.task("a")["progress"] == 40, "the progress is known")
    assert limited.cli("save").out.startswith("01-try-it: saved a at ")
    limited.finish.release()
    assert runner.wait() == 0


def test_a_killed_runner_is_followed_by_another(limited: SlowProject) -> None:
    """The locks of a file system without pipes are as good as any: the agent is found alive and taken over."""
    runner = limited.cli.start("run", "--yes")
    limited.working.wait()
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    limited.finish.release()
    resumed = limited.cli("resume", "--yes")
    assert (resumed.code, limited.cli.task("a")["attempts"]) == (0, 1), resumed.err


def test_two_runs_at_once_need_no_pipes(limited: SlowProject) -> None:
    """Each request reaches the runner that it is meant for."""
    script = f"{limited.working.give}; sleep 60"
    limited.cli.plan({"id": "c", "run": ["sh", "-c", script]}, name="other.json")
    first = limited.cli.start("run", "plan.json", "--yes")
    limited.working.wait()
    second = limited.cli.start("run", "other.json", "--yes")
    limited.working.wait()
    assert limited.cli("stop", "2").code == 0
    assert (second.wait(), first.poll()) == (130, None)
    limited.finish.release()
    assert first.wait() == 0


@pytest.mark.parametrize(
    ("lack", "sentence"),
    [
        ("symlink", "the file system has no symbolic links"),
        ("mmap", "its file system (fuse.limited) cannot share memory between processes"),
    ],
)
def test_what_is_needed_and_not_there_is_named(tmp_path: Path, lack: str, sentence: str) -> None:
    """The message has the file system and the way out, and nothing was started."""
    Cli.of(tmp_path / "behind" / "p", writes("a"))
    with limited_filesystem(tmp_path / "behind", lack) as mounted:
        refused = Cli(mounted.root / "p")("run", "--yes")
    assert (refused.code, refused.out) == (3, "")
    assert sentence in refused.err
    assert "fuse.limited" in refused.err
    assert "ordinary disk (ext4, xfs, btrfs)" in refused.err


def test_a_journal_without_file_locks_is_not_taken_for_a_busy_one(tmp_path: Path) -> None:
    """SQLite cannot tell the two apart; the message can."""
    (tmp_path / "behind").mkdir()
    with limited_filesystem(tmp_path / "behind", "lock") as mounted:
        path = mounted.root / "journal.db"
        with (
            closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as db,
            pytest.raises(JournalUnavailableError, match=r"journal\.db: No locks available"),
            explained(path),
        ):
            db.execute("BEGIN IMMEDIATE")


@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP])
def test_a_pipe_that_cannot_be_made_ends_no_run(tmp_path: Path, error: int) -> None:
    """Whatever the system says when it is asked for one."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    requests = cli.here / ".holdfast/runs/01-try-it/requests"
    requests.mkdir(parents=True)
    ended = run_with_fault(Program([*COMMAND, "run", "--yes"], cli.here, requests), Fault("errno", 1, error))
    assert (ended.point and ended.point.path, ended.exit_status) == ("bell", 0), ended.output
    assert cli.run_status() == "completed"


@pytest.mark.parametrize("thing", ["file", "folder", "link"])
def test_something_else_in_place_of_the_pipe_ends_no_run(tmp_path: Path, thing: str) -> None:
    """The runner does without the pipe, and follows no link."""
    working = Fifo(tmp_path / "working")
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", f"{working.give}; sleep 60"]})
    place = cli.here / ".holdfast/runs/01-try-it/requests/bell"
    place.parent.mkdir(parents=True)
    if thing == "link":
        place.symlink_to(tmp_path / "working")
    else:
        place.touch() if thing == "file" else place.mkdir()
    runner = cli.start("run", "--yes")
    working.wait()
    assert cli("stop").code == 0
    assert runner.wait() == 130


def test_a_repository_at_rest_has_no_pipe_that_tools_cannot_copy(tmp_path: Path) -> None:
    """Many backups and copies fail at one."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert cli("run", "--yes").code == 0
    assert [path for path in (cli.here / ".holdfast").rglob("*") if path.is_fifo()] == []
