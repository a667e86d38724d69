"""What every fleet promises, checked with real processes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.core.facts import ExitReason, Presence
from holdfast.errors import LaunchError
from holdfast.fleet import open_fleet
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import LaunchKey
from holdfast.paths import StateDir
from tests.support.fleet_hosts import remote_setup, shared_worker
from tests.support.launches import RUN, FleetSetup, alive, ended


@contextmanager
def local(tmp_path: Path) -> Iterator[FleetSetup]:
    """Launches on this machine, in an empty state folder."""
    (tmp_path / "work").mkdir()
    state = StateDir(tmp_path / "state")
    made = FleetSetup(state, tmp_path / "work", LocalFleet(state), tmp_path / "work")
    yield made
    asyncio.run(made.fleet.sweep(RUN, frozenset()))
    made.fleet.close()


@contextmanager
def temporal(tmp_path: Path) -> Iterator[FleetSetup]:
    """Launches that Temporal carries to a worker, which is a process with a home of its own."""
    with remote_setup(tmp_path, ttl_s=60.0, label=shared_worker().labels) as made:
        yield made
        asyncio.run(made.fleet.sweep(RUN, frozenset()))


@pytest.fixture(
    params=[local, pytest.param(temporal, marks=pytest.mark.temporal)], ids=lambda fleet: fleet.__name__
)
def setup(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[FleetSetup]:
    """A fleet, and a workspace."""
    with request.param(tmp_path) as made:
        yield made


@pytest.fixture
def local_setup(tmp_path: Path) -> Iterator[FleetSetup]:
    """A fleet of this machine, for what a runner that sends a workspace elsewhere is told before the launch."""
    with local(tmp_path) as made:
        yield made


def test_a_launch_ends_with_its_exit_code(setup: FleetSetup) -> None:
    """The exit status, token and size of the output are recorded."""
    record = asyncio.run(setup.finish(setup.sh("echo hello; exit 3")))
    assert (record.reason, record.code, record.output_bytes) == (ExitReason.EXITED, 3, 6)
    assert record.token == setup.sh("").token


def test_death_by_a_signal_is_a_negative_code(setup: FleetSetup) -> None:
    """An agent killed by the kernel or a user is told apart from one that exited."""
    assert asyncio.run(setup.finish(setup.sh("kill -9 $$"))).code == -9


def test_output_is_kept_byte_for_byte_and_read_from_any_offset(setup: FleetSetup) -> None:
    """Both outputs are in the log in their order, bytes that are no text included."""
    spec = setup.sh(r"printf 'a\000\377'; printf err >&2")
    asyncio.run(setup.finish(spec))
    assert setup.fleet.output(spec.key).data == b"a\x00\xfferr"
    assert setup.fleet.output(spec.key, 3).data == b"err"
    assert setup.fleet.output(spec.key, 99).data == b""


def test_what_a_launch_holds_stays_open_until_it_is_over(setup: FleetSetup) -> None:
    """A lock handed along lives as long as what it guards, without the process itself getting at it."""
    setup.fifo("gate")
    kept, handed = os.pipe()
    spec = replace(setup.sh("ls -l /proc/self/fd; read _ < gate"), holds=(handed,))
    asyncio.run(setup.fleet.launch(spec))
    os.close(handed)
    os.set_blocking(kept, False)
    with pytest.raises(BlockingIOError):
        os.read(kept, 1)
    (setup.work / "gate").write_text("go\n")
    asyncio.run(ended(setup.fleet.wait(spec.key)))
    assert os.read(kept, 1) == b""
    assert f"pipe:[{os.fstat(kept).st_ino}]" not in setup.fleet.output(spec.key).data.decode()
    os.close(kept)


def test_the_input_file_is_delivered(setup: FleetSetup) -> None:
    """An agent that takes its brief on standard input gets it."""
    (setup.work / "brief").write_text("do this")
    spec = replace(setup.sh("cat"), stdin=setup.work / "brief")
    asyncio.run(setup.finish(spec))
    assert setup.fleet.output(spec.key).data == b"do this"


def test_without_an_input_file_the_input_is_empty(setup: FleetSetup) -> None:
    """An agent that asks a question gets no answer instead of waiting for one."""
    assert asyncio.run(setup.finish(setup.sh("cat; exit 4"))).code == 4


def test_the_environment_is_the_one_given_and_the_token(setup: FleetSetup) -> None:
    """Nothing of the runner's own environment reaches an agent, its secrets least of all."""
    spec = replace(setup.spec("/usr/bin/env"), env={"A": "1"})
    asyncio.run(setup.finish(spec))
    assert sorted(setup.fleet.output(spec.key).data.decode().split()) == [
        "A=1",
        f"HOLDFAST_ATTEMPT={spec.token}",
    ]


