"""Whole runs whose server fails over to an older state, has no room left, or is out of reach for longer than a lease."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.events import Event
from holdfast.journal import open_reader
from holdfast.journal.address import JournalAddress
from tests.support.command import Cli, eventually
from tests.support.postgres_server import USER, PostgresServer, postgres
from tests.support.redis_server import RedisServerProcess
from tests.support.repositories import Project
from tests.support.runs import Fifo
from tests.support.servers import PROTOCOLS, ServerProcess, running, start_server
from tests.support.stored_runs import RUN, StoredTrial
from tests.support.tcp_relay import NetworkFault, TcpRelay
from tests.support.tiny_disk import TinyDisk, tiny_disk

DONE, BAD_INPUT, WAITS, HELD = 0, 2, 3, 4
LEASE_S = 1.0
WITH_SHORT_LEASE = (
    "import sys; from holdfast.journal.server_journal import ServerJournal; from holdfast.cli.main import main;"
    f"ServerJournal.lease_s = {LEASE_S}; sys.exit(main(sys.argv[1:]))"
)
"""The command, with a lease of a second instead of half a minute."""


def appends(task: str, *steps: str, **more: Any) -> dict[str, Any]:
    """Return a task that adds a line to a file after some steps: what is done twice is seen."""
    return {"id": task, "run": ["sh", "-c", "; ".join([*steps, f"echo {task} >> {task}.out"])], **more}


@pytest.fixture
def trial(tmp_path: Path) -> StoredTrial:
    """A repository whose tasks follow each other. All but the first wait until they may go on."""
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    gate = (at_work.give, go_on.take)
    tasks = (appends("a"), appends("b", *gate, needs=["a"]), appends("c", *gate, needs=["b"]))
    return StoredTrial(Cli.of(tmp_path / "p", *tasks), at_work, go_on)


@pytest.fixture(params=PROTOCOLS)
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server that a test may kill."""
    with running(partial(start_server, request.param)) as started:
        yield started


