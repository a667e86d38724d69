"""`stop`: with a live runner, and after it died; and what all decisions print for programs."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.command import Cli, cli_at_work, eventually, is_alive, writes
from tests.support.runs import Fifo


def requests(cli: Cli) -> list[Path]:
    """Return the requests that no runner has answered."""
    return list((cli.here / ".holdfast" / "runs" / "01-try-it" / "requests").glob("*.json"))


def test_stop_ends_the_agents_and_returns_when_the_run_rests(tmp_path: Path) -> None:
    """When `stop` returns, nothing lives and the work is kept."""
    cli, runner, agent = cli_at_work(tmp_path)
    done = cli("stop")
    assert (done.code, "is stopped" in done.out) == (0, True), done.err
    assert not is_alive(agent)
    assert runner.wait() == 130
    assert cli.project.git("show", "refs/holdfast/01-try-it/wip/a:half.txt") == "half"


def test_an_attempt_after_a_stop_continues(tmp_path: Path) -> None:
    """Nothing was wrong with the work that was kept, so the next attempt is not called a fix."""
    at_work = Fifo(tmp_path / "at-work")
    script = f"test -f half.txt && exit 0; echo half > half.txt; {at_work.give}; sleep 60"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script], "resume": "continue"})
    runner = cli.start("run", "--yes")
    at_work.wait()
    assert cli("stop").code == 0
    runner.wait()
    shown = cli("resume", "--yes")
    assert shown.code == 0, shown.err
    assert "a: attempt 2 started (continuation)" in shown.out + shown.err


def test_stop_after_a_crash_stops_what_is_left(tmp_path: Path) -> None:
    """No runner lives, yet its agent does: it ends, its work is kept, and the run is stopped."""
    cli, runner, agent = cli_at_work(tmp_path)
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert is_alive(agent)
    done = cli("stop")
    assert (done.code, "has no runner; stopping" in done.out) == (0, True), done.err
    assert not is_alive(agent)
    assert cli.run_status() == "stopped"
    assert cli.project.git("show", "refs/holdfast/01-try-it/wip/a:half.txt") == "half"


def test_a_runner_that_dies_while_it_is_asked_is_stopped_all_the_same(tmp_path: Path) -> None:
    """Nobody is left to answer the request, so `stop` ends the agents itself before it says that they have ended."""
    cli, runner, agent = cli_at_work(tmp_path)
    os.killpg(runner.pid, signal.SIGSTOP)
    stop = cli.start("stop")
    eventually(lambda: bool(requests(cli)), "the request is there")
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert stop.wait() == 0
    assert not is_alive(agent)
    assert cli.run_status() == "stopped"
    assert cli.project.git("show", "refs/holdfast/01-try-it/wip/a:half.txt") == "half"


def test_a_fresh_start_after_a_crash_leaves_no_old_agent_alive(tmp_path: Path) -> None:
    """Giving a run up ends what its dead runner left, and keeps its work."""
    cli, runner, agent = cli_at_work(tmp_path)
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    cli.plan(writes("b"))
    assert cli("run", "--yes", "--fresh").code == 0
    assert not is_alive(agent)
    assert [run["status"] for run in cli.json("list")] == ["abandoned", "completed"]
    assert cli.project.git("show", "refs/holdfast/01-try-it/wip/a:half.txt") == "half"


def test_stopping_a_run_that_rests_changes_nothing(blocked: Cli) -> None:
    """Asking twice is no error."""
    done = blocked("stop")
    assert (done.code, "nothing of it is running" in done.out) == (0, True)
    assert blocked.run_status() == "blocked"


def test_a_stop_that_comes_too_late_does_not_stop_the_next_runner(tmp_path: Path) -> None:
    """A request nobody read is taken back."""
    cli, runner, _ = cli_at_work(tmp_path)
    cli("stop")
    runner.wait()
    assert not requests(cli)


def test_what_cannot_be_done_now_is_said_in_words(tmp_path: Path) -> None:
    """The reason is the task's state; the name of an event means nothing to a user."""
    cli, runner, _ = cli_at_work(tmp_path)
    done = cli("retry", "a")
    assert (done.code, "that cannot be done now: task a is running" in done.err) == (2, True)
    cli("stop")
    runner.wait()


@pytest.mark.parametrize(
    ("words", "status", "detail"),
    [
        ("stop", "blocked", "nothing of it is running"),
        ("pause", "blocked", "nothing of it is running"),
        ("retry b", "blocked", "b has all its attempts again"),
        ("skip b", "blocked", "b is skipped"),
        ("reset 1 b --yes", "blocked", "b starts again"),
        ("abandon --yes", "abandoned", "Abandoned 01-try-it"),
        ("land --yes", "blocked", "01-try-it has landed so far is in main"),
        ("discard --yes", "abandoned", "its branch is archived"),
    ],
)
def test_steering_answers_programs_with_one_object(
    words: str, status: str, detail: str, blocked: Cli
) -> None:
    """`--json` gives the run, where it stands now and what was done, and nothing else on standard output."""
    said = blocked.json(*words.split())
    assert said.keys() == {"run", "status", "detail", "task", "pending", "kept"}
    assert (said["run"], said["status"], said["pending"]) == ("01-try-it", status, False)
    assert detail in said["detail"]
    assert said["task"] == ("b" if " b" in words else None)


def test_programs_learn_what_was_put_aside(blocked: Cli) -> None:
    """A backup and an archived branch can be had back by what `kept` names."""
    kept = blocked.json("reset", "1", "--yes")["kept"]
    assert Path(kept["backup"]).exists()
    assert blocked.project.git("rev-parse", "--verify", kept["branch"])


def test_stopping_what_is_left_prints_json_alone(tmp_path: Path) -> None:
    """What happens on the way is told on standard error, so that the output can be parsed."""
    at_work = Fifo(tmp_path / "at-work")
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", f"{at_work.give}; sleep 60"]})
    runner = cli.start("run", "--yes")
    at_work.wait()
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert cli.json("stop")["status"] == "stopped"


def test_a_refusal_is_the_same_for_programs(blocked: Cli) -> None:
    """Errors stay on standard error with their exit code."""
    done = blocked("skip", "a", "--json")
    assert (done.code, done.out, "that cannot be done now" in done.err) == (2, "", True)