def test_an_agent_inherits_no_file_of_the_runner(setup: FleetSetup) -> None:
    """Not the lease, not the journal: also a descriptor that is marked inheritable stays behind."""
    leak = os.open(setup.work, os.O_RDONLY)
    os.set_inheritable(leak, True)
    spec = setup.sh("exec ls /proc/self/fd")  # ls itself opens the fourth
    asyncio.run(setup.finish(spec))
    os.close(leak)
    assert setup.fleet.output(spec.key).data == b"0\n1\n2\n3\n"


def test_a_key_that_ended_never_starts_again(setup: FleetSetup) -> None:
    """Launching it again gives the first record."""
    spec = setup.sh("echo once >> ran; exit 5")
    assert asyncio.run(setup.finish(spec)) == asyncio.run(setup.finish(spec))
    assert (setup.work / "ran").read_text() == "once\n"


def test_many_launches_of_one_key_at_once_start_one_process(setup: FleetSetup) -> None:
    """Also when two runners believe that the launch is theirs."""

    async def both() -> None:
        other = setup.another()
        await asyncio.gather(*(fleet.launch(spec) for fleet in (setup.fleet, other) for _ in range(4)))
        await setup.fleet.wait(spec.key)
        other.close()

    spec = setup.sh("echo once >> ran")
    asyncio.run(both())
    assert (setup.work / "ran").read_text() == "once\n"


def test_another_fleet_finds_a_live_launch(setup: FleetSetup) -> None:
    """It needs nothing of the object that made it, but for the token that makes the end of the launch count."""
    setup.fifo("up")
    setup.fifo("gate")
    spec = setup.sh("echo $$ > up; cat gate; exit 6")
    asyncio.run(setup.fleet.launch(spec))
    setup.heard("up")
    other = setup.another()
    other.recognise(spec.key, spec.token)
    assert other.inspect(spec.key).presence is Presence.ALIVE
    assert other.live_launches(RUN) == [spec.key]
    (setup.work / "gate").write_text("go")
    assert asyncio.run(ended(other.wait(spec.key))).code == 6


def test_a_key_that_was_never_launched_is_unknown(setup: FleetSetup) -> None:
    """Waiting for it, cancelling it and reading its output come back at once."""
    key = LaunchKey(RUN, "T9", 1, "agent")
    seen = [
        setup.fleet.inspect(key),
        asyncio.run(setup.fleet.wait(key)),
        asyncio.run(setup.fleet.cancel(key)),
    ]
    assert {sighting.presence for sighting in seen} == {Presence.UNKNOWN}
    assert setup.fleet.output(key).data == b""
    assert setup.fleet.live_launches(RUN) == []


def test_cancel_stops_the_agent(setup: FleetSetup) -> None:
    """The record says that it was cancelled, and the process is gone."""
    setup.fifo("up")
    setup.fifo("gate")
    spec = setup.sh("echo $$ > up; exec cat gate")
    asyncio.run(setup.fleet.launch(spec))
    agent = setup.heard("up")
    record = asyncio.run(ended(setup.fleet.cancel(spec.key)))
    assert (record.reason, record.code) == (ExitReason.CANCELLED, -15)
    assert not alive(agent)


def test_cancelling_what_ended_changes_nothing(setup: FleetSetup) -> None:
    """The first record stands."""
    spec = setup.sh("exit 7")
    record = asyncio.run(setup.finish(spec))
    assert asyncio.run(ended(setup.fleet.cancel(spec.key))) == record


