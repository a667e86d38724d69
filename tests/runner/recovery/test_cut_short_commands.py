"""A command that was cut short starts again from its own clean start; its half-done work is kept, and lands never."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev, ids
from holdfast.core.status import FailureKind, RunStatus
from holdfast.reporting.recovery_report import ResumeAction
from holdfast.runner.recovery.rebuild import rebuild
from holdfast.runner.requests import Request, send_request
from tests.support.command import Cli, eventually
from tests.support.preloaded_command import ForkedProcess
from tests.support.repositories import Project
from tests.support.runs import (
    DEADLINE_S,
    Fifo,
    Trial,
    holder_pid,
    kill,
    kill_everything,
    sh,
    stage,
    start_runner,
)

EFFECTS = {
    "append": "printf x >> append.txt",
    "toggle": "if [ -f toggle.txt ]; then rm toggle.txt; else printf x > toggle.txt; fi",
    "commit": "printf x >> commit.txt; git add commit.txt; git commit -qm own; printf y >> more.txt",
    "ignored": "mkdir -p build; printf x >> build/cache; cp build/cache ignored.txt",
}
"""Commands that give another result if they find their own work. Each must leave one x in the file of its name."""


def _commands(tmp_path: Path, then: str, *names: str, **more: Any) -> Trial:
    """Make a run of commands that have their effect and, in their first attempt, do not come to their end."""
    project = Project.create(tmp_path / "p")
    (project.path / ".gitignore").write_text("build/\n")
    project.git("add", ".gitignore")
    project.git("commit", "-q", "-m", "ignore build")
    tasks = [
        sh(name, f"{effect}; if [ ! -f {tmp_path}/{name} ]; then touch {tmp_path}/{name}; {then}; fi", **more)
        for name, effect in EFFECTS.items()
        if name in (names or EFFECTS)
    ]
    limits = {"jobs": len(EFFECTS), "attempts": 50, "retry_delay": 0}
    return Trial.of(project, stage("one", *tasks), limits=limits)


def _start(trial: Trial, at_work: Fifo) -> ForkedProcess:
    """Start the run and wait until every task's first attempt has had its effect."""
    runner = start_runner(trial)
    for _ in trial.state().names:
        at_work.wait()
    return runner


def _crash(trial: Trial, at_work: Fifo) -> None:
    kill_everything(trial, _start(trial, at_work))


def _kill_supervisors(trial: Trial, at_work: Fifo) -> None:
    """The commands outlive their supervisors, and their runner sees it."""
    runner = _start(trial, at_work)
    _signal_supervisors(trial, signal.SIGKILL)
    runner.communicate(timeout=DEADLINE_S)


def _kill_supervisors_and_runner(trial: Trial, at_work: Fifo) -> None:
    """The commands outlive everybody who knows them."""
    kill(_start(trial, at_work))
    _signal_supervisors(trial, signal.SIGKILL)


def _signal_supervisors(trial: Trial, number: signal.Signals) -> None:
    for record in trial.project.open().state_dir.run(trial.run).attempts.glob("*/1/agent/supervisor.json"):
        os.kill(holder_pid(record), number)


def _kill_runner_and_commands(trial: Trial, at_work: Fifo) -> None:
    """The supervisors live on alone, and record that their commands were killed."""
    runner = start_runner(trial)
    commands = [os.pidfd_open(int(at_work.wait())) for _ in trial.state().names]
    kill(runner)
    for command in commands:
        signal.pidfd_send_signal(command, signal.SIGKILL)
        os.close(command)
    records = list(trial.project.open().state_dir.run(trial.run).attempts.glob("*/1/agent/supervisor.json"))
    eventually(lambda: all((path.parent / "exit.json").exists() for path in records), "each end is recorded")


def _stop_after_a_crash(trial: Trial, at_work: Fifo) -> None:
    """The commands live on, and the next runner is only there to stop them."""
    kill(_start(trial, at_work))
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="stop"))
    assert trial.execute() is RunStatus.STOPPED


def _request(**request: Any) -> Callable[[Trial, Fifo], None]:
    def cut(trial: Trial, at_work: Fifo) -> None:
        runner = _start(trial, at_work)
        send_request(trial.project.open().state_dir.run(trial.run), Request(**request))
        runner.communicate(timeout=DEADLINE_S)

    return cut


def _interrupt(trial: Trial, at_work: Fifo) -> None:
    runner = _start(trial, at_work)
    runner.send_signal(signal.SIGINT)
    runner.communicate(timeout=DEADLINE_S)


