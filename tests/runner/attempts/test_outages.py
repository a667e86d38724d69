"""Providers out of reach, met by real processes that speak a real dialect: parked, probed by one agent, outlived."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.status import FailureKind, ParkReason, RunStatus, TaskStatus
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, stage, start_runner
from tests.support.scripted_agents import (
    FINISHED,
    answers,
    claude,
    judged_by,
    once,
    refused,
    repeated,
    say,
    trial,
    work,
)

DOWN = f"{say(refused(503))}; exit 1"
WORK = f"{say(answers())}; echo done > $HOLDFAST_TASK.txt; {say(FINISHED)}"
FAST = {"limit_wait": 0.4}
IMPATIENT = {**FAST, "limit_patience": 0.5}


def _down_for(tmp_path: Path, times: int, then: str = WORK) -> str:
    """Return a script that meets an outage some times, ever, and works after that."""
    for number in range(times):
        then = once(tmp_path / f"down-{number}", DOWN, then)
    return then


def _first_down(then: str) -> str:
    """Return a script that meets an outage in the first attempt at each task."""
    return f"if [ $HOLDFAST_ATTEMPT_NUMBER = 1 ]; then {DOWN}; else {then}; fi"


def test_an_outage_is_waited_out_and_charges_nobody(tmp_path: Path) -> None:
    """Ten 503 in a row: the task waits, longer each time, and no attempt is on its account."""
    run = trial(
        Project.create(tmp_path / "p"),
        "t",
        agents={"a": claude(_down_for(tmp_path, 5))},
        limits={"limit_wait": 0.1, "attempts": 2},
    )
    assert run.execute() is RunStatus.COMPLETED
    task, parked = run.state().tasks["t"], run.of_kind(ev.ProviderParked)
    assert (task.charged, task.limited, task.failures) == (0, 5, [])
    assert [one.hits for one in parked] == [1, 2, 3, 4, 5]
    assert [round(one.wait_s, 1) for one in parked][3:] == [0.2, 0.4]
    assert {one.reason for one in parked} == {ParkReason.OUTAGE}
    assert len({one.since for one in parked}) == 1
    assert run.violations() == []


def test_after_the_wait_one_agent_tries_and_the_others_wait_for_what_it_finds(tmp_path: Path) -> None:
    """Four tasks, four workspaces: in an outage only the probe starts, and all start once its model has answered."""
    probing, go_on = Fifo(tmp_path / "at"), Fifo(tmp_path / "on")
    probe = f"{say(answers())}; {probing.give}; {go_on.take}; echo done > $HOLDFAST_TASK.txt; {say(FINISHED)}"
    script = _first_down(_down_for(tmp_path, 2, once(tmp_path / "up", probe, WORK)))
    names = ("t1", "t2", "t3", "t4")
    run = trial(
        Project.create(tmp_path / "p"), *names, agents={"a": claude(script)}, limits={**FAST, "jobs": 4}
    )
    runner = start_runner(run)
    probing.wait()
    # The probe is at work still: that its model answered lets the others go on.
    while len(run.landed()) < 3:
        assert runner.poll() is None
    go_on.release()
    assert runner.communicate()[0].decode().strip() == "completed"
    started = run.recorded(ev.AttemptStarted)
    assert [one.probes for one in started] == [False] * 4 + [True] * 3 + [False] * 3
    assert len(run.recorded(ev.ProviderAnswered)) == 1
    assert run.violations() == []


def test_an_agent_that_only_repeats_failing_requests_is_ended_and_the_wait_is_ours(tmp_path: Path) -> None:
    """Its own retries have an end: after `limit_patience` its task waits without it, uncharged, and its work is kept."""
    never = Fifo(tmp_path / "never")
    repeats = f"{say(answers())}; echo half > half.txt; {say(*[repeated(503)] * 3)}; {never.take}"
    script = once(tmp_path / "down", repeats, f"test -f half.txt && {{ {WORK}; }}")
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": claude(script)}, limits=IMPATIENT)
    assert run.execute() is RunStatus.COMPLETED
    [halt], task = run.of_kind(ev.AttemptHalted), run.state().tasks["t"]
    assert (halt.failure, task.charged, task.attempt) == (FailureKind.OUTAGE, 0, 2)
    [limited] = run.of_kind(ev.AttemptLimited)
    assert limited.reason is ParkReason.OUTAGE
    assert run.violations() == []


def test_a_probe_that_only_repeats_failing_requests_is_ended_and_another_one_follows(tmp_path: Path) -> None:
    """The others wait for it all the while; its failure makes the wait longer, and the next one is the probe."""
    never = Fifo(tmp_path / "never")
    script = _first_down(once(tmp_path / "hangs", f"{say(repeated(503))}; {never.take}", WORK))
    limits = {**IMPATIENT, "jobs": 2}
    run = trial(Project.create(tmp_path / "p"), "t1", "t2", agents={"a": claude(script)}, limits=limits)
    assert run.execute() is RunStatus.COMPLETED
    assert [one.probes for one in run.of_kind(ev.AttemptStarted)] == [False, False, True, True, False]
    assert max(one.hits for one in run.of_kind(ev.ProviderParked)) == 2
    assert len(run.of_kind(ev.AttemptHalted)) == len(run.of_kind(ev.ProviderAnswered)) == 1


def test_plain_output_without_trouble_tells_after_a_while_that_the_provider_answers(tmp_path: Path) -> None:
    """It has no events: the others go on once the probe has worked for `limit_patience`, though it is not done."""
    project, go_on = Project.create(tmp_path / "p"), Fifo(tmp_path / "on")
    script = tmp_path / "agent.sh"
    probe = f"{go_on.take}; echo done > $HOLDFAST_TASK.txt"
    work = once(tmp_path / "up", probe, "echo done > $HOLDFAST_TASK.txt")
    down = "echo connection refused; exit 1"
    script.write_text(f"if [ $HOLDFAST_ATTEMPT_NUMBER = 1 ]; then {down}; else {work}; fi")
    (project.path / ".holdfast").mkdir()
    (project.path / ".holdfast" / "agents.toml").write_text(
        f'[plain]\ncommand = ["sh", "{script}"]\nlines = {{ outage = ["connection refused"] }}\n'
    )
    limits = {**IMPATIENT, "jobs": 2}
    agents = {"a": {"preset": "plain"}}
    run = trial(project, "t1", "t2", agents=agents, known=["plain"], limits=limits)
    runner = start_runner(run)
    while not run.landed():
        assert runner.poll() is None
    go_on.release()
    assert runner.communicate()[0].decode().strip() == "completed"
    assert [one.probes for one in run.recorded(ev.AttemptStarted)] == [False, False, True, False]


def _answered_then_down(run: Trial, at: Fifo, on: Fifo, times: int) -> str:
    """Execute a run whose agent reports `at` its first words, `times` times as a probe; return how the run ended.

    It goes on to fail when its answer is on record.
    """
    runner = start_runner(run)
    for turn in range(times + 1):
        at.wait()
        while len(run.recorded(ev.ProviderAnswered)) < turn:
            assert runner.poll() is None
        on.release()
    return runner.communicate()[0].decode().strip()


def _late(tmp_path: Path, times: int) -> tuple[Fifo, Fifo, str]:
    """Return a script that is answered, gets no further, some times, and then works."""
    at, on, then = Fifo(tmp_path / "at"), Fifo(tmp_path / "on"), WORK
    for number in range(times):
        late = f"{say(answers())}; {at.give}; {on.take}; {DOWN}"
        then = once(tmp_path / f"late-{number}", late, then)
    return at, on, then


def test_an_outage_that_comes_late_in_each_attempt_is_waited_out_longer_each_time(tmp_path: Path) -> None:
    """The first words of a probe let the others start. They do not end the outage: only an attempt that ends otherwise does."""
    at, on, script = _late(tmp_path, 5)
    limits = {"limit_wait": 0.2, "attempts": 2}
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": claude(script)}, limits=limits)
    assert _answered_then_down(run, at, on, 4) == "completed"
    parked = run.recorded(ev.ProviderParked)
    assert [one.hits for one in parked] == [1, 2, 3, 4, 5]
    assert all(one.wait_s >= 0.05 * 2 ** (one.hits - 1) for one in parked)
    assert len({one.since for one in parked}) == 1
    assert (run.state().tasks["t"].charged, run.stored().row.parked) == (0, {})
    assert run.violations() == []


def test_a_fallback_takes_over_in_an_outage(tmp_path: Path) -> None:
    """As with limits: tasks of a provider that is out of reach start on another agent, at once."""
    agents = {"a": claude(DOWN, fallback="b"), "b": {"command": ["sh", "-c", work()]}}
    run = trial(Project.create(tmp_path / "p"), "t1", "t2", agents=agents)
    assert run.execute() is RunStatus.COMPLETED
    assert {run.state().tasks[name].latest.agent for name in ("t1", "t2")} == {"b"}


def test_a_runner_killed_while_its_probe_works_leaves_a_probe_that_answers(tmp_path: Path) -> None:
    """The next runner hears the same stream from its beginning, and nobody else started meanwhile."""
    at_work, go_on = Fifo(tmp_path / "at"), Fifo(tmp_path / "on")
    probe = f"{at_work.give}; {go_on.take}; {WORK}"
    script = _first_down(once(tmp_path / "up", probe, WORK))
    run = trial(
        Project.create(tmp_path / "p"), "t1", "t2", agents={"a": claude(script)}, limits={**FAST, "jobs": 2}
    )
    runner = start_runner(run)
    at_work.wait()
    os.kill(runner.pid, signal.SIGKILL)
    runner.communicate()
    go_on.release()
    assert run.execute() is RunStatus.COMPLETED
    assert [one.probes for one in run.recorded(ev.AttemptStarted)] == [False, False, True, False]
    assert sum(task.charged for task in run.state().tasks.values()) == 0
    assert run.violations() == []


def test_a_runner_killed_during_an_outage_leaves_a_wait_that_goes_on(tmp_path: Path) -> None:
    """What is known of the outage is on record: since when, and how often it was met."""
    run = trial(
        Project.create(tmp_path / "p"),
        "t",
        agents={"a": claude(_down_for(tmp_path, 1))},
        limits={"limit_wait": 8},
    )
    runner = start_runner(run)
    deadline = time.monotonic() + 60
    while run.status_of("t") != "waiting_limit":
        assert time.monotonic() < deadline
    os.kill(runner.pid, signal.SIGKILL)
    runner.communicate()
    [before] = run.stored().row.parked.values()
    assert (before.reason, before.error, before.hits) == (ParkReason.OUTAGE, "API Error: 503", 1)
    assert run.execute() is RunStatus.COMPLETED
    assert run.state().tasks["t"].charged == 0


def test_a_short_outage_is_waited_for_although_limits_are_not(tmp_path: Path) -> None:
    """`on_limit: stop` is about limits, which last for hours."""
    run = trial(
        Project.create(tmp_path / "p"),
        "t",
        agents={"a": claude(_down_for(tmp_path, 1))},
        limits={**FAST, "on_limit": "stop"},
    )
    assert run.execute() is RunStatus.COMPLETED


def test_a_long_outage_stops_a_run_that_waits_for_no_limit(tmp_path: Path) -> None:
    """It says since when, what the provider said last, and when it would be tried."""
    limits = {"limit_wait": "1h", "on_limit": "stop"}
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": claude(DOWN)}, limits=limits)
    assert run.execute() is RunStatus.BLOCKED
    reason = run.stored().row.reason
    assert "anthropic is unreachable since " in reason
    assert reason.endswith(": API Error: 503")


def test_a_validator_in_an_outage_is_asked_again_after_it(tmp_path: Path) -> None:
    """The outage says nothing about the work: nothing is charged, and the score comes later."""
    script = _down_for(tmp_path, 2, say(answers('{"score": 1.0}'), {**FINISHED, "result": '{"score": 1.0}'}))
    run = Trial.of(
        Project.create(tmp_path / "p"),
        stage("s", judged_by("j")),
        agents={"j": claude(script)},
        limits=FAST,
    )
    assert run.execute() is RunStatus.COMPLETED
    assert [one.hits for one in run.of_kind(ev.ProviderParked)] == [1, 2]
    assert len(run.of_kind(ev.ProviderAnswered)) == 1
    assert run.state().tasks["t"].charged == 0


@pytest.mark.parametrize(
    ("status", "words", "kind", "way_out"),
    [
        (401, "invalid x-api-key", FailureKind.AUTH, "Log in with a"),
        (402, "no money", FailureKind.CREDIT, "Top up the account of a"),
    ],
)
def test_a_provider_that_refuses_us_blocks_at_once_and_says_what_to_do(
    tmp_path: Path, status: int, words: str, kind: FailureKind, way_out: str
) -> None:
    """One attempt is enough: nothing else starts through that provider until somebody resumes the run."""
    script = once(tmp_path / "hit", f"{say(refused(status, words))}; exit 1", WORK)
    run = trial(Project.create(tmp_path / "p"), "t1", "t2", agents={"a": claude(script)}, limits={"jobs": 1})
    assert run.execute() is RunStatus.BLOCKED
    [failure] = run.state().tasks["t1"].failures
    assert failure.kind is kind
    assert way_out in failure.error
    assert f"holdfast resume {run.run}" in failure.error
    assert run.state().tasks["t2"].attempt == 0
    assert run.execute() is RunStatus.COMPLETED
    assert run.state().tasks["t1"].charged == 0


@pytest.mark.parametrize(
    ("table", "event", "way_out"),
    [
        (
            'model = "x-9"',
            refused(404, "no such model"),
            "Set `model` (now x-9) in `[one]` of .holdfast/agents.toml; then `holdfast resume",
        ),
        (
            "",
            refused(404, "no such model"),
            "Write `agents: {one: {preset: one, model: NAME}}` into the plan, `holdfast amend",
        ),
        (
            'env = {ANTHROPIC_API_KEY = "wrong"}',
            refused(401, "invalid x-api-key"),
            "Correct ANTHROPIC_API_KEY in `env` of `[one]` of .holdfast/agents.toml; then `holdfast resume",
        ),
        (
            "",
            refused(402, "no money. " * 60),
            "`agent:` in the plan and `holdfast amend 01-try-it`; for this task only `holdfast retry 01-try-it t --agent NAME`",
        ),
    ],
)
def test_the_way_out_names_the_place_where_the_cause_is_set(
    tmp_path: Path, table: str, event: dict[str, Any], way_out: str
) -> None:
    """The agent's table if that sets it, else the plan as it must be written. No long text of a provider hides it."""
    project = Project.create(tmp_path / "p")
    (tmp_path / "script").write_text(f"{say(event)}; exit 1")
    _add_claude(project, table, tmp_path / "script")
    run = trial(project, "t", agents={}, agent="one", known=["one"])
    assert run.execute() is RunStatus.BLOCKED
    [ended] = run.of_kind(ev.AttemptBlocked)
    assert way_out in ended.error
    assert ".." not in ended.error
    assert len(ended.error) < 400


