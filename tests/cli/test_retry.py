"""`retry`, and what `retry` and `skip` share: with a live runner, and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Cli, cli_at_work, writes


@pytest.mark.parametrize(("command", "status"), [("retry", "pending"), ("skip", "skipped")])
def test_a_decision_about_a_task_is_recorded_without_a_runner(
    command: str, status: str, blocked: Cli
) -> None:
    """The next `resume` acts on it."""
    done = blocked(command, "b")
    assert (done.code, "holdfast resume" in done.out) == (0, True)
    assert blocked.task("b")["status"] == status


def test_a_live_runner_takes_a_decision_about_a_task(tmp_path: Path) -> None:
    """`skip` reaches the runner; nobody has to stop the run for it."""
    cli, runner, _ = cli_at_work(tmp_path, writes("b", needs=["a"]))
    done = cli("skip", "b")
    assert (done.code, "goes on with it" in done.out) == (0, True)
    cli("stop")
    runner.wait()


def test_a_decision_counts_when_the_command_returns(tmp_path: Path) -> None:
    """The runner has recorded it by then: whatever is killed next, it stays."""
    cli, runner, _ = cli_at_work(tmp_path, writes("b", needs=["a"]))
    cli("skip", "b")
    assert cli.task("b")["status"] == "skipped"
    cli("stop")
    runner.wait()


def test_a_finished_run_takes_no_decisions(completed: Cli) -> None:
    """What is over stays as it is."""
    assert completed("retry", "a").code == 2


def test_run_comes_before_task_and_may_be_left_out(blocked: Cli) -> None:
    """One order for every command; the other one is named in the error."""
    assert blocked("retry", "1", "b").code == 0
    assert blocked("retry", "b").code == 0
    turned = blocked("retry", "b", "1")
    assert (turned.code, "RUN comes before TASK: `1 b`" in turned.err) == (2, True)


def test_options_may_stand_anywhere(blocked: Cli) -> None:
    """Nobody has to know where a command wants them."""
    assert blocked.json("retry", "1", "b")["task"] == "b"
    assert blocked("retry", "--json", "1", "b").code == blocked("retry", "1", "--json", "b").code == 0


def test_two_tasks_are_not_taken_for_a_run_and_a_task(blocked: Cli) -> None:
    """Nothing is decided about either."""
    done = blocked("retry", "a", "b")
    assert (done.code, 'there is no run "a"' in done.err) == (2, True)
    assert blocked.task("b")["status"] == "abandoned"