CUTS = {
    "crash": _crash,
    "supervisors": _kill_supervisors,
    "supervisors and runner": _kill_supervisors_and_runner,
    "stop": _request(action="stop"),
    "stop after a crash": _stop_after_a_crash,
    "pause now": _request(action="pause", now=True),
    "interrupt": _interrupt,
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_command_that_was_cut_short_has_its_effect_once(tmp_path: Path, cut: str) -> None:
    """X4: whatever ended it, the command starts clean, and what it had done is kept at a ref."""
    at_work, never = Fifo(tmp_path / "at_work"), Fifo(tmp_path / "never")
    trial = _commands(tmp_path, f"{at_work.give}; {never.take}")
    CUTS[cut](trial, at_work)
    if trial.stored().row.status is not RunStatus.COMPLETED:
        assert trial.execute() is RunStatus.COMPLETED
    _assert_once(trial)
    assert [(row.attempt, row.charged) for row in trial.state().tasks.values()] == [(2, 0)] * len(EFFECTS)


@pytest.mark.parametrize(
    ("then", "limit"),
    [("kill -9 $$", {}), ("exec sleep 600", {"timeout": "2s"}), ("exec sleep 600", {"stall": "2s"})],
    ids=["signal", "timeout", "stall"],
)
def test_a_command_that_failed_without_its_own_end_has_its_effect_once(
    tmp_path: Path, then: str, limit: dict[str, str]
) -> None:
    """A kill, a timeout and a silence charge an attempt, and the next one starts clean all the same."""
    trial = _commands(tmp_path, then, **limit)
    assert trial.execute() is RunStatus.COMPLETED
    _assert_once(trial)
    failed = trial.of_kind(ev.AttemptFailed)
    assert len(failed) >= len(EFFECTS)
    assert {(event.carry, event.tree) for event in failed} == {("", "")}


def test_a_command_that_is_killed_while_nobody_watches_has_its_effect_once(tmp_path: Path) -> None:
    """Its supervisor records the signal; the runner that reads it later starts the command clean."""
    at_work, never = Fifo(tmp_path / "at_work"), Fifo(tmp_path / "never")
    trial = _commands(tmp_path, f"{at_work.give}; {never.take}")
    _kill_runner_and_commands(trial, at_work)
    assert {task.move for task in trial.preview().values()} == {ResumeAction.REDO}
    assert trial.execute() is RunStatus.COMPLETED
    _assert_once(trial)
    assert [row.attempt for row in trial.state().tasks.values()] == [2] * len(EFFECTS)


def test_the_preview_promises_no_attempt_that_a_killed_command_does_not_have(tmp_path: Path) -> None:
    """A kill is charged, so a command that was killed in its last attempt is not run again."""
    at_work, never = Fifo(tmp_path / "at_work"), Fifo(tmp_path / "never")
    trial = _commands(tmp_path, f"{at_work.give}; {never.take}", "append", attempts=1)
    _kill_runner_and_commands(trial, at_work)
    preview = trial.preview()["append"]
    assert (preview.move, "its last attempt" in preview.why) == (ResumeAction.COLLECT, True)
    assert trial.execute() is RunStatus.BLOCKED
    assert (trial.status_of("append"), trial.state().tasks["append"].attempt) == ("abandoned", 1)


def test_a_command_that_finished_without_a_record_has_its_effect_once(tmp_path: Path) -> None:
    """Its supervisor is killed between its end and the record of it: nobody knows, so it is run again, clean."""
    at_work, go = Fifo(tmp_path / "at_work"), Fifo(tmp_path / "go")
    trial = _commands(tmp_path, f"{at_work.give}; {go.take}")
    runner = start_runner(trial)
    commands = [os.pidfd_open(int(at_work.wait())) for _ in trial.state().names]
    kill(runner)
    _signal_supervisors(trial, signal.SIGSTOP)
    go.release(len(commands))
    for command in commands:
        select.select([command], [], [], DEADLINE_S)
        os.close(command)
    _signal_supervisors(trial, signal.SIGKILL)
    assert trial.execute() is RunStatus.COMPLETED
    _assert_once(trial)


def test_a_command_that_several_runners_watch_in_turn_runs_once(tmp_path: Path) -> None:
    """Each new runner reattaches to it, and the last one collects it: no second attempt is ever made."""
    at_work, go = Fifo(tmp_path / "at_work"), Fifo(tmp_path / "go")
    trial = _commands(tmp_path, f"{at_work.give}; {go.take}")
    kill(_start(trial, at_work))
    for times in (1, 2):
        runner = start_runner(trial)
        eventually(partial(_reattached, trial, times * len(EFFECTS)), "every command is reattached")
        kill(runner)
    go.release(len(EFFECTS))
    assert trial.execute() is RunStatus.COMPLETED
    assert {name: trial.show(f"{name}.txt") for name in EFFECTS} == dict.fromkeys(EFFECTS, "x")
    assert [row.attempt for row in trial.state().tasks.values()] == [1] * len(EFFECTS)


def _reattached(trial: Trial, times: int) -> bool:
    return trial.state().row.reattached == times


def _assert_once(trial: Trial) -> None:
    """Each effect landed once, and the half-done work of each first attempt is kept beside it."""
    assert {name: trial.show(f"{name}.txt") for name in EFFECTS} == dict.fromkeys(EFFECTS, "x")
    assert sorted(trial.landed()) == sorted(EFFECTS)
    for name, row in trial.state().tasks.items():
        kept = ids.cut_short_ref(trial.run, name, 1)
        assert trial.project.git("show", f"{kept}:{name}.txt") == "x"
        assert row.wasted == row.attempt - 1
    assert trial.violations() == []


def test_commits_of_a_command_that_was_cut_short_are_kept_and_do_not_land(tmp_path: Path) -> None:
    """A command that commits by itself starts before its own commit."""
    trial = _commands(tmp_path, "kill -9 $$", "commit")
    assert trial.execute() is RunStatus.COMPLETED
    git = trial.project.git
    kept = ids.cut_short_ref(trial.run, "commit", 1)
    assert "own" in git("log", "--format=%s", kept).split()
    assert git("log", "--format=%s", f"holdfast/{trial.run}").split().count("own") == 1


def test_a_clean_start_keeps_what_an_attempt_before_left_that_ended_by_itself(tmp_path: Path) -> None:
    """The work of an attempt that failed at its own end is carried; that of the one cut short after it is not."""
    number = f"n=$(cat {tmp_path}/n 2>/dev/null || echo 0); n=$((n+1)); echo $n > {tmp_path}/n"
    script = f"{number}; printf $n >> shared.txt; case $n in 1) exit 1;; 2) kill -9 $$;; esac"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)), limits={"retry_delay": 0})
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("shared.txt") == "13"
    first, second = trial.of_kind(ev.AttemptFailed)
    assert (first.failure, second.failure) == (FailureKind.AGENT, FailureKind.KILLED)
    started = trial.of_kind(ev.AttemptStarted)
    assert [event.start for event in started[1:]] == [first.carry] * 2
    assert trial.project.git("show", f"{second.set_aside}:shared.txt") == "12"


