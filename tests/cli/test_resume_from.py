"""`resume --from` and `--restart-stage`: a run begins again at a stage or a task."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support.command import Cli, fails, is_alive, writes
from tests.support.runs import Fifo

RUN = "01-try-it"


def test_a_run_begins_again_at_a_task_that_landed(tmp_path: Path) -> None:
    """A8, S2: both ids are told, the user is asked first, and the old run stays as it was."""
    cli = Cli.of(tmp_path / "p", writes("a"), fails("b", needs=["a"]), limits={"attempts": 1})
    cli("run", "--yes")
    asked = cli("resume", "--from", "a")
    assert (asked.code, "never goes back" in asked.out) == (3, True)
    done = cli("resume", "--from", "a", "--yes")
    assert (done.code, f"Run 02-try-it replaces {RUN}" in done.out) == (1, True), done.err
    assert [run["status"] for run in cli.json("list")] == ["abandoned", "blocked"]


def test_a_completed_run_that_begins_again_stays_completed(completed: Cli) -> None:
    """Nobody is told that it is abandoned or replaced: there are two results then, and the user lands one."""
    asked = completed("resume", "--from", "a")
    assert (asked.code, "abandoned" in asked.out) == (3, False)
    assert f"{RUN} stays completed" in asked.out
    done = completed("resume", "--from", "a", "--yes")
    assert (done.code, "replaces" in done.out) == (0, False), done.err
    assert "`holdfast land 2` lands its result instead of that of 01-try-it" in done.out
    assert [run["status"] for run in completed.json("list")] == ["completed", "completed"]


def test_beginning_again_at_a_result_that_has_landed_says_where_it_is(completed: Cli) -> None:
    """The branch has it already, and keeps it."""
    assert completed("land", "--yes").code == 0
    asked = completed("resume", "--from", "a", "--dry-run")
    assert f"{RUN} stays completed, and its result stays in main" in asked.out


def test_a_dry_run_tells_what_would_begin_again(blocked: Cli) -> None:
    """Nothing is changed by looking."""
    view = blocked.json("resume", "--from", "a", "--dry-run")
    assert (view["redone"], view["landed"]) == (["a", "b"], ["a"])
    assert blocked.json("resume", "--restart-stage", "main", "--dry-run")["redone"] == ["a", "b"]
    assert blocked("resume", "--restart-stage", "a", "--dry-run").code == 2
    assert len(blocked.json("list")) == 1


def test_a_task_begins_again_in_place_where_nothing_landed(blocked: Cli) -> None:
    """The run is the same; the task has a new attempt."""
    assert blocked("resume", "--from", "b", "--yes").code == 1
    assert (blocked.task("b")["attempts"], len(blocked.json("list"))) == (2, 1)


def test_what_a_dead_runner_left_is_ended_before_a_run_begins_again(tmp_path: Path) -> None:
    """No agent of the old turn works beside one of the new."""
    at_work = Fifo(tmp_path / "at-work")
    script = f"if [ -f {tmp_path}/done ]; then echo x > a.txt; exit; fi; {at_work.give}; sleep 60"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    runner = cli.start("run", "--yes")
    agent = int(at_work.wait())
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    (tmp_path / "done").touch()
    assert cli("resume", "--from", "a", "--yes").code == 0
    assert not is_alive(agent)
