"""`retry`, and what `retry` and `skip` share: with a live runner, and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.runner.requests import Request, send_request
from tests.support.command import Cli, cli_at_work, eventually, writes


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
    assert cli("skip", "b").code == 0
    eventually(lambda: cli.task("b")["status"] == "skipped", "the runner records it")
    cli("stop")
    runner.wait()


def test_what_a_dead_runner_was_asked_comes_before_a_later_decision(blocked: Cli) -> None:
    """A runner that is killed before it reads `retry` leaves the request; it must not undo the `skip` that follows."""
    directory = blocked.project.open().state_dir.run(blocked.json("status")["run"]["id"])
    send_request(directory, Request(action="retry", task="b"))
    assert blocked("skip", "b").code == 0
    assert blocked("resume", "--yes").code == 0
    assert blocked.task("b")["status"] == "skipped"


def test_a_finished_run_takes_no_decisions(completed: Cli) -> None:
    """What is over stays as it is."""
    assert completed("retry", "a").code == 2
