"""Limits of providers, met by real processes that speak a real dialect: parked, waited for, outlived."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, stage, start_runner
from tests.support.scripted_agents import DONE, THREAD, codex, fails, judged_by, once, say, trial, work

SOON = fails("You've hit your usage limit. Please try again in 1s.")


def test_a_usage_limit_is_waited_for_and_the_run_goes_on_by_itself(tmp_path: Path) -> None:
    """X5: the task waits, no attempt is charged, and nobody has to do anything."""
    script = once(tmp_path / "hit", f"{say(THREAD, SOON)}; exit 1", work())
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)})
    assert run.execute() is RunStatus.COMPLETED
    task = run.state().tasks["t"]
    assert (task.attempt, task.charged, task.limited) == (2, 0, 1)
    assert run.violations() == []


def test_all_tasks_of_a_parked_provider_wait_and_others_go_on(tmp_path: Path) -> None:
    """A limit is the provider's: its other tasks do not even start, those of another provider do."""
    calls = tmp_path / "calls"
    script = f"echo $HOLDFAST_TASK >> {calls}; " + once(tmp_path / "hit", f"{say(SOON)}; exit 1", work())
    agents = {"a": codex(script), "b": {"command": ["sh", "-c", work()]}}
    run = trial(Project.create(tmp_path / "p"), "t1", "t2", "t3:b", agents=agents, limits={"jobs": 1})
    assert run.execute() is RunStatus.COMPLETED
    assert calls.read_text().split()[:2] == ["t1", "t1"]
    assert run.landed()[0] == "t3"


def test_a_limit_without_a_reset_time_is_waited_for_longer_each_time(tmp_path: Path) -> None:
    """Nobody says when: the wait doubles from the plan's first one."""
    error = f"{say(fails('exceeded retry limit, last status: 429 Too Many Requests'))}; exit 1"
    script = once(tmp_path / "1", error, once(tmp_path / "2", error, work()))
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)}, limits={"limit_wait": 0.2})
    assert run.execute() is RunStatus.COMPLETED
    first, second = (parked.wait_s for parked in run.of_kind(ev.ProviderParked))
    assert 0.2 <= first < 0.25
    assert 0.4 <= second < 0.45


def test_work_done_before_the_limit_is_kept(tmp_path: Path) -> None:
    """What the agent had written is where the next one begins."""
    first = f"echo half > half.txt; {say(SOON)}; exit 1"
    script = once(tmp_path / "hit", first, "test -f half.txt && " + work())
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)})
    assert run.execute() is RunStatus.COMPLETED
    assert run.show("half.txt") == "half"


def test_the_opt_out_blocks_with_the_time(tmp_path: Path) -> None:
    """`on_limit: stop`: the run rests and says until when; resumed after that, it goes on."""
    script = once(tmp_path / "hit", f"{say(SOON)}; exit 1", work())
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)}, limits={"on_limit": "stop"})
    assert run.execute() is RunStatus.BLOCKED
    assert "openai is at its limit until 2" in run.stored().row.reason
    deadline = time.monotonic() + 60
    while run.execute() is not RunStatus.COMPLETED:
        assert time.monotonic() < deadline


def test_a_declared_fallback_works_meanwhile(tmp_path: Path) -> None:
    """Tasks of a parked provider start on the fallback, at once."""
    limit = f"{say(fails('You have hit your usage limit. Please try again in 2h.'))}; exit 1"
    agents = {"a": codex(limit, fallback="b"), "b": {"command": ["sh", "-c", work()]}}
    run = trial(Project.create(tmp_path / "p"), "t1", "t2", agents=agents)
    assert run.execute() is RunStatus.COMPLETED
    assert {run.state().tasks[name].latest.agent for name in ("t1", "t2")} == {"b"}


def test_work_that_was_begun_before_a_limit_with_a_known_end_does_not_end_it(tmp_path: Path) -> None:
    """Its answers may have come before the limit: the third task would run straight into it."""
    at_work, meet, go_on = (Fifo(tmp_path / name) for name in ("at", "meet", "on"))
    far = f"{meet.take}; {say(fails('You have hit your usage limit. Please try again in 2h.'))}; exit 1"
    agents = {"a": codex(far), "b": codex(f"{at_work.give}; {go_on.take}; {work()}")}
    limits = {"on_limit": "stop", "jobs": 2}
    run = trial(Project.create(tmp_path / "p"), "t1", "t2:b", "t3", agents=agents, limits=limits)
    runner = start_runner(run)
    at_work.wait()
    meet.release(9)
    while run.status_of("t1") != "waiting_limit":
        assert runner.poll() is None
    go_on.release()
    assert runner.communicate()[0].decode().strip() == "blocked"
    assert (run.landed(), run.status_of("t3")) == (["t2"], "pending")
    assert "openai" in run.stored().row.parked


def test_a_runner_killed_during_the_wait_leaves_a_wait_that_goes_on(tmp_path: Path) -> None:
    """The time is persisted: the next runner waits for what is left, and the run completes."""
    far = fails("You've hit your usage limit. Please try again in 3s.")
    script = once(tmp_path / "hit", f"{say(far)}; exit 1", work())
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)})
    runner = start_runner(run)
    deadline = time.monotonic() + 60
    while run.status_of("t") != "waiting_limit":
        assert time.monotonic() < deadline
    os.kill(runner.pid, signal.SIGKILL)
    runner.communicate()
    assert run.status_of("t") == "waiting_limit"
    assert run.execute() is RunStatus.COMPLETED
    assert run.state().tasks["t"].charged == 0


def test_prose_about_a_limit_is_no_limit(tmp_path: Path) -> None:
    """What the model says about limits is not searched; the error that ended it is a plain failure."""
    prose = {"type": "item.completed", "item": {"type": "agent_message", "text": "usage limit, 429!"}}
    script = once(tmp_path / "hit", f"{say(prose, fails('stream closed'))}; exit 1", work())
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": codex(script)})
    assert run.execute() is RunStatus.COMPLETED
    assert run.state().tasks["t"].charged == 1


def test_a_validator_at_a_limit_is_asked_again_after_it(tmp_path: Path) -> None:
    """Its limit says nothing about the work: nothing is charged, and the score comes later."""
    score = {"type": "item.completed", "item": {"type": "agent_message", "text": '{"score": 1.0}'}}
    script = once(tmp_path / "hit", f"{say(SOON)}; exit 1", say(score, DONE))
    run = Trial.of(Project.create(tmp_path / "p"), stage("s", judged_by("j")), agents={"j": codex(script)})
    assert run.execute() is RunStatus.COMPLETED
    assert (run.state().tasks["t"].charged, len(run.of_kind(ev.ProviderParked))) == (0, 1)