def _add_claude(project: Project, table: str, script: Path) -> None:
    """Give the project an agent `one`, which runs a script and has further keys."""
    (project.path / ".holdfast").mkdir()
    (project.path / ".holdfast" / "agents.toml").write_text(
        f"[one]\npreset = 'claude'\ncommand = ['sh', '{script}']\nprompt = 'file'\n"
        f"errors = {{ model = ['no such model'] }}\n{table}\n"
    )


def test_an_agent_that_goes_on_after_its_key_was_refused_is_ended(tmp_path: Path) -> None:
    """Its own retries are no sign of life: without the agent's end the task blocks, long before it counts as silent."""
    never = Fifo(tmp_path / "never")
    script = f"{say(refused(401, 'invalid x-api-key'))}; {never.take}"
    run = trial(Project.create(tmp_path / "p"), "t", agents={"a": claude(script)}, limits=IMPATIENT)
    assert run.execute() is RunStatus.BLOCKED
    [halt] = run.of_kind(ev.AttemptHalted)
    assert (halt.failure, run.state().tasks["t"].charged) == (FailureKind.AUTH, 0)
    assert (
        run.state()
        .tasks["t"]
        .error.startswith("the agent's credentials were refused: invalid x-api-key. Log in")
    )


def _with_models(project: Project, bad: str, good: str) -> dict[str, Any]:
    """Return two agents of one provider, the first of which says that its model is unknown."""
    state = project.path / ".holdfast"
    state.mkdir(exist_ok=True)
    (state / "agents.toml").write_text(
        '[one]\npreset = "claude"\nprovider = "p"\ncommand = ["sh", "-c", '
        + repr(bad)
        + ']\nprompt = "file"\n'
        'errors = { model = ["no such model"] }\n'
        '[two]\npreset = "claude"\nprovider = "p"\ncommand = ["sh", "-c", '
        + repr(good)
        + ']\nprompt = "file"\n'
    )
    return {"a": {"preset": "one"}, "b": {"preset": "two"}}


def test_an_unknown_model_blocks_its_agent_and_no_other_of_the_provider(tmp_path: Path) -> None:
    """Two tasks ask for the model, one attempt finds out; an agent with another model goes on."""
    project = Project.create(tmp_path / "p")
    event = tmp_path / "event"
    event.write_text(say(refused(404, "no such model: x-9")))
    agents = _with_models(project, f". {event}; exit 1", f". {tmp_path / 'work'}")
    (tmp_path / "work").write_text(WORK)
    run = trial(project, "t1", "t2", "t3:b", agents=agents, known=["one", "two"], limits={"jobs": 1})
    assert run.execute() is RunStatus.BLOCKED
    tasks = run.state().tasks
    assert [failure.kind for failure in tasks["t1"].failures] == [FailureKind.MODEL]
    assert "Set `model:` of a under `agents:`" in tasks["t1"].error
    assert (tasks["t2"].attempt, tasks["t3"].status) == (0, TaskStatus.COMPLETED)
    assert run.stored().row.reason.startswith("a: the agent's model is unknown or not allowed")
