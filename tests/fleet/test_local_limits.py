"""An agent is bounded in time, silence and output, by its supervisor alone."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from holdfast.core.facts import ExitReason
from holdfast.process import procfs
from holdfast.process.launch_order import write_until
from tests.support.launches import FleetSetup, ended


def test_an_agent_that_takes_too_long_is_stopped(setup: FleetSetup) -> None:
    """The time limit holds without any runner watching."""
    record = asyncio.run(setup.finish(setup.sh("exec cat gate", timeout_s=0.2)))
    assert (record.reason, record.code) == (ExitReason.TIMEOUT, -15)


def test_an_agent_that_falls_silent_is_stopped(setup: FleetSetup) -> None:
    """The stall limit ends it long before the time limit would."""
    record = asyncio.run(setup.finish(setup.sh("echo begun; exec cat gate", stall_s=0.2)))
    assert record.reason is ExitReason.STALLED


def test_an_agent_whose_lease_is_not_renewed_is_killed(setup: FleetSetup) -> None:
    """Somebody far away counts on it: it gets no time to save anything, even if it does not want to end."""
    until = time.clock_gettime(time.CLOCK_BOOTTIME) + 0.3
    spec = replace(
        setup.sh("trap '' TERM; echo begun; while :; do read line < gate; done", grace_s=60.0), until=until
    )
    record = asyncio.run(setup.finish(spec))
    assert (record.reason, record.code) == (ExitReason.CANCELLED, -9)
    assert "nobody renewed its lease" in record.error
    assert 0.2 < record.duration_s < 10.0


def test_an_agent_whose_lease_is_renewed_goes_on(setup: FleetSetup) -> None:
    """Also by somebody else than the one that launched it: a file says until when."""
    spec = replace(setup.sh("exit 5"), until=0.001)
    setup.folder(spec.key).mkdir(parents=True)
    write_until(str(setup.folder(spec.key)), time.clock_gettime(time.CLOCK_BOOTTIME) + 60.0)
    record = asyncio.run(setup.finish(spec))
    assert (record.reason, record.code) == (ExitReason.EXITED, 5)


def test_an_agent_that_closed_its_output_is_still_watched(setup: FleetSetup) -> None:
    """The end of the output is not the end of the agent."""
    record = asyncio.run(setup.finish(setup.sh("exec >&- 2>&-; read line < gate", timeout_s=0.2)))
    assert record.reason is ExitReason.TIMEOUT


def test_the_last_words_after_sigterm_are_kept(setup: FleetSetup) -> None:
    """Output is read until the tree is gone, not until it was asked to stop."""
    spec = setup.sh("trap 'echo bye; exit 9' TERM; echo > up; while :; do read line < gate; done")
    asyncio.run(setup.fleet.launch(spec))
    setup.heard("up")
    assert asyncio.run(ended(setup.fleet.cancel(spec.key))).code == 9
    assert setup.fleet.output(spec.key).data.endswith(b"bye\n")


def test_endless_output_stays_within_its_bound_on_disk(setup: FleetSetup) -> None:
    """All of it is counted, the latest is kept, and offsets go on meaning the same byte."""
    bound = 1024 * 1024
    spec = setup.sh("head -c 40000000 /dev/zero; echo the end", log_bytes_max=bound)
    record = asyncio.run(setup.finish(spec))
    assert record.output_bytes == 40_000_008
    kept = setup.fleet.output(spec.key).data
    assert bound // 4 < len(kept) <= bound
    assert sum(file.stat().st_size for file in setup.folder(spec.key).glob("output.log*")) <= bound
    assert setup.fleet.output(spec.key, 40_000_000).data == b"the end\n"


def test_a_supervisor_that_was_stopped_keeps_its_time_limit(setup: FleetSetup) -> None:
    """Any program of this user can stop it by a signal. Whoever waits for it lets it go on."""

    async def play() -> ExitReason:
        spec = setup.sh("exec cat gate", timeout_s=0.5)
        await setup.fleet.launch(spec)
        os.kill(setup.supervisor(spec.key), signal.SIGSTOP)
        return (await ended(setup.fleet.wait(spec.key))).reason

    assert asyncio.run(play()) is ExitReason.TIMEOUT


def test_a_fork_server_that_was_stopped_starts_the_next_agent(setup: FleetSetup) -> None:
    """It is let go on; nobody waits for it for ever."""

    async def play() -> ExitReason:
        await setup.finish(setup.sh("true"))
        children = [entry for entry in procfs.descendants(os.getpid()).values() if entry.ppid == os.getpid()]
        (fork_server,) = [entry.pid for entry in children if b"fork_server_main" in _command_line(entry.pid)]
        os.kill(fork_server, signal.SIGSTOP)
        return (await setup.finish(setup.sh("true", attempt=2))).reason

    assert asyncio.run(play()) is ExitReason.EXITED


def _command_line(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()
