"""What the crash sweep found, each as a small scenario of its own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.boot import own_process, start_ticks
from holdfast.core import events as ev
from holdfast.core.status import RunStatus
from holdfast.journal import open_journal
from holdfast.process.launch_order import draft_file, exit_file
from holdfast.repo.uncollected_work import UncollectedError
from tests.crash.evidence import BRANCH, look
from tests.crash.faults import Fault, run_with_fault
from tests.crash.operations import CONFLICTING_RUN, OPERATIONS
from tests.crash.sample_run import START
from tests.crash.trial import CrashTrial, PlannedFault
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, kill, sh, stage, start_runner

EARLIER = f"{os.getpid()}-1"
"""An earlier process with our pid, as `own_process` called it: pids are given to others, at the latest after a reboot."""


def test_a_run_killed_while_it_tidies_up_is_tidied_later(tmp_path: Path) -> None:
    """Workspaces that were left after the last event are removed by whoever resumes the completed run."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > a")))
    assert trial.execute() is RunStatus.COMPLETED
    repo = trial.project.open()
    left = repo.state_dir.run(trial.run).workspaces / ".removed-0"
    left.mkdir(parents=True)
    assert trial.execute() is RunStatus.COMPLETED
    assert not left.parent.exists()


def test_unfinished_files_of_dead_writers_are_removed_and_no_others(tmp_path: Path) -> None:
    """A kill between writing a file and renaming it leaves a draft; another process may be writing one right now."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > a")))
    folder = trial.project.git_dir / "holdfast-private" / "sealed"
    dead, alive = folder / f".holdfast-{EARLIER}-abc", folder / f".holdfast-{own_process()}-abc"
    dead.touch()
    alive.touch()
    trial.execute()
    assert (dead.exists(), alive.exists()) == (False, True)


def test_a_writer_that_only_waits_to_be_reaped_is_dead(tmp_path: Path) -> None:
    """In a container nobody may ever ask how it ended: it stays in the process table, and finishes no file."""
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        draft = tmp_path / f"journal.db.{ended.pid}-{start_ticks(ended.pid)}.new"
        draft.touch()
        open_journal(tmp_path / "journal.db").close()
        assert not draft.exists()


def test_a_journal_left_half_made_is_removed(tmp_path: Path) -> None:
    """The draft of a journal goes when the next process opens it for writing."""
    draft = tmp_path / f"journal.db.{EARLIER}.new"
    draft.touch()
    open_journal(tmp_path / "journal.db").close()
    assert not draft.exists()


def test_the_half_written_exit_of_a_killed_supervisor_is_removed(tmp_path: Path) -> None:
    """Recovery removes what the supervisor of a lost attempt had begun to write."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = f"[ -f a ] && exit; echo a > a; {here.give}; {never.take}"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script, resume="continue")))
    runner = start_runner(trial)
    os.kill(supervisor_of(int(here.wait())), signal.SIGKILL)
    kill(runner)
    folder = trial.project.open().state_dir.run(trial.run).attempts / "A" / "1" / "agent"
    draft = Path(draft_file(exit_file(str(folder))))
    draft.touch()
    assert trial.execute() is RunStatus.COMPLETED
    assert not draft.exists()


