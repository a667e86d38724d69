"""Nothing of an agent outlives it: not what it detached, not what ignores signals, not what lost its supervisor."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess

from holdfast.core.facts import ExitReason, Presence
from holdfast.fleet.protocol import LaunchSpec
from tests.support.launches import PATH, RUN, FleetSetup, alive, ended

DETACHED = "setsid sh -c 'echo $$ > up; exec cat gate' >/dev/null 2>&1 & "


def orphan(setup: FleetSetup, script: str = "echo $$ > up; exec cat gate") -> tuple[LaunchSpec, int]:
    """Launch an agent, kill its supervisor, and return the agent that lives on."""
    spec = setup.sh(script)
    asyncio.run(setup.fleet.launch(spec))
    agent = int(setup.heard("up"))
    os.kill(setup.supervisor(spec.key), signal.SIGKILL)
    return spec, agent


def test_cancel_reaches_a_grandchild_in_a_session_of_its_own(setup: FleetSetup) -> None:
    """A tool shell that called setsid is no longer in the agent's group, but still below the supervisor."""
    spec = setup.sh(DETACHED + "echo $$ > agent; exec cat gate")
    asyncio.run(setup.fleet.launch(spec))
    pids = [setup.heard("up"), setup.heard("agent")]
    asyncio.run(setup.fleet.cancel(spec.key))
    assert [alive(pid) for pid in pids] == [False, False]


def test_cancel_kills_what_ignores_sigterm_anywhere_in_the_tree(setup: FleetSetup) -> None:
    """The agent goes at once, its stubborn child after the grace."""
    stubborn = "setsid sh -c 'trap \"\" TERM; echo $$ > up; while :; do read x < gate; done' & "
    spec = setup.sh(stubborn + "echo $$ > agent; exec cat gate", grace_s=0.1)
    asyncio.run(setup.fleet.launch(spec))
    pids = [setup.heard("up"), setup.heard("agent")]
    assert asyncio.run(ended(setup.fleet.cancel(spec.key))).reason is ExitReason.CANCELLED
    assert [alive(pid) for pid in pids] == [False, False]


def test_what_an_agent_left_running_is_ended_and_counted(setup: FleetSetup) -> None:
    """An agent that daemonises a child and exits has exited; its child goes with it."""
    spec = setup.sh(DETACHED + "echo $$ > agent; exit 0")
    asyncio.run(setup.fleet.launch(spec))
    stray = setup.heard("up")
    setup.heard("agent")
    record = asyncio.run(ended(setup.fleet.wait(spec.key)))
    assert (record.reason, record.code, record.strays) == (ExitReason.EXITED, 0, 1)
    assert not alive(stray)


def test_a_child_that_keeps_the_output_open_does_not_delay_the_end(setup: FleetSetup) -> None:
    """The supervisor waits for processes, not for the end of a pipe."""
    record = asyncio.run(setup.finish(setup.sh("cat gate & echo done")))
    assert (record.code, record.output_bytes) == (0, 5)


def test_a_launch_whose_supervisor_was_killed_is_lost(setup: FleetSetup) -> None:
    """The agent lives on, but nobody will ever record its end; launching the key again starts nothing."""
    spec, agent = orphan(setup)
    assert asyncio.run(setup.fleet.wait(spec.key)).presence is Presence.LOST
    asyncio.run(setup.fleet.launch(spec))
    assert setup.fleet.inspect(spec.key).presence is Presence.LOST
    assert alive(agent)
    assert setup.fleet.live_launches(RUN) == []


def test_what_an_agent_starts_belongs_to_its_launch_even_if_it_killed_its_supervisor(
    setup: FleetSetup,
) -> None:
    """So it gives no orders in the user's name. Nobody else's process belongs to a launch."""
    spec, agent = orphan(setup)
    assert setup.fleet.launch_of(agent) == spec.key
    assert setup.fleet.launch_of(os.getpid()) is None


def test_sweep_ends_the_orphans_of_the_run_and_nothing_else(setup: FleetSetup) -> None:
    """A process with another token, and one with none, are never signalled."""
    other_env = {**PATH, "HOLDFAST_ATTEMPT": "somebody-else"}
    others = [subprocess.Popen(["cat"], stdin=subprocess.PIPE, env=env) for env in (other_env, PATH)]
    _, agent = orphan(setup)
    assert asyncio.run(setup.fleet.sweep(RUN, frozenset())) == [agent]
    assert not alive(agent)
    assert asyncio.run(setup.fleet.sweep(RUN, frozenset())) == []
    assert [other.poll() for other in others] == [None, None]
    for other in others:
        other.communicate()


def test_cancelling_a_lost_launch_ends_its_orphans(setup: FleetSetup) -> None:
    """Also one that ignores SIGTERM."""
    spec, agent = orphan(setup, "trap '' TERM; echo $$ > up; while :; do read line < gate; done")
    assert asyncio.run(setup.fleet.cancel(spec.key)).presence is Presence.LOST
    assert not alive(agent)


def test_cancel_wakes_a_stopped_supervisor(setup: FleetSetup) -> None:
    """A supervisor under SIGSTOP would sleep through the order to stop."""
    spec = setup.sh("echo $$ > up; exec cat gate")
    asyncio.run(setup.fleet.launch(spec))
    agent = setup.heard("up")
    os.kill(setup.supervisor(spec.key), signal.SIGSTOP)
    assert asyncio.run(ended(setup.fleet.cancel(spec.key))).reason is ExitReason.CANCELLED
    assert not alive(agent)