@pytest.fixture
def relay(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[TcpRelay]:
    """The way to the server, which is the store."""
    way, url = TcpRelay.before(server.url)
    monkeypatch.setenv("HOLDFAST_STORE", url)
    yield way
    way.close()


# ---- a failover that lost the last events ----


@contextmanager
def promoted_replica(server: ServerProcess) -> Iterator[RedisServerProcess | PostgresServer]:
    """Start a replica of a server, and promote it: it has what the server had a moment ago, and never what follows."""
    with ExitStack() as cleanup:
        if isinstance(server, PostgresServer):
            copy = cleanup.enter_context(server.replica())
            copy.catch_up(server)
            copy.sql("SELECT pg_promote()")
            yield copy
        else:
            assert isinstance(server, RedisServerProcess)
            replica = RedisServerProcess.start(replicaof=f"127.0.0.1 {server.port}")
            cleanup.callback(replica.stop)
            replica.catch_up(server)
            replica.promote()
            yield replica


def test_a_failover_that_lost_the_last_events_loses_and_repeats_no_work(
    trial: StoredTrial, server: ServerProcess, relay: TcpRelay
) -> None:
    """The replica never got that `b` landed and `c` started. The runner notices and ends; git knows better."""
    runner = trial.start()
    with promoted_replica(server) as replica:
        trial.go_on.release()
        trial.at_work.wait()
        assert trial.landed() == ["a", "b"]
        server.kill()
        relay.lead_to(replica.port)
        trial.go_on.release()
        assert runner.wait() == BAD_INPUT
        trial.wait_until_said("lost events of run 01-try-it that it had acknowledged")
        assert trial.landed() == ["a", "b"]
        tip = trial.cli.project.git("rev-parse", f"holdfast/{RUN}")[:12]
        refused = trial.cli("resume", "--yes")
        assert (refused.code, "If the store went back" in refused.err) == (WAITS, True), refused
        trial.wait_until_said(f"`holdfast resume 1 --accept-branch {tip}` compares with git")
        trial.go_on.release()
        resumed = trial.cli("resume", RUN, "--accept-branch", tip, "--yes")
        assert resumed.code == DONE, resumed
        assert trial.landed() == ["a", "b", "c"]
        assert [trial.shown(f"{task}.out") for task in "abc"] == ["a", "b", "c"]
        assert (trial.attempts()["a"], trial.attempts()["b"]) == (1, 1)
        examined = trial.cli("doctor")
        assert examined.code == DONE, examined.out


# ---- a server without room ----


def run_through_a_full_disk(
    trial: StoredTrial, disk: TinyDisk, fill: Callable[[], None], recover: Callable[[], None]
) -> None:
    """Fill the server's disk while agents work, make room when one has gone on meanwhile, and judge the run."""
    runner = trial.start()
    trial.at_work.wait()
    fill()
    trial.go_on.release()
    trial.wait_until_said("trying again until it answers")
    trial.go_on.release()
    trial.at_work.wait()  # the other agent went on, and says that it is done
    assert runner.poll() is None
    disk.free()
    recover()
    assert runner.wait() == DONE
    trial.wait_until_said("answers again after")
    assert sorted(trial.landed()) == ["a", "b", "c"]
    assert [trial.shown(f"{task}.out") for task in "abc"] == ["a", "b", "c"]
    assert trial.attempts() == {"a": 1, "b": 1, "c": 1}


@pytest.fixture
def beside(tmp_path: Path) -> StoredTrial:
    """A repository with two tasks that wait side by side, and one that needs them. Whoever goes on second says so."""
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    second = f"mkdir {tmp_path / 'first'} 2> {tmp_path / 'error'} || {at_work.give}"
    both = [appends(task, at_work.give, go_on.take, second) for task in "ab"]
    return StoredTrial(Cli.of(tmp_path / "p", *both, appends("c", needs=["a", "b"])), at_work, go_on)


@pytest.mark.parametrize("appendfsync", ["always", "everysec"])
def test_a_run_waits_while_the_disk_of_its_redis_is_full(
    beside: StoredTrial, appendfsync: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `always` the server even ends. Agents go on, and when there is room, all that they did lands once."""
    with (
        tiny_disk(tmp_path / "disk", megabytes=16) as disk,
        running(partial(RedisServerProcess.start, folder=disk.root, appendfsync=appendfsync)) as server,
    ):
        monkeypatch.setenv("HOLDFAST_STORE", server.url)
        monkeypatch.setenv("HOLDFAST_ACCEPT_VOLATILE", "1" if appendfsync == "everysec" else "")

        def recover() -> None:
            if appendfsync == "always":
                server.wait()
                server.launch()

        run_through_a_full_disk(beside, disk, disk.fill, recover)


FILL_PAGES = """DO $$ BEGIN FOR n IN 1 .. 100000 LOOP
    BEGIN INSERT INTO holdfast.events VALUES (-1, n, 0, '\\x00'); EXCEPTION WHEN disk_full THEN EXIT; END;
END LOOP; END $$"""
"""Leaves no room in the pages that a table has already."""


def test_a_run_waits_while_the_disk_of_its_postgres_is_full(
    beside: StoredTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same. The server stays up, and refuses what needs room."""
    with postgres("autovacuum=off") as server, tiny_disk(server.folder / "disk", 24) as disk:
        server.make_tablespace("small", disk.root)
        server.sql(f"CREATE DATABASE tiny OWNER {USER} TABLESPACE small")
        monkeypatch.setenv("HOLDFAST_STORE", server.url.replace("/journal", "/tiny"))

        def fill() -> None:
            disk.fill()
            server.sql(FILL_PAGES, "tiny")

        run_through_a_full_disk(beside, disk, fill, lambda: None)


# ---- a runner that was cut off for longer than its lease ----


def events_at(url: str, project: Project) -> list[Event]:
    """Return the history of the run, as the server has it."""
    with closing(open_reader(JournalAddress(url, project.open().id()))) as reader:
        return [stored.event for stored in reader.events(RUN)]


@pytest.mark.parametrize("fault", [NetworkFault.CUT, NetworkFault.STALL])
def test_a_runner_that_lost_its_lease_to_another_clone_has_no_effect(
    trial: StoredTrial, server: ServerProcess, relay: TcpRelay, fault: NetworkFault, tmp_path: Path
) -> None:
    """Nor have its agents, which live on: what they do stays in their workspace."""
    runner = trial.start_command([sys.executable, "-P", "-c", WITH_SHORT_LEASE, "run", "--yes"])
    trial.at_work.wait()
    clone = tmp_path / "clone"
    trial.cli.project.git("clone", "-q", str(trial.cli.here), str(clone))
    there = StoredTrial(Cli(clone), trial.at_work, trial.go_on)
    for words in (("user.name", "Me"), ("user.email", "me@example.org")):
        there.cli.project.git("config", *words)
    there.cli.project.git("branch", "-q", f"holdfast/{RUN}", f"origin/holdfast/{RUN}")
    relay.set(fault)
    eventually(lambda: trial.holder(server.url) is None, "the lease ended")
    trial.go_on.release(3)  # for `b` here and there, and `c` there
    resumed = there.cli("resume", "--yes", HOLDFAST_STORE=server.url)
    assert resumed.code == DONE, resumed
    assert there.landed() == ["a", "b", "c"]
    ended = events_at(server.url, there.cli.project)
    relay.set(NetworkFault.NONE)
    assert runner.wait() == HELD
    trial.wait_until_said("another runner took over run 01-try-it")
    assert events_at(server.url, there.cli.project) == ended
    assert trial.landed() == ["a"]
    assert [there.shown(f"{task}.out") for task in "abc"] == ["a", "b", "c"]