def test_sweep_spares_the_launches_to_keep(setup: FleetSetup) -> None:
    """Everything else of the run is ended, and named by its pid."""
    for name in ("up1", "up2", "gate"):
        setup.fifo(name)
    keep, drop = (setup.sh(f"echo $$ > up{n}; exec cat gate", attempt=n) for n in (1, 2))
    asyncio.run(setup.fleet.launch(keep))
    asyncio.run(setup.fleet.launch(drop))
    kept, dropped = setup.heard("up1"), setup.heard("up2")
    here = [int(dropped)] if type(setup.fleet) is LocalFleet else []
    assert asyncio.run(setup.fleet.sweep(RUN, frozenset([keep.key]))) == here
    assert (alive(kept), alive(dropped)) == (True, False)


@pytest.mark.parametrize(
    ("argv", "error"),
    [
        (("no-such-agent",), "command not found: no-such-agent"),
        (("./no-such-agent",), "command not found: ./no-such-agent"),
        (("./plain",), "./plain is not executable"),
        (("./empty",), "./empty is no program and has no #! line"),
        (("./lost",), "./lost names an interpreter that is not there (see its first line)"),
    ],
)
def test_a_command_that_cannot_run_ends_and_says_why(setup: FleetSetup, argv: tuple[str], error: str) -> None:
    """It is no failure of the fleet, and the message is for the one who wrote the command."""
    for name, text, mode in (("plain", "", 0o600), ("empty", "", 0o700), ("lost", "#!/no/such\n", 0o700)):
        (setup.files / name).write_text(text)
        (setup.files / name).chmod(mode)
    record = asyncio.run(setup.finish(setup.spec(*argv)))
    assert (record.reason, record.code, record.error) == (ExitReason.NOT_STARTED, 127, error)


def test_a_missing_workspace_is_named(local_setup: FleetSetup) -> None:
    """The record says which folder could not be entered."""
    spec = replace(local_setup.sh("true"), cwd=local_setup.work / "gone")
    record = asyncio.run(local_setup.finish(spec))
    assert record.reason is ExitReason.NOT_STARTED
    assert record.error == f"workspace {local_setup.work}/gone cannot be entered: No such file or directory"


def test_a_missing_input_file_is_named(local_setup: FleetSetup) -> None:
    """The record says which file could not be read."""
    record = asyncio.run(local_setup.finish(replace(local_setup.sh("true"), stdin=local_setup.work / "gone")))
    assert record.error == f"input {local_setup.work}/gone cannot be read: No such file or directory"


def test_a_large_order_arrives_whole(setup: FleetSetup) -> None:
    """A brief passed as an argument, next to a large environment, fills more than any socket's buffer."""
    env = {f"V{n}": "x" * 100_000 for n in range(10)}
    spec = replace(
        setup.spec("/bin/sh", "-c", 'printf "$1" | wc -c', "sh", "y" * 120_000),
        env={**env, "PATH": "/bin:/usr/bin"},
    )
    asyncio.run(setup.finish(spec))
    assert setup.fleet.output(spec.key).data.strip() == b"120000"


@pytest.mark.parametrize("owner", ["..", "a/b", ""])
def test_a_key_cannot_leave_the_state_folder(setup: FleetSetup, owner: str) -> None:
    """Names become folders, so a name that is a path is refused."""
    with pytest.raises(LaunchError, match="cannot name a launch"):
        setup.fleet.inspect(LaunchKey(RUN, owner, 1, "agent"))


def test_a_url_names_the_fleet_that_is_opened(local_setup: FleetSetup) -> None:
    """The state folder's own URL opens this machine's fleet; it finds what another one launched there."""
    spec = local_setup.sh("exit 3")
    asyncio.run(local_setup.finish(spec))
    opened = open_fleet(local_setup.state.fleet)
    opened.recognise(spec.key, spec.token)
    assert opened.inspect(spec.key) == local_setup.fleet.inspect(spec.key)
    opened.close()


def test_a_url_of_no_known_fleet_is_refused() -> None:
    """The message says which there are."""
    with pytest.raises(LaunchError, match="no fleet for 'cloud:x'") as refused:
        open_fleet("cloud:x")
    assert "local" in refused.value.hint
