"""A check that cannot be executed is the plan's fault: nothing is charged, no other agent is paid, the work waits."""

from __future__ import annotations

from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.status import FailureKind, RunStatus, TaskStatus
from tests.support.repositories import Project
from tests.support.runs import Fifo, Trial, sh, stage


def _tasks(*names: str) -> list[dict[str, object]]:
    return [sh(name, f"echo {name} > {name}.txt") for name in names]


def test_a_check_that_cannot_be_executed_blocks_the_run_after_the_first_agent(tmp_path: Path) -> None:
    """A typo in a check costs one agent and no attempt; the reason names the check, the shell's words and the way out."""
    project = Project.create(tmp_path / "p")
    trial = Trial.of(project, stage("one", *_tasks("A", "B", "C")), verify=["pytset -q"], limits={"jobs": 1})
    assert trial.execute() is RunStatus.BLOCKED
    assert [event.task for event in trial.of_kind(ev.AttemptStarted)] == ["A"]
    row = trial.state().tasks["A"]
    assert (row.status, row.charged, row.failures[-1].kind) == (TaskStatus.BLOCKED, 0, FailureKind.UNRUNNABLE)
    reason = trial.state().row.reason
    for words in ("`pytset -q`", "pytset: not found", f"holdfast amend {trial.run}", "holdfast resume"):
        assert words in reason


def test_agents_under_way_finish_and_their_work_waits(tmp_path: Path) -> None:
    """Two agents at work when the first check cannot be executed: both keep their work, the third never starts."""
    project = Project.create(tmp_path / "p")
    trial = Trial.of(project, stage("one", *_tasks("A", "B", "C")), verify=["pytset -q"], limits={"jobs": 2})
    assert trial.execute() is RunStatus.BLOCKED
    state = trial.state()
    started = {event.task for event in trial.of_kind(ev.AttemptStarted)}
    assert started <= {"A", "B"}
    assert all(state.tasks[name].recheck and state.tasks[name].latest.head for name in started)


def test_a_check_that_stops_two_tasks_is_told_once(tmp_path: Path) -> None:
    """The reason of the run names both, and says what is wrong a single time."""
    meet = Fifo(tmp_path / "meet")
    tasks = (sh("A", f"{meet.give}; echo a > A.txt"), sh("B", f"{meet.take}; echo b > B.txt"))
    project = Project.create(tmp_path / "p")
    trial = Trial.of(project, stage("one", *tasks), verify=["pytset -q"], limits={"jobs": 2})
    assert trial.execute() is RunStatus.BLOCKED
    reason = trial.state().row.reason
    assert set(reason.partition(": ")[0].split(", ")) == {"A", "B"}
    assert reason.count("pytset: not found") == 1


def test_after_the_program_is_installed_resume_checks_and_lands_the_same_work(tmp_path: Path) -> None:
    """The commit of the first attempt lands; no agent is started again."""
    tool = tmp_path / "tool"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", *_tasks("A")), verify=[f"{tool} A.txt"])
    assert trial.execute() is RunStatus.BLOCKED
    head = trial.state().tasks["A"].latest.head
    tool.write_text("#!/bin/sh\ntest -e $1\n")
    tool.chmod(0o755)
    assert trial.execute() is RunStatus.COMPLETED
    row = trial.state().tasks["A"]
    assert (row.attempt, row.charged, row.latest.head) == (1, 0, head)
    assert trial.landed() == ["A"]


def test_a_check_that_the_agent_deleted_is_the_agents_fault(tmp_path: Path) -> None:
    """The file was there before the task: a failed check, as ever."""
    project = Project.create(tmp_path / "p")
    project.write("run_tests.sh", "#!/bin/sh\ntrue\n")
    (project.path / "run_tests.sh").chmod(0o755)
    project.commit("tests")
    script = sh("A", "rm run_tests.sh; echo a > A.txt")
    trial = Trial.of(project, stage("one", script), verify=["./run_tests.sh"], limits={"attempts": 1})
    assert trial.execute() is RunStatus.BLOCKED
    assert [event.check for event in trial.of_kind(ev.ChecksFailed)] == ["./run_tests.sh"]
    assert not trial.of_kind(ev.VerificationBlocked)


def test_a_script_that_nobody_made_is_told_to_one_more_agent_then_blocks(tmp_path: Path) -> None:
    """The task may have been to create it. The second time it is the plan's fault."""
    script = sh("A", "date +%s%N > A.txt")
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", script), verify=["./check.sh"], limits={"attempts": 5}
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert (len(trial.of_kind(ev.ChecksFailed)), len(trial.of_kind(ev.VerificationBlocked))) == (1, 1)
    assert trial.state().tasks["A"].charged == 1


def test_a_check_that_cannot_be_executed_on_the_merged_tree_blocks_too(tmp_path: Path) -> None:
    """Both tasks hold alone; after the merge the check comes to the program that is not there."""
    check = "test ! -e A.txt || test ! -e B.txt || pytset -q"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", *_tasks("A", "B")), verify=[check])
    assert trial.execute() is RunStatus.BLOCKED
    (first,) = trial.landed()
    (blocked,) = trial.of_kind(ev.VerificationBlocked)
    assert {first, blocked.task} == {"A", "B"}
    assert trial.state().tasks[blocked.task].charged == 0


def test_a_command_that_is_not_installed_charges_nothing(tmp_path: Path) -> None:
    """One start shows it; the task waits for a person."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", {"id": "A", "run": ["no-such-program-here"]}),
        limits={"attempts": 3, "retry_delay": 0.05},
    )
    assert trial.execute() is RunStatus.BLOCKED
    row = trial.state().tasks["A"]
    assert (row.attempt, row.charged, row.status) == (1, 0, TaskStatus.BLOCKED)
    assert "no-such-program-here" in row.error