def test_a_command_can_be_told_to_continue(tmp_path: Path) -> None:
    """`resume: continue`: a command that looks at what it finds goes on from its half-done work."""
    trial = _commands(tmp_path, "kill -9 $$", "append", resume="continue")
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("append.txt") == "xx"
    assert trial.state().tasks["append"].wasted == 0


@pytest.mark.parametrize(
    ("agent", "task", "landed"),
    [(None, None, "xx"), ("clean", None, "x"), (None, "clean", "x"), ("clean", "continue", "xx")],
)
def test_an_agent_can_be_told_to_start_clean(
    tmp_path: Path, agent: str | None, task: str | None, landed: str
) -> None:
    """Agents continue, unless their entry or their task says otherwise; the task's word counts more."""
    at_work, never = Fifo(tmp_path / "at_work"), Fifo(tmp_path / "never")
    script = (
        f"printf x >> shared.txt; if [ ! -f {tmp_path}/flag ]; "
        f"then touch {tmp_path}/flag; {at_work.give}; {never.take}; fi"
    )
    builder = {"command": ["sh", "-c", script], **({"resume": agent} if agent else {})}
    work = {"id": "A", "prompt": "Append one x.", **({"resume": task} if task else {})}
    project = Project.create(tmp_path / "p")
    trial = Trial.of(project, stage("one", work), agent="builder", agents={"builder": builder})
    _crash(trial, at_work)
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("shared.txt") == landed
    said = "starts without" if landed == "x" else "continue from there"
    assert said in trial.brief("A", 2)


def _lose_journal_and_rebuild(trial: Trial) -> None:
    repo = trial.project.open()
    repo.state_dir.journal.unlink()
    rebuild(repo, lambda *_question: False, replace=False)


def test_a_rebuilt_run_starts_commands_clean(tmp_path: Path) -> None:
    """From git alone: the half-done work of a command is kept, and no later attempt continues from it."""
    at_work, never = Fifo(tmp_path / "at_work"), Fifo(tmp_path / "never")
    trial = _commands(tmp_path, f"{at_work.give}; {never.take}")
    _crash(trial, at_work)
    _lose_journal_and_rebuild(trial)
    assert trial.execute() is RunStatus.COMPLETED
    assert {name: trial.show(f"{name}.txt") for name in EFFECTS} == dict.fromkeys(EFFECTS, "x")
    kept = {name: ids.cut_short_ref(trial.run, name, 1) for name in EFFECTS}
    assert {trial.project.git("show", f"{ref}:{name}.txt") for name, ref in kept.items()} == {"x"}
    assert trial.violations() == []


