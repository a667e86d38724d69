"""Whole runs whose journal is in a server that is killed, stopped, emptied, or taken back to an older state."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.command import COMMAND, Cli, eventually, writes
from tests.support.postgres_server import PostgresServer
from tests.support.redis_server import RedisServerProcess
from tests.support.repositories import Project
from tests.support.runs import Fifo
from tests.support.servers import PROTOCOLS, ServerProcess, running, start_server
from tests.support.stored_runs import RUN, StoredTrial

DONE, BAD_INPUT, WAITS, HELD = 0, 2, 3, 4


@pytest.fixture(params=PROTOCOLS)
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server that a test may kill."""
    with running(partial(start_server, request.param)) as started:
        yield started


@pytest.fixture
def trial(tmp_path: Path, server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> StoredTrial:
    """A repository without runs whose store is the server. Task `a` lands at once, `b` waits until it may go on, `c` needs it."""
    monkeypatch.setenv("HOLDFAST_STORE", server.url)
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    script = f"{at_work.give}; {go_on.take}; echo b > b.txt"
    waits = {"id": "b", "run": ["sh", "-c", script], "needs": ["a"]}
    cli = Cli.of(tmp_path / "p", writes("a"), waits, writes("c", needs=["b"]))
    return StoredTrial(cli, at_work, go_on)


def test_a_run_goes_on_when_its_server_was_killed_and_is_back(
    trial: StoredTrial, server: ServerProcess
) -> None:
    """The agent works on meanwhile, and what it did lands once."""
    runner = trial.start()
    server.kill()
    trial.go_on.release()
    server.launch()
    assert runner.wait() == DONE
    assert (trial.landed(), trial.attempts()) == (["a", "b", "c"], {"a": 1, "b": 1, "c": 1})
    assert trial.cli("doctor").code == DONE


def test_who_follows_a_run_sees_each_event_once_although_the_server_was_killed(
    trial: StoredTrial, server: ServerProcess
) -> None:
    """It waits for the server as the runner does, and says so."""
    runner = trial.start()
    with subprocess.Popen(
        [*COMMAND, "status", "-f"],
        cwd=trial.cli.here,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as follower:
        assert follower.stdout is not None
        assert follower.stderr is not None
        earlier = [next(line for line in follower.stdout if "b: attempt 1 started" in line)]
        server.kill()
        assert "is shown again once the store answers" in follower.stderr.readline()
        trial.go_on.release()
        server.launch()
        assert runner.wait() == DONE
        shown = [*earlier, *follower.stdout]
        assert follower.wait() == DONE, shown
    landed = [line.split()[1] for line in shown if "landed as" in line]
    assert landed == ["b:", "c:"]


def test_a_run_waits_for_a_server_that_stands_still(trial: StoredTrial, server: ServerProcess) -> None:
    """It is stopped, not dead: its connections stay open and nothing comes."""
    runner = trial.start()
    server.pause()
    trial.go_on.release()
    server.go_on()
    assert runner.wait() == DONE
    assert trial.attempts() == {"a": 1, "b": 1, "c": 1}


def test_a_server_that_lost_everything_is_not_taken_for_one_without_runs(
    trial: StoredTrial, server: ServerProcess
) -> None:
    """The runner ends and says why; git knows better, and `rebuild` brings the run back. What landed is not done again."""
    runner = trial.start()
    server.kill()
    server.forget()
    server.launch()
    trial.go_on.release()
    assert runner.wait() not in (DONE, None)
    refused = trial.cli("run", "--yes")
    assert (refused.code, "rebuild" in refused.err) == (WAITS, True), refused
    for said in (trial.cli("status").out, trial.cli("list").out, trial.cli("resume").err):
        assert f"git knows {RUN}" in said, said
    rebuilt = trial.cli("rebuild")
    assert (rebuilt.code, RUN in rebuilt.out) == (DONE, True), rebuilt
    trial.go_on.release()
    assert trial.cli("resume", "--yes").code == DONE
    assert trial.landed() == ["a", "b", "c"]
    assert trial.attempts()["a"] == 1


def test_rebuild_is_the_way_out_of_a_damaged_journal_in_a_server(
    trial: StoredTrial, server: ServerProcess
) -> None:
    """The error names it, and it works: the damaged journal is kept, and what landed is not done again."""
    runner = trial.start()
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert (
        trial.cli("rebuild").code == WAITS
    )  # it is sound, and the lease of the dead runner is in nobody's way
    _damage(server)
    refused = trial.cli("resume", "--yes")
    assert (refused.code, "holdfast rebuild" in refused.err) == (BAD_INPUT, True), refused
    assert trial.cli("rebuild").code == DONE
    trial.go_on.release()
    assert trial.cli("resume", "--yes").code == DONE
    assert (trial.landed(), trial.attempts()["a"]) == (["a", "b", "c"], 1)


def _damage(server: ServerProcess) -> None:
    """Make the row of every run one that nobody can read."""
    if isinstance(server, PostgresServer):
        server.sql("UPDATE holdfast.runs SET row = 'x'")
        return
    assert isinstance(server, RedisServerProcess)
    with server.client() as client:
        for key in client.keys("holdfast:*:run:*"):
            client.hset(key, "row", "x")


def test_a_killed_runner_is_replaced_at_once(trial: StoredTrial) -> None:
    """Its lease in the server has not ended, but its lock on this machine is free: its agent is taken over."""
    runner = trial.start()
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    assert trial.cli.run_status() == "interrupted"
    trial.go_on.release()
    assert trial.cli("resume", "--yes").code == DONE
    assert (trial.landed(), trial.attempts()) == (["a", "b", "c"], {"a": 1, "b": 1, "c": 1})


def test_a_live_run_can_be_looked_at_from_another_clone_and_not_taken(
    trial: StoredTrial, tmp_path: Path
) -> None:
    """The other machine sees it at once, by the repository's first commit; it neither decides nor runs."""
    runner = trial.start()
    trial.cli.project.git("clone", "-q", str(trial.cli.here), str(tmp_path / "clone"))
    there = Cli(tmp_path / "clone")
    assert [run["id"] for run in there.json("list")] == [RUN]
    assert there.json("status")["run"]["status"] == "running"
    assert there("inspect", RUN).code == DONE
    assert "not on this machine" in there("logs", "a").err
    for command in (("resume", "--yes"), ("stop",), ("skip", "c")):
        refused = there(*command)
        assert (refused.code, "is held by another runner" in refused.err) == (HELD, True), refused
    trial.go_on.release()
    assert runner.wait() == DONE


def test_a_run_is_not_carried_on_where_its_landed_work_is_not(trial: StoredTrial, tmp_path: Path) -> None:
    """It would be done again there. Once the branch was fetched, the other clone goes on."""
    runner = trial.start()
    trial.cli("stop")
    runner.wait()
    trial.cli.project.git(
        "clone", "-q", "--single-branch", f"file://{trial.cli.here}", str(tmp_path / "clone")
    )
    there = Cli(tmp_path / "clone")
    Project(there.here).git("config", "user.name", "Me")
    Project(there.here).git("config", "user.email", "me@example.com")
    for command in (("resume", "--yes"), ("resume", "--dry-run"), ("land", "--yes")):
        refused = there(*command)
        assert (refused.code, "is not in this repository" in refused.err) == (BAD_INPUT, True), refused
    there.project.git("fetch", "-q", "origin", f"refs/heads/holdfast/{RUN}:refs/heads/holdfast/{RUN}")
    trial.go_on.release()
    assert there("resume", "--yes").code == DONE
    assert trial.attempts()["a"] == 1


def test_a_clone_that_steers_a_run_remembers_the_store_and_hides_its_folder(
    trial: StoredTrial, tmp_path: Path
) -> None:
    """Like the clone where the run began. To look leaves no trace, and its own git settings are no news of the run."""
    runner = trial.start()
    trial.go_on.release()
    assert runner.wait() == DONE
    trial.cli.project.git("clone", "-q", str(trial.cli.here), str(tmp_path / "clone"))
    there = Cli(tmp_path / "clone")
    assert there.json("list")
    assert "remote.origin" not in there("recap").out + there("doctor").out
    assert not (there.here / ".holdfast").exists()
    cleaned = there("clean", "--all", "--yes")
    assert ("worked in another clone" in cleaned.err, len(there.json("list"))) == (True, 1), cleaned
    assert (there.here / ".holdfast/store.json").is_file()
    assert there.project.git("status", "--short") == ""


def test_two_repositories_do_not_see_each_other(trial: StoredTrial, tmp_path: Path) -> None:
    """One server keeps the runs of both."""
    other = Cli.of(tmp_path / "other", writes("x"))
    other.project.git("commit", "--amend", "-q", "-m", "Another beginning")
    assert other("run", "--yes").code == DONE
    assert [run["id"] for run in other.json("list")] == [RUN]
    assert trial.cli.json("list") == []


def test_two_repositories_under_one_name_are_told_apart(trial: StoredTrial, tmp_path: Path) -> None:
    """Each would steer the other's runs. A clone is the same repository, also a shallow one, which needs such a name."""
    trial.cli.project.git("config", "holdfast.repository", "ours")
    runner = trial.start()
    trial.go_on.release()
    assert runner.wait() == DONE
    other = Cli.of(tmp_path / "other", writes("x"))
    other.project.git("commit", "--amend", "-q", "-m", "Another beginning")
    other.project.git("reflog", "expire", "--expire=now", "--all")
    other.project.git("prune", "--expire=now")
    other.project.git("config", "holdfast.repository", "ours")
    backup = tmp_path / "runs.db"
    assert trial.cli("backup", str(backup)).code == DONE
    for command in (("run", "--yes"), ("retry", "a"), ("rebuild", "--yes"), ("restore", str(backup))):
        refused = other(*command)
        assert (refused.code, "of another repository" in refused.err) == (BAD_INPUT, True), refused
    assert not (other.here / ".holdfast/store.json").exists()
    for depth in ((), ("--depth=1",)):
        there = Cli(tmp_path / f"clone{len(depth)}")
        trial.cli.project.git("clone", "-q", *depth, f"file://{trial.cli.here}", str(there.here))
        there.project.git("config", "holdfast.repository", "ours")
        cleaned = there("clean", "--all", "--yes")
        assert "worked in another clone" in cleaned.err, cleaned


def test_no_password_is_kept_or_shown(trial: StoredTrial) -> None:
    """The repository remembers its store without it."""
    runner = trial.start()
    trial.go_on.release()
    assert runner.wait() == DONE
    eventually((trial.cli.here / ".holdfast/store.json").is_file, "the store is remembered")
    secret = "s3cr3t-of-the-store"
    said = trial.cli("status", HOLDFAST_STORE="redis://user:s3cr3t-of-the-store@127.0.0.1:1/0")
    assert secret not in said.out + said.err
    found = subprocess.run(["grep", "-r", secret, str(trial.cli.here)], capture_output=True, check=False)
    assert found.returncode == 1