@pytest.mark.parametrize("folder", [".", "requests"])
def test_what_was_half_written_in_the_folder_of_a_run_is_removed(folder: str, tmp_path: Path) -> None:
    """A runner that is killed while it writes the resume note leaves a draft, and so does a killed `holdfast stop`."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > a")))
    draft = trial.project.open().state_dir.run(trial.run).root / folder / f".holdfast-{EARLIER}-half"
    draft.parent.mkdir(parents=True, exist_ok=True)
    draft.touch()
    assert trial.execute() is RunStatus.COMPLETED
    assert not draft.exists()


def supervisor_of(agent: int) -> int:
    """Return the parent of an agent."""
    return int(Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()[1])


def test_an_agent_that_a_shutdown_stopped_is_not_charged(tmp_path: Path) -> None:
    """Stopped from outside while no runner was there to say so: its work goes on, and no attempt was failed."""
    here, never = Fifo(tmp_path / "here"), Fifo(tmp_path / "never")
    script = f"[ -f a ] && echo b > b && exit; echo a > a; {here.give}; {never.take}"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script, resume="continue")))
    runner = start_runner(trial)
    supervisor = os.pidfd_open(supervisor_of(int(here.wait())))
    kill(runner)
    signal.pidfd_send_signal(supervisor, signal.SIGTERM)
    select.select([supervisor], [], [], DEADLINE_S)
    os.close(supervisor)
    assert trial.execute() is RunStatus.COMPLETED
    task = trial.state().tasks["A"]
    assert (task.attempt, task.charged, trial.show("a"), trial.show("b")) == (2, 0, "a", "b")


def test_finished_work_that_cannot_be_committed_stays_until_it_can(tmp_path: Path) -> None:
    """The runner ends rather than let the next attempt overwrite the workspace; resume commits the same work."""
    count = tmp_path / "count"
    in_the_way = "refs/holdfast/01-try-it/task/A"
    script = f"echo x >> {count}; echo a > a; git update-ref {in_the_way} HEAD"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)))
    with pytest.raises(UncollectedError, match="could not be committed"):
        trial.execute()
    trial.project.git("update-ref", "-d", in_the_way)
    assert trial.execute() is RunStatus.COMPLETED
    assert (count.read_text(), trial.show("a")) == ("x\n", "a")
    assert not trial.of_kind(ev.AttemptFailed)


def test_recovering_one_repository_spares_the_checks_of_another(tmp_path: Path) -> None:
    """Runs of the same name in two repositories share nothing, not even while one of them is recovered."""
    gates = [(Fifo(tmp_path / f"here{n}"), Fifo(tmp_path / f"go{n}")) for n in range(2)]
    trials = [
        Trial.of(
            Project.create(tmp_path / f"p{n}"),
            stage("one", sh("A", "echo a > a", verify=[f"{here.give}; {go.take}"])),
        )
        for n, (here, go) in enumerate(gates)
    ]
    runners = [start_runner(trial) for trial in trials]
    spared = int(gates[0][0].wait())
    gates[1][0].wait()
    kill(runners[1])
    gates[1][1].release(2)  # the check that was cut short may still take the first
    assert trials[1].execute() is RunStatus.COMPLETED
    os.kill(spared, 0)
    gates[0][1].release()
    assert runners[0].wait(DEADLINE_S) == 0
    runners[0].communicate(timeout=DEADLINE_S)


def test_a_failing_disk_is_told_in_words(tmp_path: Path) -> None:
    """What the system refuses ends a command with a sentence and the code for a decision, not with a traceback."""
    project = Project.create(tmp_path / "p")
    project.write("plan.yaml", "holdfast: 1\ngoal: g\nstages: [{id: s, tasks: [{id: A, run: ['true']}]}]\n")
    project.write(".holdfast/runs", "not a folder")
    command = [sys.executable, "-m", "holdfast", "run", "plan.yaml", "--yes"]
    ended = subprocess.run(command, cwd=project.path, capture_output=True, text=True)
    assert (ended.returncode, "Traceback" in ended.stderr) == (3, False)
    assert ".holdfast/runs" in ended.stderr


def test_a_journal_killed_before_its_first_change_can_be_looked_at(tmp_path: Path) -> None:
    """A log that holds nothing but its header, with its shared index, is as good as none."""
    log = ".holdfast/journal.db-wal"
    with closing(CrashTrial(tmp_path, CONFLICTING_RUN)) as trial:
        header = next(p.number for p in trial.points() if (p.syscall, p.path) == ("pwrite64", log))
        trial.reset()
        assert run_with_fault(trial.program(START), Fault("after", header)).fired
        assert (trial.repository / log).stat().st_size == 32
        assert look(trial.repository).stored is None


def test_a_branch_that_moved_and_cannot_be_synced_is_not_called_back(tmp_path: Path) -> None:
    """The journal neither says that the task landed nor that it did not; the next runner asks git."""
    folder = f".git/{Path(BRANCH).parent}"
    with closing(CrashTrial(tmp_path, CONFLICTING_RUN)) as trial:
        syncs = [p.number for p in trial.points() if (p.syscall, p.path) == ("fsync", folder)]
        for number in syncs:
            outcome = trial.cycle([PlannedFault("eio", number)])
            assert (outcome.fired, list(outcome.sentences())) == (True, [])


def test_a_new_journal_leaves_nothing_of_its_draft(tmp_path: Path) -> None:
    """SQLite says nothing when it cannot remove a file of its own, and whoever rebuilds again finds a sound journal."""
    rebuild = next(operation for operation in OPERATIONS if operation.name == "rebuild")
    removed = ("unlink", ".holdfast/journal.db.rebuilt-shm")
    with closing(CrashTrial(tmp_path, rebuild)) as trial:
        number = next(point.number for point in trial.points() if (point.syscall, point.path) == removed)
        outcome = trial.cycle([PlannedFault("eio", number)])
    assert (outcome.fired, list(outcome.sentences())) == (True, [])


def test_a_disk_error_that_passes_is_not_taken_for_a_filter_that_fails(tmp_path: Path) -> None:
    """What a person gave is committed at the second try, and lands; nobody has to give it again."""
    given = next(operation for operation in OPERATIONS if str(operation) == "give/taken-in")
    with closing(CrashTrial(tmp_path, given)) as trial:
        blob = next(p.number for p in trial.points() if p.comm == "git" and "/tmp_obj_" in p.path)
        outcome = trial.cycle([PlannedFault("enospc", blob)])
    assert (outcome.fired, list(outcome.sentences())) == (True, [])
    assert "could not convert" not in outcome.log
