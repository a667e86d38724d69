"""What happens when an attempt fails: retries with feedback, limits in time, and what an abandoned task stops."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.core.status import FailureKind, RunStatus
from holdfast.errors import LaunchError
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.testing import FunctionFleet
from tests.support.command import Cli
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, sh, stage


def test_a_task_is_abandoned_after_its_last_attempt(tmp_path: Path) -> None:
    """E2, A6: failures are retried up to the limit, each with its error, then the run says why it cannot go on."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo trying >> tries.txt; exit 7")),
        limits={"attempts": 3},
    )
    assert trial.execute() is RunStatus.BLOCKED
    task = trial.state().tasks["A"]
    assert (task.status, task.attempt, len(task.failures)) == ("abandoned", 3, 3)
    assert "exited with status 7" in task.error
    assert "A abandoned" in trial.stored().row.reason


def test_an_abandoned_task_stops_its_stage_but_loses_nobody_elses_work(tmp_path: Path) -> None:
    """S8, E7: what runs beside it finishes and lands; what has not begun does not start; later stages stay closed."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one",
            sh("bad", "exit 1"),
            sh("good", "echo g > g.txt"),
            sh("later", "echo l > l.txt", needs=["good"]),
        ),
        stage("two", sh("after", "true")),
        limits={"attempts": 1, "jobs": 2},
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert "good" in trial.landed()
    assert "after" not in trial.landed()
    assert trial.violations() == []


def test_keep_going_runs_what_does_not_need_the_abandoned_task(tmp_path: Path) -> None:
    """Like make -k: an overnight run does all it can."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one", sh("bad", "exit 1"), sh("other", "echo o > o.txt"), sh("blocked", "true", needs=["bad"])
        ),
        limits={"attempts": 1, "jobs": 1, "keep_going": True},
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert trial.landed() == ["other"]


def test_success_without_any_change_is_a_failure_with_feedback(tmp_path: Path) -> None:
    """An agent's word does not count; an agent that changed nothing has not done its task."""
    agents = {"idle": {"command": ["true"], "prompt": "file"}}
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", {"id": "A", "prompt": "Do it"}),
        agents=agents,
        agent="idle",
        limits={"attempts": 2},
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert [f.kind for f in trial.state().tasks["A"].failures] == [FailureKind.NO_CHANGE] * 2
    assert "changed no file" in trial.brief("A", 2)


def test_what_another_task_landed_meanwhile_is_no_change_of_an_idle_agent(tmp_path: Path) -> None:
    """Its second attempt starts from another tree than its first, and leaves it as it is."""
    gate = Fifo(tmp_path / "gate")
    idle = f'if [ "$HOLDFAST_ATTEMPT_NUMBER" = 1 ]; then {gate.take}; exit 1; fi'
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one",
            {"id": "idle", "prompt": "Do it"},
            sh("other", "echo x > other.txt"),
            sh("later", f"echo x > later.txt; {gate.give}", needs=["other"]),
        ),
        agents={"idle": {"command": ["sh", "-c", idle], "prompt": "file"}},
        agent="idle",
        limits={"attempts": 2, "keep_going": True},
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert sorted(trial.landed()) == ["later", "other"]
    failures = trial.state().tasks["idle"].failures
    assert [failure.kind for failure in failures] == [FailureKind.AGENT, FailureKind.NO_CHANGE]


@pytest.mark.parametrize("end", ["sleep 1000", "exit 3"], ids=["it hangs", "it fails"])
def test_whole_work_of_an_attempt_that_nobody_judged_is_checked_when_the_next_agent_has_nothing_to_add(
    tmp_path: Path, end: str
) -> None:
    """The agent wrote all of it and hung, or failed at something else. The next one finds it done: that is no failure."""
    script = f"if [ -f A.txt ]; then exit 0; fi; echo x > A.txt; {end}"
    agents = {"mine": {"command": ["sh", "-c", script], "prompt": "file"}}
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", {"id": "A", "prompt": "Do it", "stall": 0.5}),
        agents=agents,
        agent="mine",
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert len(trial.state().tasks["A"].failures) == 1


def test_missing_deliverables_fail_the_attempt_and_are_named(tmp_path: Path) -> None:
    """`files:` is checked when the task ends."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo x > other.txt", files=["A.txt"])),
        limits={"attempts": 1},
    )
    trial.execute()
    (failure,) = trial.state().tasks["A"].failures
    assert failure.kind is FailureKind.MISSING_FILES
    assert "A.txt" in failure.error


def test_an_agent_that_hangs_is_stopped_at_its_time_limit(tmp_path: Path) -> None:
    """Wall clock: the attempt fails as a timeout, nothing of it is left."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "sleep 1000", timeout=0.3)),
        limits={"attempts": 1},
    )
    trial.execute()
    assert [f.kind for f in trial.state().tasks["A"].failures] == [FailureKind.TIMEOUT]


def test_a_silent_agent_is_stopped_at_its_stall_limit(tmp_path: Path) -> None:
    """No output for too long counts as hanging."""
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", "sleep 1000", stall=0.3)), limits={"attempts": 1}
    )
    trial.execute()
    assert [f.kind for f in trial.state().tasks["A"].failures] == [FailureKind.STALLED]


def write_name(spec: LaunchSpec) -> int:
    """Do the work of a task: a file of its name."""
    (spec.cwd / spec.key.owner).touch()
    return 0


@dataclass(slots=True)
class CrowdedFleet(FunctionFleet):
    """A machine that has no room for a process until it was asked for it several times."""

    refusals: int = 0
    refused: Counter[LaunchKey] = field(default_factory=Counter)

    async def launch(self, spec: LaunchSpec) -> None:
        """Refuse, or launch."""
        if self.refused[spec.key] < self.refusals:
            self.refused[spec.key] += 1
            raise LaunchError("fork: Resource temporarily unavailable", "End some processes.")
        await FunctionFleet.launch(self, spec)


def test_a_machine_without_room_for_a_process_is_waited_for(tmp_path: Path) -> None:
    """An attempt and its check begin as soon as there is room, and nothing is charged."""
    limits = {"attempts": 1, "retry_delay": 0}
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", "", verify=["true"])), limits=limits
    )
    fleet = CrowdedFleet(write_name, refusals=3)
    assert trial.execute(fleet) is RunStatus.COMPLETED
    assert [refused for refused in fleet.refused.values() if refused < 3] == []
    assert (len(fleet.refused) > 1, trial.state().tasks["A"].failures) == (True, [])


def test_a_run_without_room_for_a_process_rests_and_charges_nobody(tmp_path: Path) -> None:
    """No task is abandoned for what the machine lacks: `resume` does it as if nothing had been tried."""
    limits = {"attempts": 1, "retry_delay": 0}
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", ""), sh("B", "")), limits=limits)
    assert trial.execute(CrowdedFleet(write_name, refusals=1_000)) is RunStatus.BLOCKED
    assert "could not carry out attempt 1 of task" in trial.stored().row.reason
    assert "End some processes." in trial.stored().row.reason
    assert trial.execute(FunctionFleet(write_name)) is RunStatus.COMPLETED
    assert (sorted(trial.landed()), trial.violations()) == (["A", "B"], [])


def test_a_silent_agent_is_told_with_the_limit_that_ended_it(tmp_path: Path) -> None:
    """The number and the key of the plan, not only that it stalled."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sleep", "60"]}, limits={"attempts": 1, "stall": "0.3s"})
    assert "silent for 0.3 s (limits.stall)" in cli("run", "--yes").out
