"""Faults between a runner and the hosts of its fleet: killed, cut off and frozen ones. Two attempts never work at the same time.

The numbers are those of the conformance suite that a local fleet passes as well.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.facts import ExitReason, Presence
from holdfast.errors import LaunchError
from holdfast.fleet.protocol import LaunchKey
from tests.support.fleet_hosts import PROGRAM_HEAD, RemoteSetup, open_fleet_of, remote_setup, until
from tests.support.launches import RUN, alive, ended
from tests.support.repositories import Project
from tests.support.tcp_relay import NetworkFault, TcpRelay
from tests.support.temporal_server import TemporalServer, temporal_port

pytestmark = pytest.mark.temporal
TTL_S = 4.0
SLACK_S = 2.5
"""What a loaded machine and the steps between two looks add to a time limit."""
WITHOUT_LEASE_CHECK = """
import dataclasses
from holdfast.runner.host.host_workspace import HostWorkspace
spec = HostWorkspace.spec
HostWorkspace.spec = lambda self, until: dataclasses.replace(spec(self, until), until=0.0)
"""
WITHOUT_DELIVERY = """
from holdfast.runner.host.worker import HostWorker
HostWorker._accept = lambda self, client, task_token, order: None
"""
MAIN = "\nimport sys; from holdfast.cli.main import program; sys.exit(program())"
WORKS = "echo $$ > up; echo begun; cat gate; echo over"


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[RemoteSetup]:
    """A fleet without hosts, whose leases are short, and the pipes of its agents."""
    with remote_setup(tmp_path, ttl_s=TTL_S) as made:
        for name in ("up", "gate"):
            made.fifo(name)
        yield made


def begin(setup: RemoteSetup, attempt: int = 1) -> tuple[LaunchKey, str]:
    """Launch an agent that works until it is told to end; return its key and its pid."""
    spec = setup.sh(WORKS, attempt)
    asyncio.run(setup.fleet.launch(spec))
    return spec.key, setup.heard("up")


def end(setup: RemoteSetup, key: LaunchKey) -> int:
    """Tell an agent to end and return its exit status once the fleet knows it."""
    (setup.work / "gate").write_text("go\n")
    return asyncio.run(ended(setup.fleet.wait(key))).code


def test_a_worker_that_comes_back_in_time_sees_the_same_process_through(tmp_path: Path) -> None:
    """Row 1: it was killed; the agent goes on meanwhile, and nothing that it prints is lost."""
    with remote_setup(tmp_path, ttl_s=4 * TTL_S) as setup:
        for name in ("up", "gate"):
            setup.fifo(name)
        worker = setup.worker()
        key, agent = begin(setup)
        worker.kill()
        worker.start()
        assert end(setup, key) == 0
        assert setup.fleet.output(key).data == b"begun\ngo\nover\n"
        assert not alive(agent)


def test_the_agent_of_a_dead_worker_ends_before_it_counts_as_lost(setup: RemoteSetup) -> None:
    """Row 2: nobody renews its lease. Its supervisor ends it; a while later the next attempt begins on another host."""
    worker = setup.worker()
    key, agent = begin(setup)
    other = setup.worker()
    worker.kill()
    assert until(lambda: not alive(agent), "the agent ended") < 0.6 * TTL_S + SLACK_S
    assert setup.fleet.inspect(key).presence is Presence.ALIVE
    assert asyncio.run(setup.fleet.wait(key)).presence is Presence.LOST
    second, agent = begin(setup, 2)
    assert alive(agent)
    assert end(setup, second) == 0
    assert "refused" not in other.said


def cut_off(setup: RemoteSetup, program: list[str] | None = None) -> tuple[bool, LaunchKey, TcpRelay]:
    """Cut the link of the host of an agent until that is lost; return whether it still worked when the next one might begin."""
    relay = TcpRelay(temporal_port())
    setup.worker(relay=relay, program=program)
    key, agent = begin(setup)
    relay.set(NetworkFault.CUT)
    assert asyncio.run(setup.fleet.wait(key)).presence is Presence.LOST
    return alive(agent), key, relay


def test_a_host_that_is_cut_off_has_no_agent_when_the_next_attempt_begins(setup: RemoteSetup) -> None:
    """Row 3: and when the link is healed, what it says late is refused, and what it saved late changes nothing here."""
    worked_on, key, relay = cut_off(setup)
    assert not worked_on
    before = sorted(path.name for path in setup.files.iterdir())
    relay.set(NetworkFault.NONE)
    until(lambda: "refused" in setup.workers[0].said, "the late end was refused")
    assert setup.fleet.inspect(key).presence is Presence.LOST
    assert setup.another().inspect(key).presence is Presence.LOST
    assert sorted(path.name for path in setup.files.iterdir()) == before
    relay.close()


def test_without_the_check_of_the_lease_two_attempts_would_overlap(setup: RemoteSetup) -> None:
    """Row 3, with the bug planted that the test above must find: the supervisor never looks whether its lease has lapsed."""
    worked_on, _, relay = cut_off(setup, [*PROGRAM_HEAD, WITHOUT_LEASE_CHECK + MAIN])
    assert worked_on
    relay.set(NetworkFault.NONE)
    until(lambda: "refused" in setup.workers[0].said, "the worker ended its agent")
    relay.close()


def test_a_server_that_crashes_for_a_moment_costs_no_attempt(tmp_path: Path) -> None:
    """Row 4: what it acknowledged is there when it comes back, and the same agent goes on."""
    server = TemporalServer.start()
    with remote_setup(tmp_path, ttl_s=6 * TTL_S, port=server.port) as setup:
        for name in ("up", "gate"):
            setup.fifo(name)
        setup.worker(port=server.port)
        key, agent = begin(setup)
        server.kill()
        server.launch()
        assert alive(agent)
        assert end(setup, key) == 0
    server.stop()


def test_a_server_that_is_away_for_longer_than_the_lease_costs_one_attempt(tmp_path: Path) -> None:
    """Row 5: the agent is ended on its host, and lost once the server is back; exactly one new attempt begins."""
    server = TemporalServer.start()
    with remote_setup(tmp_path, ttl_s=TTL_S, port=server.port) as setup:
        for name in ("up", "gate"):
            setup.fifo(name)
        setup.worker(port=server.port)
        key, agent = begin(setup)
        server.kill()
        until(lambda: not alive(agent), "the supervisor ended the agent")
        assert setup.fleet.inspect(key).presence is Presence.ALIVE
        server.launch()
        assert asyncio.run(setup.fleet.wait(key)).presence is Presence.LOST
        second, _ = begin(setup, 2)
        assert end(setup, second) == 0
    server.stop()


def test_a_launch_whose_start_never_reached_temporal_was_never_launched(setup: RemoteSetup) -> None:
    """Row 6: the runner was killed between writing it down and starting it. The next runner may start it, once."""
    setup.worker()
    key, _ = begin(setup)
    end(setup, key)
    record = setup.folder(key) / "supervisor.json"
    never = LaunchKey(key.run, key.owner, 2, key.step)
    setup.folder(never).mkdir(parents=True)
    (setup.folder(never) / "supervisor.json").write_bytes(record.read_bytes())
    assert setup.fleet.inspect(never).presence is Presence.UNKNOWN
    _, agent = begin(setup, 2)
    assert alive(agent)
    assert end(setup, never) == 0


def test_an_end_that_came_while_nobody_looked_is_found(setup: RemoteSetup) -> None:
    """Row 6: the runner was killed after the launch began; the next one has its output, its end and its files."""
    setup.worker()
    spec = setup.spec("/bin/sh", "-c", "echo made > made.txt; echo said")
    asyncio.run(setup.fleet.launch(spec))
    setup.fleet.close()
    setup.fleet = setup.another()
    assert asyncio.run(ended(setup.fleet.wait(spec.key))).code == 0
    assert setup.fleet.output(spec.key).data == b"said\n"
    assert (setup.files / "made.txt").read_text() == "made\n"


def test_what_the_worker_saved_of_a_lost_agent_is_there(setup: RemoteSetup) -> None:
    """Row 12: files that it had made and what it had printed, however much, up to the last time that its host saved them."""
    worker = setup.worker()
    spec = setup.spec(
        "/bin/sh", "-c", f"seq 200000; echo half > half.txt; echo $$ > {setup.work}/up; cat {setup.work}/gate"
    )
    asyncio.run(setup.fleet.launch(spec))
    setup.heard("up")
    until(lambda: (setup.files / "half.txt").exists(), "the work came back")
    worker.kill()
    assert asyncio.run(setup.fleet.wait(spec.key)).presence is Presence.LOST
    assert setup.fleet.output(spec.key).data == "".join(f"{n}\n" for n in range(1, 200001)).encode()
    assert (setup.files / "half.txt").read_text() == "half\n"


def test_a_launch_is_cancelled_while_it_waits_for_a_slot_of_its_host(setup: RemoteSetup) -> None:
    """Row 7: two runners gave the host more than it takes at once. What was cancelled before it began never begins."""
    setup.worker(slots=1)
    begin(setup)
    other = setup.another()
    waiting = setup.sh("echo ran > ran", 2)
    asyncio.run(other.launch(waiting))
    record = asyncio.run(ended(other.cancel(waiting.key)))
    assert record.reason is ExitReason.CANCELLED
    assert not (setup.work / "ran").exists()
    other.close()


def test_a_cancelled_launch_on_a_host_that_is_cut_off_is_over_only_when_it_is_certain(
    setup: RemoteSetup,
) -> None:
    """Row 7: the host cannot hear of it; its lease ends the agent, and then the cancelling comes back."""
    relay = TcpRelay(temporal_port())
    setup.worker(relay=relay)
    key, agent = begin(setup)
    relay.set(NetworkFault.CUT)
    asyncio.run(setup.fleet.cancel(key))
    assert not alive(agent)
    relay.close()


def test_what_a_frozen_worker_says_after_its_lease_is_refused(setup: RemoteSetup) -> None:
    """Row 8: the supervisor, which was not frozen, has ended the agent."""
    worker = setup.worker()
    key, agent = begin(setup)
    worker.send(signal.SIGSTOP)
    assert asyncio.run(setup.fleet.wait(key)).presence is Presence.LOST
    assert not alive(agent)
    worker.send(signal.SIGCONT)
    until(lambda: "refused" in worker.said, "the late end was refused")


def test_a_launch_that_its_host_never_got_is_noticed(setup: RemoteSetup) -> None:
    """Row 10: Temporal says that it has started, and nobody ever renews its lease: it is lost, and may begin elsewhere."""
    setup.worker(program=[*PROGRAM_HEAD, WITHOUT_DELIVERY + MAIN])
    spec = setup.sh("echo ran > ran")
    asyncio.run(setup.fleet.launch(spec))
    assert asyncio.run(setup.fleet.wait(spec.key)).presence is Presence.LOST
    assert not (setup.work / "ran").exists()


def test_a_workspace_whose_host_died_is_not_used_elsewhere_as_if_it_were_whole(setup: RemoteSetup) -> None:
    """What git ignores was made there alone. The next launch in it waits for that host, and then says that it is gone."""
    worker = setup.worker()
    first = setup.spec("/bin/sh", "-c", "echo made > built.log")
    asyncio.run(setup.finish(first))
    worker.leave()
    setup.worker()
    setup.fleet.close()
    setup.fleet = setup.another()  # one that has not heard of the first worker a moment ago
    with pytest.raises(LaunchError, match="on a worker that is gone") as refused:
        asyncio.run(setup.fleet.launch(setup.spec("/bin/sh", "-c", "cat built.log", attempt=2)))
    assert refused.value.is_lasting


def test_an_agent_that_deletes_its_workspace_loses_only_that(setup: RemoteSetup) -> None:
    """Its end is told, and that its work could not be handed over."""
    setup.worker()
    record = asyncio.run(setup.finish(setup.spec("/bin/sh", "-c", 'rm -rf "$PWD"; echo gone')))
    assert record.code == 1
    assert "could not hand over" in record.error
    assert (setup.files / "a.txt").exists()


def test_a_copy_of_the_repository_knows_no_launch_of_the_original(setup: RemoteSetup) -> None:
    """Whoever copies a repository while agents work has their records twice. The copy must not touch them."""
    setup.worker()
    key, agent = begin(setup)
    there = setup.project.path.with_name("copy")
    shutil.copytree(setup.project.path, there, symlinks=True)
    copy = open_fleet_of(Project(there), setup.url, setup.told.append)
    assert copy.inspect(key).presence is Presence.UNKNOWN
    asyncio.run(copy.sweep(RUN, frozenset()))
    assert alive(agent)
    copy.close()
    assert end(setup, key) == 0


def test_a_launch_waits_for_a_worker_that_fits_and_says_so(setup: RemoteSetup) -> None:
    """Row 11: none is there; one that joins is used."""

    async def join() -> None:
        launching = asyncio.ensure_future(setup.fleet.launch(setup.sh("echo ran > ran")))
        while not setup.told:
            await asyncio.sleep(0.02)
        setup.worker()
        await launching

    asyncio.run(join())
    assert f"T1 waits for a worker with the labels {setup.label}" in setup.told[0]
    asyncio.run(setup.fleet.wait(setup.sh("").key))
    assert (setup.work / "ran").exists()


def test_a_launch_that_waits_for_a_worker_can_be_given_up(setup: RemoteSetup) -> None:
    """Row 11: the run is to stop; nothing is launched then, also if a worker joins later."""

    async def give_up() -> None:
        spec = setup.sh("true")
        launching = asyncio.ensure_future(setup.fleet.launch(spec))
        while not setup.told:
            await asyncio.sleep(0.02)
        setup.fleet.give_up(spec.key)
        await launching
        assert setup.fleet.inspect(spec.key).presence is Presence.UNKNOWN

    asyncio.run(give_up())
