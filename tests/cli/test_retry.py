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
