"""`retry`, and what `retry` and `skip` share: with a live runner, and without one."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def _agents(**scripts: str) -> dict[str, dict[str, list[str]]]:
    return {name: {"command": ["sh", "-c", script, "agent", "{brief}"]} for name, script in scripts.items()}


def test_a_hint_is_in_the_next_briefs_until_the_task_lands(tmp_path: Path) -> None:
    """The agent that reads it does the task; the landed task has no hint any more."""
    agents = _agents(mine='grep -q "use SQLite" "$1" && echo sqlite > db.txt')
    cli = Cli.of(
        tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine", agents=agents, limits={"attempts": 1}
    )
    assert cli("run", "--yes").code == 1
    assert cli("retry", "a", "--hint", "use SQLite").code == 0
    assert "## A hint from a person\n\nuse SQLite" in cli("inspect", "a", "--brief").out
    assert cli("resume", "--yes").code == 0
    assert "use SQLite" not in cli("inspect", "a", "--brief", "--attempt", "1").out
    assert "use SQLite" in cli("inspect", "a", "--brief", "--attempt", "2").out


def test_another_agent_takes_over_a_task(tmp_path: Path) -> None:
    """It must be known, and what it starts is agreed to; the other tasks keep theirs."""
    agents = _agents(mine="exit 1", other="echo done > a.txt")
    cli = Cli.of(
        tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine", agents=agents, limits={"attempts": 1}
    )
    assert cli("run", "--yes").code == 1
    unknown = cli("retry", "a", "--agent", "othr")
    assert (unknown.code, "other" in unknown.err) == (2, True)
    asked = cli("retry", "a", "--agent", "other")
    assert (asked.code, "agent other starts" in asked.err) == (3, True)
    assert cli("retry", "a", "--agent", "other", "--yes").code == 0
    assert cli("resume").code == 0
    (task,) = cli.json("inspect", "a")["tasks"]
    assert [attempt["agent"] for attempt in task["attempts"]] == ["mine", "other"]


def test_a_clean_retry_starts_without_the_earlier_work(tmp_path: Path) -> None:
    """Its work stays at its ref; the next attempt begins from what landed."""
    agents = _agents(mine="test ! -e half.txt || exit 0; echo half > half.txt; test -e go || exit 1")
    cli = Cli.of(
        tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine", agents=agents, limits={"attempts": 1}
    )
    assert cli("run", "--yes").code == 1
    assert cli("retry", "a", "--clean").code == 0
    cli("resume", "--yes")
    (task,) = cli.json("inspect", "a")["tasks"]
    first, second = task["attempts"]
    assert (second["start"], bool(first["kept"])) == (first["start"], True)
    assert cli.project.git("for-each-ref", "--contains", first["kept"])


def test_work_that_waits_for_its_checks_is_checked_again_by_retry(tmp_path: Path) -> None:
    """No agent is started for it, unless a clean start is wanted."""
    tool = tmp_path / "tool"
    cli = Cli.of(tmp_path / "p", writes("a"), verify=[f"{tool} a.txt"])
    assert cli("run", "--yes").code == 3
    tool.write_text("#!/bin/sh\ntest -e $1\n")
    tool.chmod(0o755)
    done = cli("retry", "a")
    assert (done.code, "is checked again" in done.out) == (0, True)
    assert cli("resume", "--yes").code == 0
    assert cli.task("a")["attempts"] == 1


def test_a_live_runner_takes_the_hint(tmp_path: Path) -> None:
    """Nobody has to stop the run: the next brief has it."""
    failing = {"id": "b", "run": ["false"], "attempts": 1}
    cli, runner, _ = cli_at_work(tmp_path, failing)
    eventually(lambda: cli.task("b")["status"] == "abandoned", "b is abandoned")
    assert cli("retry", "b", "--hint", "mind the gap").code == 0
    cli("stop")
    runner.wait()
    assert "mind the gap" in cli("inspect", "b", "--brief").out


def test_what_is_gone_from_a_plan_is_told_only_if_something_is(tmp_path: Path) -> None:
    """Another agent joins, and the first still works: nothing is gone."""
    agents = _agents(mine="test $HOLDFAST_TASK = b && echo b > b.txt", other="echo done > a.txt")
    tasks = ({"id": "b", "prompt": "x"}, {"id": "a", "prompt": "x", "needs": ["b"]})
    cli = Cli.of(tmp_path / "p", *tasks, agent="mine", agents=agents, limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    asked = cli("retry", "a", "--agent", "other")
    assert (asked.code, "+ agent other starts" in asked.err) == (3, True)
    assert ("Since you last agreed, `+` is new." in asked.err, "gone" in asked.err) == (True, False)


def test_a_retry_that_cannot_be_is_refused_before_consent_is_asked_for(tmp_path: Path) -> None:
    """Nobody reads a plan for a task that has landed."""
    agents = _agents(mine="echo $HOLDFAST_TASK > $HOLDFAST_TASK.txt; test $HOLDFAST_TASK = a", other="true")
    tasks = ({"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x", "needs": ["a"]})
    cli = Cli.of(tmp_path / "p", *tasks, agent="mine", agents=agents, limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    done = cli("retry", "a", "--agent", "other")
    assert (done.code, "that cannot be done now" in done.err, "Goal:" in done.err) == (2, True, False)


def test_status_shows_what_is_true_after_a_retry(tmp_path: Path) -> None:
    """What stopped the run is history, and the next agent is the one that was asked for. `retry` confirms all of it."""
    agents = _agents(mine="exit 1", other="echo done > a.txt")
    cli = Cli.of(
        tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine", agents=agents, limits={"attempts": 1}
    )
    cli("run", "--yes")
    assert "a abandoned" in cli("status").out
    done = cli("retry", "a", "--agent", "other", "--hint", "use SQLite", "--clean", "--yes")
    assert "again, with other, from a clean start, hint: use SQLite. " in done.out
    shown = cli("status").out
    assert ("abandoned" in shown, "other" in shown, "mine" in shown) == (False, True, False)


def test_a_run_alone_is_asked_for_its_task(blocked: Cli) -> None:
    """Nobody meant a task of that name."""
    said = blocked("retry", "1").err
    assert "1 is a run: name a task of it, too" in said
    assert "`holdfast status 1` lists its tasks" in said
