"""A launch in a sandbox by Landlock alone: where it writes, how it is stopped, and how its end is told."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.facts import Exit, ExitReason, Presence
from holdfast.errors import LaunchError
from holdfast.fleet.protocol import LaunchSpec, SandboxPolicy
from holdfast.process import procfs
from holdfast.process.sandbox import BY_VARIABLE, LANDLOCK
from tests.support.launches import PATH, RUN, SAVES_AT_STOP, FleetSetup, require_grace
from tests.support.sandboxes import needs_landlock

pytestmark = needs_landlock


@pytest.fixture(autouse=True)
def by_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every sandbox be one by Landlock alone."""
    monkeypatch.setenv(BY_VARIABLE, LANDLOCK)


def inside(setup: FleetSetup, script: str, **more: Any) -> LaunchSpec:
    """Return a launch of a shell script that may open, of the test's own folder, only the working folder."""
    home = setup.work.parent / "home"
    policy = SandboxPolicy(covered=(setup.work.parent,), scratch=(home,), writable=(setup.work,))
    return replace(setup.sh(script, **more), sandbox=policy, env={**PATH, "HOME": str(home)})


def finish(setup: FleetSetup, spec: LaunchSpec) -> tuple[Exit, str]:
    """Launch, wait for the end, and return its record and what was printed."""
    record = asyncio.run(setup.finish(spec))
    return record, setup.fleet.output(spec.key).data.decode()


def test_it_writes_to_its_folder_its_home_and_temporary_files_only(setup: FleetSetup) -> None:
    """The latter two are its own, empty, and gone afterwards; what lies beside them cannot be opened."""
    (setup.work.parent / "secret").write_text("hunter2")
    script = """ls -A ~ $TMPDIR | wc -w; echo x > ~/x && mktemp > /dev/null && echo a > a && echo wrote
        cat ../secret || (echo x > ../x) || (echo x > /tmp/holdfast-test) || echo refused; echo $TMPDIR"""
    record, said = finish(setup, inside(setup, f"exec 2>/dev/null; {script}"))
    *lines, temporary = said.splitlines()
    assert (record.code, lines) == (0, ["2", "wrote", "refused"])
    assert temporary.startswith(str(setup.folder(inside(setup, "").key)))
    assert (Path(temporary).parent.exists(), Path("/tmp/holdfast-test").exists()) == (False, False)
    assert sorted(path.name for path in setup.folder(inside(setup, "").key).iterdir()) == [
        "exit.json",
        "output.log",
        "supervisor.json",
    ]


def test_neither_its_supervisor_nor_its_own_records_can_be_reached(setup: FleetSetup) -> None:
    """So it cannot forge its end, and not kill who would tell it."""
    folder = setup.folder(inside(setup, "").key)
    script = f"kill -9 $PPID; cat /proc/$PPID/environ; (echo x > {folder}/exit.json); cat {folder}/supervisor.json; echo tried"
    record, said = finish(setup, inside(setup, f"exec 2>/dev/null; {script}"))
    assert (record.reason, record.code, said) == (ExitReason.EXITED, 0, "tried\n")


def test_the_exit_status_is_the_programs_own(setup: FleetSetup) -> None:
    """Also one that looks like a signal to a shell: no other program stands between."""
    for attempt, (script, code) in enumerate(
        [("exit 7", 7), ("exit 137", 137), ("kill -KILL $$", -signal.SIGKILL)], start=1
    ):
        assert finish(setup, inside(setup, script, attempt=attempt))[0].code == code


def test_a_stop_reaches_the_agent_at_once(setup: FleetSetup) -> None:
    """The first process is the agent itself, and not a sandbox around it that must be spared."""
    require_grace(setup, inside(setup, SAVES_AT_STOP, grace_s=60.0))


def test_what_an_agent_left_running_is_ended_and_counted(setup: FleetSetup) -> None:
    """Also what cleared its environment and went into a session of its own: its supervisor is above it."""
    record, _ = finish(setup, inside(setup, "env -i setsid cat gate & exit 3"))
    assert (record.reason, record.code, record.strays) == (ExitReason.EXITED, 3, 1)


def test_a_program_that_is_hidden_is_not_started_and_told_with_the_way_to_show_it(setup: FleetSetup) -> None:
    """It is there for the user, so "not executable" alone would be a riddle."""
    program = setup.work.parent / "tool"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    record, _ = finish(setup, replace(inside(setup, ""), argv=(str(program),)))
    assert record.reason is ExitReason.NOT_STARTED
    assert "HOLDFAST_SANDBOX_SHOW" in record.error
    again = replace(inside(setup, "", attempt=2), argv=("/no/such/program",))
    assert "command not found" in finish(setup, again)[0].error


def test_what_a_killed_supervisor_leaves_is_swept_with_its_scratch_folder(setup: FleetSetup) -> None:
    """The next runner ends the processes and removes the folder."""
    spec = inside(setup, "echo there > up; exec cat gate")
    asyncio.run(setup.fleet.launch(spec))
    setup.heard("up")
    supervisor = setup.supervisor(spec.key)
    agents = list(procfs.descendants(supervisor))
    os.kill(supervisor, signal.SIGKILL)
    assert asyncio.run(setup.fleet.wait(spec.key)).presence is Presence.LOST
    assert (setup.folder(spec.key) / "scratch").exists()
    assert set(agents) <= set(asyncio.run(setup.fleet.sweep(RUN, frozenset())))
    assert not (setup.folder(spec.key) / "scratch").exists()


def test_a_link_in_its_private_home_makes_nothing_outside(setup: FleetSetup) -> None:
    """An agent keeps its home from attempt to attempt. What is shown of the user's home is linked there from inside."""
    home, private, outside = (setup.work.parent / name for name in ("home", "private", "outside"))
    for folder in (home / ".tool" / "bin", private, outside):
        folder.mkdir(parents=True)
    (home / ".tool" / "bin" / "word").write_text("shown\n")
    policy = SandboxPolicy(
        covered=(setup.work.parent / "p",),
        scratch=(setup.work.parent, home),
        readable=(home / ".tool" / "bin",),
        writable=(setup.work,),
        replaced=((home, private),),
    )
    spec = replace(inside(setup, "cat ~/.tool/bin/word; echo kept > ~/kept"), sandbox=policy)
    assert finish(setup, spec)[1] == "shown\n"
    assert (private / "kept").read_text() == "kept\n"
    (private / ".tool" / "bin").unlink()
    (private / ".tool").rmdir()
    (private / ".tool").symlink_to(outside)
    again = replace(inside(setup, "cat ~/kept", attempt=2), sandbox=policy)
    assert finish(setup, again)[1] == "kept\n"
    assert list(outside.iterdir()) == []


def test_a_launch_whose_network_must_be_closed_is_refused(setup: FleetSetup) -> None:
    """Nothing is started with more than its policy allows."""
    spec = inside(setup, "echo started > started")
    assert spec.sandbox is not None
    closed = replace(spec, sandbox=replace(spec.sandbox, hosts=()))
    with pytest.raises(LaunchError, match="closes no network"):
        asyncio.run(setup.fleet.launch(closed))
    assert not (setup.work / "started").exists()
