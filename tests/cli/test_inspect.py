"""`inspect`, `logs` and `recap`: what a run and its attempts left behind."""

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


def test_inspect_shows_every_attempt_with_its_error(ended: Cli) -> None:
    """Kind, times, error and output of each: what the next attempt was told."""
    (task,) = ended.json("inspect", "1", "b")["tasks"]
    assert [(a["attempt"], a["kind"], a["outcome"]) for a in task["attempts"]] == [
        (1, "implementation", "failed"),
        (2, "implementation", "failed"),
    ]
    error = task["attempts"][0]["errors"][0]
    assert (error["failure"], error["detail"].strip()) == ("agent", "no luck")
    assert "no luck" in ended("inspect", "1", "b").out


def test_inspect_names_the_commits_and_refs_of_a_landed_task(ended: Cli) -> None:
    """Each commit is kept under a ref that git knows."""
    (task,) = ended.json("inspect", "1", "a")["tasks"]
    assert ended.project.git("rev-parse", task["refs"][0]) == task["attempts"][0]["commit"]


def test_inspect_shows_a_run_as_it_was(ended: Cli) -> None:
    """`--at` folds the events up to a number; the run looked different then."""
    events = ended.json("inspect", "1")["events"]
    landed = next(line["seq"] for line in events if line["event"]["kind"] == "TaskLanded")
    before = ended.json("inspect", "1", "--at", str(landed - 1))
    assert [task["status"] for task in before["tasks"]] == ["merging", "pending", "pending"]
    assert before["run"]["status"] == "running"
    assert ended("inspect", "1", "--at", "9999").code == 2


def test_recap_proves_by_git_that_nothing_was_lost_or_repeated(ended: Cli) -> None:
    """The numbers come from the branch and the journal, not from an agent."""
    view = ended.json("recap", "1")
    assert (view["landed"], view["lost"], view["repeated"]) == (1, 0, 0)
    assert view["failures"] == {"agent": 2}
    assert "0 lost, 0 repeated" in ended("recap").out


def test_a_silent_agent_is_said_to_have_been_silent(ended: Cli) -> None:
    """An empty log is no puzzle; what a program reads stays empty."""
    done = ended("logs", "1", "a")
    assert (done.out, done.err) == ("", "a printed nothing in attempt 1.\n")


def test_a_brief_is_json_for_programs_too(ended: Cli) -> None:
    """`--json` holds wherever it is offered."""
    assert ended.json("inspect", "1", "c", "--brief").startswith("# Task c\n")
