"""Amendments and kills: between the journal and git, and between the decision to restart an agent and its end."""

from __future__ import annotations

import json
import time
from pathlib import Path

from msgspec.structs import replace

from holdfast.core.amendment import amendment
from holdfast.core.plan import Plan, decode_plan
from holdfast.core.status import RunStatus
from holdfast.repo.run_record import read_record
from tests.support.command import cli_at_work, writes
from tests.support.repositories import Project
from tests.support.runs import Trial, open_project_journal, sh, stage


def _amend_without_git(trial: Trial, wanted: Plan) -> None:
    """Amend as a command does that is killed right after the journal has it."""
    with open_project_journal(trial.project.open()) as journal:
        epoch = journal.take_epoch(trial.run)
        state = journal.load(trial.run).state()
        event = amendment(state, wanted)
        state.apply(event)
        journal.append(trial.run, epoch, [event], state.row, state.take_changed(), time.time())


def _kept_plan(trial: Trial) -> Plan:
    record = read_record(trial.project.open(), trial.run)
    assert record is not None
    return decode_plan(record[0])


def test_a_kill_between_journal_and_git_is_made_good_by_the_next_runner(tmp_path: Path) -> None:
    """Git has the plan that the run began with until a runner attaches; then it has the amended one."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt")))
    began_with = trial.stored().plan
    wanted = replace(began_with, verify=("test -e A.txt",))
    _amend_without_git(trial, wanted)
    assert _kept_plan(trial) == began_with
    assert trial.execute() is RunStatus.COMPLETED
    assert _kept_plan(trial) == wanted == trial.stored().plan
    assert trial.violations() == []


def test_an_agent_that_was_to_be_ended_is_ended_by_the_next_runner(tmp_path: Path) -> None:
    """The runner is killed as soon as the restart is recorded: the task is done once, as it is now, and nothing is charged."""
    cli, runner, _ = cli_at_work(tmp_path)
    path = cli.here / "plan.json"
    plan = json.loads(path.read_text())
    plan["tasks"][0] = writes("a")
    path.write_text(json.dumps(plan))
    assert cli("amend", "--restart", "--yes").code == 0
    runner.kill()
    runner.wait()
    assert cli("resume", "--yes").code == 0
    (task,) = cli.json("inspect", "a")["tasks"]
    # The first runner may have begun another attempt by then, whose agent it did not start any more.
    *earlier, last = [attempt["outcome"] for attempt in task["attempts"]]
    assert (set(earlier), last) == ({"lost"}, "landed")
    assert cli.project.git("log", "--oneline", "holdfast/01-try-it").count("Land a") == 1
    assert cli.project.git("show", "holdfast/01-try-it:a.txt") == "a"
    assert cli("doctor").code == 0
