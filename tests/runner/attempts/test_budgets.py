"""Budgets bind whatever the source: an agent's event stream, its reports, or both. All with real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.core.status import FailureKind, RunStatus, TaskStatus
from tests.support.command import eventually, is_alive
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, kill, sh, stage, start_runner
from tests.support.scripted_agents import THREAD, codex, once, say, trial, uses, work

FOREVER = "sleep 600"


def test_an_attempt_that_reports_more_than_its_budget_is_ended_while_it_works(tmp_path: Path) -> None:
    """Its stream is silent on money, its reports are not; the work is kept, and the message names source and limit."""
    first = f"echo half > half.txt; holdfast report cost 0.75; holdfast report cost 0.5; {FOREVER}"
    script = once(tmp_path / "hit", first, "echo a > A.txt")
    run = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script, resume="continue")),
        limits={"attempt_cost_usd": 1},
    )
    assert run.execute() is RunStatus.COMPLETED
    (failed,) = run.of_kind(ev.AttemptFailed)
    assert (failed.failure, failed.error) == (
        FailureKind.BUDGET,
        "the budget of $1.00 for an attempt (limits.attempt_cost_usd) is spent: its agent reported $1.25",
    )
    assert run.show("half.txt") == "half"


def test_a_task_that_reports_more_than_its_budget_is_abandoned(tmp_path: Path) -> None:
    """The money of all its attempts counts together, as it does for streams."""
    script = f"echo $HOLDFAST_ATTEMPT > a.txt; holdfast report cost 0.4; {FOREVER}"
    run = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script, cost_usd=0.6)),
        limits={"attempt_cost_usd": 0.3},
    )
    assert run.execute() is RunStatus.BLOCKED
    task = run.state().tasks["A"]
    assert (task.status, task.attempt, task.cost_usd) == (TaskStatus.ABANDONED, 2, 0.8)
    assert "$0.60 for the task" in task.error


def test_a_run_that_reports_more_than_its_budget_ends_its_agents_and_blocks(tmp_path: Path) -> None:
    """What one agent reports counts against the budget that all of them share, at once."""
    script = f"echo x > $HOLDFAST_TASK.txt; holdfast report cost 1.5; {FOREVER}"
    tasks = [sh("A", script), sh("B", script)]
    run = Trial.of(Project.create(tmp_path / "p"), stage("one", *tasks), limits={"cost_usd": 2.2, "jobs": 2})
    assert run.execute() is RunStatus.BLOCKED
    assert "$2.20 is spent" in run.stored().row.reason
    assert run.stored().row.cost_usd == 3.0
    assert {halted.failure for halted in run.of_kind(ev.AttemptHalted)} == {FailureKind.BUDGET}


def test_an_agent_that_reported_nothing_is_not_charged_for_the_budget_of_the_run(tmp_path: Path) -> None:
    """Another one spent it. All are ended, and nobody's attempt failed: with a larger budget each goes on where it was."""
    silent = Fifo(tmp_path / "silent")
    quiet = f"echo half > half.txt; {silent.give}; {FOREVER}"
    spender = f"{silent.take}; echo b > B.txt; holdfast report cost 3; {FOREVER}"
    tasks = [
        sh("A", once(tmp_path / "a", quiet, "test -f half.txt && echo a > A.txt"), resume="continue"),
        sh("B", once(tmp_path / "b", spender, "test -f B.txt && echo more >> B.txt"), resume="continue"),
    ]
    limits = {"cost_usd": 2, "jobs": 2, "attempts": 1}
    run = Trial.of(Project.create(tmp_path / "p"), stage("one", *tasks), limits=limits)
    assert run.execute() is RunStatus.BLOCKED
    assert not run.of_kind(ev.AttemptFailed)
    assert {lost.cause for lost in run.of_kind(ev.AttemptLost)} == {"budget"}
    assert {halted.error for halted in run.of_kind(ev.AttemptHalted)} == {
        "the budget of $2.00 is spent: the run used $3.00"
    }
    assert [run.state().tasks[name].charged for name in "AB"] == [0, 0]
    assert run.execute(cost_usd=9.0) is RunStatus.COMPLETED
    assert not run.violations()


def test_reported_tokens_bind_too(tmp_path: Path) -> None:
    """An agent without a stream can tell tokens by its reports; they add up."""
    tokens = "holdfast report tokens 300; holdfast report --tokens 200 --progress 5"
    script = once(tmp_path / "hit", f"{tokens}; {FOREVER}", "echo a > A.txt")
    run = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", script)), limits={"attempt_tokens": 400}
    )
    assert run.execute() is RunStatus.COMPLETED
    (failed,) = run.of_kind(ev.AttemptFailed)
    assert failed.error.endswith("(limits.attempt_tokens) is spent: its agent reported 500 tokens")
    assert run.state().tasks["A"].tokens == 500


