"""Agents that misbehave, machines in trouble: each has a clear outcome and costs nobody else anything."""

from __future__ import annotations

from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.status import FailureKind, RunStatus
from tests.support.repositories import Project, git
from tests.support.runs import DEADLINE_S, Fifo, Trial, sh, stage, start_runner


def failure_of(trial: Trial, task: str) -> tuple[FailureKind, str]:
    """Return the kind and the words of a task's last failure."""
    last = trial.state().tasks[task].failures[-1]
    return last.kind, last.error


def test_a_task_that_writes_into_the_users_checkout_is_noticed(tmp_path: Path) -> None:
    """The notice names the file and who was running; the run goes on."""
    project = Project.create(tmp_path / "p")
    trial = Trial.of(project, stage("one", sh("A", f"echo oops > {project.path}/stray.txt; echo a > A.txt")))
    assert trial.execute() is RunStatus.COMPLETED
    (notice,) = trial.of_kind(ev.IntrusionNoticed)
    assert (notice.tasks, notice.place, notice.paths) == (("A",), "the checkout", ("stray.txt",))


def test_a_task_that_writes_into_an_idle_workspace_is_noticed(tmp_path: Path) -> None:
    """A workspace between two tasks belongs to nobody; a change in it is reported, kept, and holds up the stage."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo a > A.txt"), sh("B", "echo b > B.txt")),
        stage("two", sh("C", "echo c > C.txt")),
        stage("three", sh("D", "echo stray > ../1/stray.txt; echo d > D.txt")),
        limits={"jobs": 2},
    )
    assert trial.execute() is RunStatus.BLOCKED
    (notice,) = trial.of_kind(ev.IntrusionNoticed)
    assert (notice.tasks, notice.place, notice.paths) == (("D",), "workspace 1", ("stray.txt",))
    assert "stray.txt" in trial.stored().row.reason
    assert trial.execute() is RunStatus.COMPLETED


def test_an_agent_that_deletes_its_workspace_gets_a_new_one(tmp_path: Path) -> None:
    """Nobody can tell who deleted it, so nothing is charged. The next attempt can succeed."""
    flag = tmp_path / "flag"
    script = f"if [ -f {flag} ]; then echo a > A.txt; else touch {flag}; rm -rf ../$(basename $PWD); fi"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)))
    assert trial.execute() is RunStatus.COMPLETED
    assert [event.cause for event in trial.of_kind(ev.AttemptLost)] == ["deletion"]
    assert (trial.state().tasks["A"].charged, trial.state().tasks["A"].crash_count) == (0, 1)


def test_an_agent_that_moves_its_branch_keeps_only_its_files(tmp_path: Path) -> None:
    """A HEAD moved to unrelated history is archived; the files land on top of where the attempt began."""
    script = "echo a > A.txt; git checkout -q --orphan elsewhere; git commit -q -m lost --allow-empty"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)), limits={"attempts": 2})
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("A.txt") == "a"
    assert trial.violations() == []


def test_an_agent_that_commits_by_itself_is_accepted(tmp_path: Path) -> None:
    """Its own commits stay in the history below ours."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "echo a > A.txt; git add -A; git commit -q -m mine; echo b > B.txt")),
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert (trial.show("A.txt"), trial.show("B.txt")) == ("a", "b")
    assert "mine" in trial.project.git("log", "--format=%s", f"holdfast/{trial.run}").splitlines()


def test_an_agent_that_ignores_sigterm_and_leaves_a_daemon_is_swept(tmp_path: Path) -> None:
    """What an agent leaves running is ended before its work is taken."""
    pid_file = tmp_path / "pid"
    daemon = (
        f"setsid sh -c 'trap \"\" TERM; echo $$ > {pid_file}; while :; do read _ < {tmp_path}/never; done' &"
    )
    Fifo(tmp_path / "never")
    ready = f"while [ ! -s {pid_file} ]; do :; done"
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", f"{daemon} {ready}; echo a > A.txt"))
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert not Path(f"/proc/{pid_file.read_text().strip()}/cwd").exists()