def test_a_rebuilt_run_does_not_repeat_a_command_on_its_own_finished_work(tmp_path: Path) -> None:
    """It had finished and was being checked. Git does not say so, and its effect must not be had twice."""
    at_work, never = Fifo(tmp_path / "at_work"), Fifo(tmp_path / "never")
    check = f"if [ ! -f {tmp_path}/flag ]; then touch {tmp_path}/flag; {at_work.give}; {never.take}; fi"
    task = sh("append", EFFECTS["append"], verify=[check])
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", task))
    _crash(trial, at_work)
    _lose_journal_and_rebuild(trial)
    row = trial.state().tasks["append"]
    assert (row.carry, trial.project.git("show", f"{row.set_aside}:append.txt")) == ("", "x")
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("append.txt") == "x"


def test_the_preview_says_that_a_command_starts_again_and_what_is_kept(tmp_path: Path) -> None:
    """Before and after the resume: no word of going on, all of it to be redone, and where it is safe."""
    at_work, never = Fifo(tmp_path / "at_work"), Fifo(tmp_path / "never")
    trial = _commands(tmp_path, f"{at_work.give}; {never.take}", "append")
    _crash(trial, at_work)
    lost = trial.preview()["append"]
    assert (lost.move, lost.unsaved) == (ResumeAction.REDO, 1)
    assert lost.redo_s > 0
    why = "attempt 1 was cut short; it starts again from the run branch; what it had done is kept"
    assert lost.why == why
    send_request(trial.project.open().state_dir.run(trial.run), Request(action="stop"))
    assert trial.execute() is RunStatus.STOPPED
    kept = trial.project.git("rev-parse", ids.cut_short_ref(trial.run, "append", 1))
    rested = trial.preview()["append"]
    assert (rested.move, rested.why, rested.set_aside) == (ResumeAction.REDO, why, kept)


def test_inspect_names_the_ref_of_half_done_work(tmp_path: Path) -> None:
    """The refs that it names hold the work, and the attempt says that nobody continues from it."""
    cli = Cli.of(
        tmp_path / "p",
        sh(
            "append",
            f"printf x >> append.txt; [ -f {tmp_path}/flag ] || {{ touch {tmp_path}/flag; kill -9 $$; }}",
        ),
        limits={"retry_delay": 0},
    )
    assert cli("run", "--yes").code == 0
    (task,) = cli.json("inspect", "1", "append")["tasks"]
    first, second = task["attempts"]
    assert (first["kept"], second["set_aside"]) == (None, None)
    refs = {cli.project.git("rev-parse", ref) for ref in task["refs"]}
    assert {first["set_aside"], second["commit"]} <= refs
    assert "the next attempt starts without it" in cli("inspect", "1", "append").out
    assert cli.json("recap")["redone"]["attempts"] == 1


def test_a_landing_that_was_taken_off_the_branch_does_not_double_its_command(tmp_path: Path) -> None:
    """The user reset the run branch: the command is run again where it was, not on its own finished work."""
    tasks = [sh("first", "printf 1 >> both.txt"), sh("second", "printf 2 >> both.txt", needs=["first"])]
    more = sh("third", "printf 3 > third.txt", needs=["second"])
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", *tasks, more))
    assert trial.execute(only=frozenset({"first", "second"})) is RunStatus.PAUSED
    landed = trial.state().tasks["first"].merge_commit
    trial.project.git("update-ref", f"refs/heads/holdfast/{trial.run}", landed)
    assert "is not on the run branch any more; it starts again" in trial.preview()["second"].why
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("both.txt") == "12"
    assert trial.violations() == []


@pytest.mark.parametrize("runner_lives", [True, False])
def test_a_command_that_hid_and_lives_on_cannot_reach_into_the_next_attempt(
    tmp_path: Path, *, runner_lives: bool
) -> None:
    """Its environment is empty and its supervisor dead, so nobody may signal it; the next attempt works elsewhere."""
    at_work, go, over, on = (Fifo(tmp_path / name) for name in ("at_work", "go", "over", "on"))
    hidden = f"printf x >> hidden.txt; {at_work.give}; {go.take}; printf y >> hidden.txt; {over.give}"
    script = (
        f"if [ ! -f {tmp_path}/flag ]; then touch {tmp_path}/flag; "
        f"exec env -i PATH=$PATH sh -c '{hidden}' > {tmp_path}/said 2>&1; fi; printf x >> hidden.txt; {at_work.give}; {on.take}"
    )
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("append", script)))
    runner = _start(trial, at_work)
    if not runner_lives:
        kill(runner)
    _signal_supervisors(trial, signal.SIGKILL)
    runner = runner if runner_lives else start_runner(trial)
    at_work.wait()
    go.release()
    over.wait()
    on.release()
    assert runner.communicate(timeout=DEADLINE_S)[0] == b"completed\n"
    assert trial.show("hidden.txt") == "x"
