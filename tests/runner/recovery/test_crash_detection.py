"""C2, A10: an interruption is known at once, by a lock; nothing that lives is ever taken for dead."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import msgspec

from holdfast.boot import boot_id
from holdfast.core.facts import Presence
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import AGENT_STEP, LaunchKey
from holdfast.journal.lease import Holder, holder
from holdfast.reporting.run_ending import Ending, how_it_ended, rest_of
from holdfast.views.status import status_view
from tests.support.command import eventually
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, kill, sh, stage, start_runner


def _ending(trial: Trial) -> Ending:
    """Say how the run ended, as `status` would."""
    lease = trial.project.open().state_dir.run(trial.run).lease
    return how_it_ended(trial.stored().row, held=holder(lease) is not None, boot_id=boot_id())


def _trial(tmp_path: Path) -> tuple[Trial, Fifo, Fifo]:
    here, go = Fifo(tmp_path / "here"), Fifo(tmp_path / "go")
    script = f"{here.give}; {go.take}; echo a > A.txt"
    return Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script))), here, go


def test_a_killed_runner_is_known_to_be_gone_at_once(tmp_path: Path) -> None:
    """The kernel frees the lease with its holder: there is no heartbeat to miss and nothing to wait for."""
    trial, here, go = _trial(tmp_path)
    runner = start_runner(trial)
    here.wait()
    assert _ending(trial) is Ending.RUNNING
    kill(runner)
    assert _ending(trial) is Ending.CRASH
    go.release()
    trial.execute()
    assert _ending(trial) is Ending.COMPLETED


def _kernel_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_stopped_runner_is_not_taken_for_dead(tmp_path: Path) -> None:
    """SIGSTOP, a debugger or a suspended laptop: it still holds its lease, however long it says nothing."""
    trial, here, go = _trial(tmp_path)
    runner = start_runner(trial)
    here.wait()
    os.kill(runner.pid, signal.SIGSTOP)
    eventually(lambda: _kernel_state(runner.pid) == "T", "the runner is stopped")
    assert _ending(trial) is Ending.RUNNING
    os.kill(runner.pid, signal.SIGCONT)
    go.release()
    runner.communicate(timeout=DEADLINE_S)
    assert _ending(trial) is Ending.COMPLETED


def test_a_process_that_got_the_dead_runners_pid_holds_nothing(tmp_path: Path) -> None:
    """What the lease file says without a lock on it counts for nothing: this very process is alive and named in it."""
    trial, here, go = _trial(tmp_path)
    runner = start_runner(trial)
    here.wait()
    kill(runner)
    lease = trial.project.open().state_dir.run(trial.run).lease
    lease.write_bytes(
        msgspec.json.encode(Holder(pid=os.getpid(), boot_id=boot_id(), host=os.uname().nodename))
    )
    assert _ending(trial) is Ending.CRASH
    go.release()
    trial.execute()


def test_a_jumped_clock_raises_no_alarm_and_hides_no_crash(tmp_path: Path) -> None:
    """A day forth or back: the same conclusion, and no negative time."""
    trial, here, go = _trial(tmp_path)
    runner = start_runner(trial)
    here.wait()
    stored = trial.stored()
    for jump in (-86_400.0, 86_400.0):
        live = status_view(stored, "somebody", time.time() + jump, boot_id=boot_id())
        dead = status_view(stored, None, time.time() + jump, boot_id=boot_id())
        assert live.run is not None
        assert dead.run is not None
        assert (live.run.status, dead.run.ending) == ("running", Ending.CRASH)
        assert live.metrics.elapsed_s >= 0
    go.release()
    runner.communicate(timeout=DEADLINE_S)


def test_a_reboot_is_told_from_a_crash(tmp_path: Path) -> None:
    """The runner attached in another life of the machine: its boot id is recorded with the run."""
    trial, here, go = _trial(tmp_path)
    runner = start_runner(trial)
    here.wait()
    kill(runner)
    stored = trial.stored()
    assert stored.row.boot_id == boot_id()
    assert how_it_ended(stored.row, held=False, boot_id="the next one") is Ending.REBOOT
    go.release()
    trial.execute()


def test_an_agent_that_works_on_after_the_crash_is_the_last_sign_of_life(tmp_path: Path) -> None:
    """Nobody was left to record its end, but its record on disk tells when it was."""
    trial, here, go = _trial(tmp_path)
    runner = start_runner(trial)
    here.wait()
    kill(runner)
    stored, fleet = trial.stored(), LocalFleet(trial.project.open().state_dir)
    go.release()
    key = LaunchKey(trial.run, "A", 1, AGENT_STEP)
    fleet.recognise(key, trial.state().tasks["A"].latest.token)
    eventually(lambda: fleet.inspect(key).presence is Presence.ENDED, "the agent ends")
    seen = fleet.last_sign(key)
    assert rest_of(Ending.CRASH, stored.updated_at, seen).last_sign == seen > stored.updated_at
    trial.execute()
