"""`logs`: what an agent printed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from tests.support.command import COMMAND, Cli, writes
from tests.support.runs import Fifo
from tests.support.scripted_agents import DONE, THREAD, codex, say


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


def test_a_run_in_which_nobody_printed_anything_says_so(tmp_path: Path) -> None:
    """As for one task: who sees nothing at all wonders what went wrong."""
    cli = Cli.of(tmp_path / "p", writes("a"), writes("b"))
    assert cli("run", "--yes").code == 0
    done = cli("logs")
    assert (done.code, done.out, done.err) == (0, "", "No task of 01-try-it printed anything.\n")


def test_a_silent_agent_is_said_to_have_been_silent(ended: Cli) -> None:
    """An empty log is no puzzle; what a program reads stays empty."""
    done = ended("logs", "1", "a")
    assert (done.out, done.err) == ("", "a printed nothing in attempt 1.\n")


MESSAGE = {"type": "item.completed", "item": {"type": "agent_message", "text": "I write the file."}}
COMMAND_RUN = {"type": "item.started", "item": {"type": "command_execution", "command": "make test"}}
SCRIPT = f"{say(THREAD, COMMAND_RUN, MESSAGE)}; echo x > $HOLDFAST_TASK.txt; {say(DONE)}"


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A completed run: an agent with a stream, and a command that prints two lines."""
    loud = {"id": "loud", "run": ["sh", "-c", "echo one; echo two; echo x > loud.txt"]}
    tasks = ({"id": "spoken", "prompt": "x"}, loud)
    path = tmp_path_factory.mktemp("spoken") / "p"
    cli = Cli.of(path, *tasks, agent="c", agents={"c": codex(SCRIPT)}, limits={"jobs": 1})
    assert cli("run", "--yes").code == 0
    return cli


def test_an_event_stream_is_shown_as_people_read_it(spoken: Cli) -> None:
    """Messages, tools, the end; the run need not be named."""
    assert spoken("logs", "spoken").out == "> run: make test\nI write the file.\n= done\n"


def test_raw_logs_are_the_bytes_of_the_stream(spoken: Cli) -> None:
    """Every event as the agent printed it."""
    lines = spoken("logs", "1", "spoken", "--raw").out.splitlines()
    assert [msgspec.json.decode(line)["type"] for line in lines] == [
        "thread.started",
        "item.started",
        "item.completed",
        "turn.completed",
    ]


def test_programs_get_each_entry_as_json(spoken: Cli) -> None:
    """With its task and attempt; plain output has entries, too."""
    entries = [msgspec.json.decode(line) for line in spoken("logs", "--json").out.splitlines()]
    assert entries[1] == {
        "task": "spoken",
        "attempt": 1,
        "kind": "message",
        "text": "I write the file.",
        "detail": "",
    }
    assert [entry["kind"] for entry in entries] == ["tool", "message", "end", "plain", "plain"]


def test_without_a_task_all_of_them_are_shown_with_their_names(spoken: Cli) -> None:
    """One after the other, each line with its task before it."""
    assert spoken("logs").out.splitlines() == [
        "spoken | > run: make test",
        "spoken | I write the file.",
        "spoken | = done",
        "loud | one",
        "loud | two",
    ]
    assert spoken("logs", "--attempt", "1").code == 2


def test_following_goes_on_over_attempts_until_the_task_is_settled(tmp_path: Path) -> None:
    """A check fails, a second agent works: both are heard, and what happened between them is told beside the output."""
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    script = f"echo try $(cat mine.txt 2>/dev/null | wc -l); {at_work.give}; {go_on.take}; echo x >> mine.txt"
    task = {"id": "a", "run": ["sh", "-c", script], "verify": ["test $(wc -l < mine.txt) = 2"]}
    cli = Cli.of(tmp_path / "p", task)
    runner = cli.start("run", "--yes")
    at_work.wait()
    argv = [*COMMAND, "logs", "1", "a", "-f"]
    with subprocess.Popen(argv, cwd=cli.here, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as follower:
        assert follower.stdout
        assert follower.stderr
        assert follower.stdout.readline() == b"try 0\n"
        go_on.release()
        at_work.wait()
        go_on.release()
        assert follower.stdout.read() == b"try 1\n"
        told = follower.stderr.read().decode()
    assert "a: check failed" in told
    assert runner.wait() == 0


def test_following_a_run_shows_every_task_that_starts(tmp_path: Path) -> None:
    """Also those that begin later; it ends when the run rests."""
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    first = {"id": "a", "run": ["sh", "-c", f"echo one; {at_work.give}; {go_on.take}; echo x > a.txt"]}
    later = {"id": "b", "run": ["sh", "-c", "echo later; echo y > b.txt"], "needs": ["a"]}
    cli = Cli.of(tmp_path / "p", first, later)
    runner = cli.start("run", "--yes")
    at_work.wait()
    argv = [*COMMAND, "logs", "-f"]
    with subprocess.Popen(argv, cwd=cli.here, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as follower:
        assert follower.stdout
        assert follower.stdout.readline() == b"a | one\n"
        go_on.release()
        assert follower.stdout.read() == b"b | later\n"
    assert runner.wait() == 0


def test_output_that_is_not_kept_any_more_is_said_to_be_missing(spoken: Cli) -> None:
    """A log does not begin in the middle without a word: its first segment was dropped."""
    (log,) = spoken.here.glob(".holdfast/runs/*/attempts/loud/1/agent/output.log")
    segment = log.with_name("output.log.4")
    log.rename(segment)
    segment.write_bytes(b"two\n")
    done = spoken("logs", "1", "loud")
    assert done.out == "two\n"
    assert "4 bytes of output of attempt 1 are not kept any more" in done.err


def test_a_run_without_an_agent_so_far_has_no_log(tmp_path: Path) -> None:
    """It is said, with the way to see what it waits for."""
    cli = Cli.of(tmp_path / "p", writes("a", needs=["b"]), writes("b"))
    assert cli("run", "--yes", "--dry-run").code == 0
    assert cli("logs").code == 2


@pytest.mark.parametrize("command", ["logs", "review", "inspect"])
def test_a_word_that_names_neither_a_run_nor_a_task_is_said_to_be_neither(ended: Cli, command: str) -> None:
    """Who meant a task sees the tasks; a near name is offered, of a task or of a run."""
    unknown = ended(command, "nosuch")
    assert (unknown.code, 'there is no run or task "nosuch"' in unknown.err) == (2, True)
    assert "tasks of run 01-try-it: a, b, c; runs: 01-try-it" in unknown.err
    assert 'did you mean "b"?' in ended(command, "bb").err
    assert 'did you mean "01-try-it"?' in ended(command, "try-ti").err