def test_a_flood_of_output_is_bounded(tmp_path: Path) -> None:
    """Printing more than the log may hold neither fills the disk nor stops the task."""
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", "yes | head -c 100000000; echo a > A.txt"))
    )
    assert trial.execute() is RunStatus.COMPLETED
    logs = trial.project.open().state_dir.run(trial.run).attempts.rglob("output.log*")
    assert sum(path.stat().st_size for path in logs) < 80_000_000


def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """The error says which command, and it is tried once: it is the machine's trouble."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", {"id": "A", "run": ["no-such-program-here"]}),
        limits={"attempts": 2, "retry_delay": 0.05},
    )
    assert trial.execute() is RunStatus.BLOCKED
    kind, words = failure_of(trial, "A")
    assert kind is FailureKind.ENVIRONMENT
    assert "no-such-program-here" in words


def test_a_repository_made_inside_the_workspace_is_taken_as_files(tmp_path: Path) -> None:
    """A nested repository must not become a pointer into nowhere."""
    script = "git init -q inner; echo i > inner/i.txt; git -C inner add -A; git -C inner commit -q -m inner"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)), limits={"attempts": 2})
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("inner/i.txt") == "i"


def test_git_hooks_and_settings_planted_by_an_agent_never_run(tmp_path: Path) -> None:
    """What an agent writes into the repository's git folder is not executed by Holdfast."""
    project = Project.create(tmp_path / "p")
    proof = tmp_path / "proof"
    plant = (
        f"d=$(git rev-parse --git-common-dir); printf '#!/bin/sh\\ntouch {proof}\\n' > $d/hooks/post-checkout;"
        f" cp $d/hooks/post-checkout $d/hooks/reference-transaction; chmod +x $d/hooks/*;"
        f" git config core.fsmonitor 'touch {proof}; false'; rm -f {proof}; echo a > A.txt"
    )
    trial = Trial.of(
        project, stage("one", sh("A", plant)), stage("two", sh("B", "echo b > B.txt")), verify=["test -d src"]
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert not proof.exists()


def test_a_detached_head_is_a_fine_place_to_start(tmp_path: Path) -> None:
    """The run begins at the commit that HEAD is on."""
    project = Project.create(tmp_path / "p")
    project.git("checkout", "-q", "--detach")
    trial = Trial.of(project, stage("one", sh("A", "echo a > A.txt")))
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.stored().row.target == ""


def test_a_shallow_clone_works(tmp_path: Path) -> None:
    """Every merge base is the run's own base, which a shallow clone has."""
    origin = Project.create(tmp_path / "origin")
    origin.write("more.txt", "m")
    origin.commit("more")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{origin.path}", "p")
    trial = Trial.of(
        Project(tmp_path / "p"), stage("one", sh("A", "echo a > A.txt"), sh("B", "echo b > B.txt"))
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert sorted(trial.landed()) == ["A", "B"]


def test_no_identity_is_needed(tmp_path: Path) -> None:
    """Commits are made also where the user never told git a name."""
    project = Project.create(tmp_path / "p")
    project.git("config", "--unset", "user.name")
    project.git("config", "--unset", "user.email")
    trial = Trial.of(project, stage("one", sh("A", "echo a > A.txt")))
    assert trial.execute() is RunStatus.COMPLETED


def test_two_runs_work_in_one_repository_at_once(tmp_path: Path) -> None:
    """Each has its own branch, lease and workspaces: both runners are alive in the middle of their task."""
    project = Project.create(tmp_path / "p")
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    script = f"{here.give}; {go.take}; echo $HOLDFAST_RUN > A.txt"
    trials = [Trial.of(project, stage("one", sh("A", script)), goal=goal) for goal in ("First", "Second")]
    runners = [start_runner(trial) for trial in trials]
    for _ in runners:
        here.wait()
    go.release(2)
    assert [runner.communicate(timeout=DEADLINE_S)[0] for runner in runners] == [b"completed\n"] * 2
    assert [trial.show("A.txt") for trial in trials] == [trial.run for trial in trials]
