"""`logs`: what an agent printed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.command import COMMAND, Cli
from tests.support.runs import Fifo


def test_logs_are_the_bytes_the_agent_printed(ended: Cli) -> None:
    """Nothing added, nothing taken away; earlier attempts are kept."""
    assert ended("logs", "1", "b").out == "no luck\n"
    assert ended("logs", "1", "b", "--attempt", "1").out == "no luck\n"
    assert ended("logs", "1", "b", "--attempt", "9").code == 2
    assert ended("logs", "1", "c").code == 2


def test_following_a_log_ends_with_the_attempt(tmp_path: Path) -> None:
    """`logs -f` shows what is printed while it watches, and then returns."""
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    script = f"echo one; {at_work.give}; {go_on.take}; echo two; echo x > a.txt"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    runner = cli.start("run", "--yes")
    at_work.wait()
    argv = [*COMMAND, "logs", "1", "a", "-f"]
    with subprocess.Popen(argv, cwd=cli.here, stdout=subprocess.PIPE) as follower:
        assert follower.stdout
        assert follower.stdout.readline() == b"one\n"
        go_on.release()
        assert follower.stdout.read() == b"two\n"
    assert runner.wait() == 0


def test_a_silent_agent_is_said_to_have_been_silent(ended: Cli) -> None:
    """An empty log is no puzzle; what a program reads stays empty."""
    done = ended("logs", "1", "a")
    assert (done.out, done.err) == ("", "a printed nothing in attempt 1.\n")