def test_what_an_agent_streams_and_reports_counts_once(tmp_path: Path) -> None:
    """The larger of the two is what the attempt used."""
    script = f"{say(THREAD, uses(500))}; holdfast report tokens 300 --cost 0.25; echo a > t.txt"
    run = trial(
        Project.create(tmp_path / "p"), "t", agents={"a": codex(script)}, limits={"attempt_tokens": 700}
    )
    assert run.execute() is RunStatus.COMPLETED
    task = run.state().tasks["t"]
    assert (task.tokens, task.cost_usd, task.latest.spent.tokens) == (500, 0.25, 500)
    assert run.stored().row.tokens == 500
    assert not run.of_kind(ev.AttemptHalted)


def test_a_stream_over_budget_is_named_as_the_source(tmp_path: Path) -> None:
    """The message tells whose word it was."""
    script = once(tmp_path / "hit", f"holdfast report tokens 5; {say(uses(500))}; {FOREVER}", work())
    run = trial(
        Project.create(tmp_path / "p"), "t", agents={"a": codex(script)}, limits={"attempt_tokens": 400}
    )
    assert run.execute() is RunStatus.COMPLETED
    (failed,) = run.of_kind(ev.AttemptFailed)
    assert failed.error.endswith("is spent: its stream says 500 tokens")


def test_finished_work_is_not_thrown_away_for_what_it_cost(tmp_path: Path) -> None:
    """The agent reports its money with its last breath and is gone before a runner hears it: the money counts, the work too."""
    here, go, done = (Fifo(tmp_path / name) for name in ("here", "go", "done"))
    script = f"echo a > A.txt; {here.give}; {go.take}; holdfast report cost 3; {done.give}"
    run = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script)),
        limits={"attempt_cost_usd": 1, "attempts": 1},
    )
    runner = start_runner(run)
    pid = int(here.wait())
    kill(runner)
    go.release()
    done.wait()
    eventually(lambda: not is_alive(pid), "the agent is gone")
    assert run.execute() is RunStatus.COMPLETED
    assert run.state().tasks["A"].cost_usd == 3.0
    assert not run.of_kind(ev.AttemptHalted)


def test_reports_without_a_runner_end_the_attempt_as_soon_as_there_is_one(tmp_path: Path) -> None:
    """The runner is killed, the agent goes on and reports; the next runner counts it and ends the agent."""
    here, go, done = (Fifo(tmp_path / name) for name in ("here", "go", "done"))
    first = (
        f"echo half > half.txt; holdfast report cost 0.5; {here.give}; {go.take};"
        f" holdfast report cost 1; {done.give}; {FOREVER}"
    )
    script = once(tmp_path / "hit", first, "echo a > A.txt")
    run = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script, resume="continue")),
        limits={"attempt_cost_usd": 1},
    )
    runner = start_runner(run)
    here.wait()
    eventually(lambda: run.state().tasks["A"].cost_usd > 0, "the first report is in the journal")
    kill(runner)
    go.release()
    done.wait()
    assert run.execute() is RunStatus.COMPLETED
    (failed,) = run.of_kind(ev.AttemptFailed)
    assert failed.error.endswith("its agent reported $1.50")
    assert run.show("half.txt") == "half"


def test_a_halt_that_was_written_down_but_not_carried_out_is_carried_out_later(tmp_path: Path) -> None:
    """Killed between the intent and the end of the agent: the next runner ends it."""
    script = once(tmp_path / "hit", f"holdfast report cost 2; {FOREVER}", "echo a > A.txt")
    run = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", script)), limits={"attempt_cost_usd": 1}
    )
    runner = start_runner(run)
    eventually(
        lambda: run.state().tasks["A"].latest.halt is not None or run.state().tasks["A"].attempt > 1, "halted"
    )
    kill(runner)
    assert run.execute() is RunStatus.COMPLETED
    assert run.state().tasks["A"].cost_usd == 2.0
    assert not run.violations()


def test_a_kill_after_the_budget_of_the_run_was_found_spent_charges_nobody(tmp_path: Path) -> None:
    """The reason is durable, its result is not: the next runner ends the agent, and the task keeps its only attempt."""
    script = once(tmp_path / "hit", f"holdfast report cost 2; {FOREVER}", "echo a > A.txt")
    limits = {"cost_usd": 1, "attempts": 1}
    run = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)), limits=limits)
    runner = start_runner(run)
    eventually(
        lambda: run.state().tasks["A"].latest.halt is not None or run.stored().row.status == "blocked",
        "halted",
    )
    kill(runner)
    assert run.execute(cost_usd=9.0) is RunStatus.COMPLETED
    assert (run.state().tasks["A"].charged, run.state().tasks["A"].failures) == (0, [])
    assert not run.violations()


@pytest.mark.parametrize("more", ["", "holdfast report cost 0.2;"], ids=["once", "twice"])
def test_within_the_budget_nothing_is_ended(tmp_path: Path, more: str) -> None:
    """Reports below every budget change nothing but the account."""
    script = f"holdfast report cost 0.2; {more} echo a > A.txt"
    limits = {"attempt_cost_usd": 1, "cost_usd": 2}
    run = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script, cost_usd=0.7)), limits=limits)
    assert run.execute() is RunStatus.COMPLETED
    assert not run.of_kind(ev.AttemptHalted)
