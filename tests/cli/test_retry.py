"""`retry` and `skip`: with a live runner, and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Cli, cli_at_work, eventually, fails, writes


@pytest.mark.parametrize(("command", "status"), [("retry", "pending"), ("skip", "skipped")])
def test_a_decision_about_a_task_is_recorded_without_a_runner(
    command: str, status: str, blocked: Cli
) -> None:
    """The next `resume` acts on it."""
    done = blocked(command, "b")
    assert (done.code, "holdfast resume" in done.out) == (0, True)
    assert blocked.task("b")["status"] == status


def test_a_skipped_task_lets_those_that_need_it_start(tmp_path: Path) -> None:
    """The user's word stands in for the work."""
    cli = Cli.of(tmp_path / "p", fails("a"), writes("b", needs=["a"]), limits={"attempts": 1})
    cli("run", "--yes")
    cli("skip", "a")
    assert cli("resume").code == 0
    assert cli.task("b")["status"] == "completed"


def test_a_live_runner_takes_a_decision_about_a_task(tmp_path: Path) -> None:
    """`skip` reaches the runner; nobody has to stop the run for it."""
    cli, runner, _ = cli_at_work(tmp_path, writes("b", needs=["a"]))
    assert cli("skip", "b").code == 0
    eventually(lambda: cli.task("b")["status"] == "skipped", "the runner records it")
    cli("stop")
    runner.wait()


def test_what_has_landed_cannot_be_skipped(blocked: Cli) -> None:
    """A decision that contradicts the facts is refused."""
    assert blocked("skip", "a").code == 2


def test_a_finished_run_takes_no_decisions(completed: Cli) -> None:
    """What is over stays as it is."""
    assert completed("retry", "a").code == 2
