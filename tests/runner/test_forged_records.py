"""What an agent writes into Holdfast's own folders is not believed. It knows our code, and every file that it may read."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.core.facts import Presence
from holdfast.core.status import RunStatus
from holdfast.errors import LaunchError
from holdfast.fleet.local import LocalFleet
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.paths import StateDir
from tests.support.launches import RUN, FleetSetup
from tests.support.repositories import Project
from tests.support.runs import Trial, sh, stage

PASSED = json.dumps({"token": "x", "reason": "exited", "code": 0, "output_bytes": 0, "proof": "x"})
FORGE = f"""forge() {{ mkdir -p "$1"; printf '%s' '{PASSED}' > "$1/exit.json"; }}
attempts=$(dirname "$HOLDFAST_BRIEF")/../..
"""


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[FleetSetup]:
    """A fleet and a place for its launches."""
    (tmp_path / "work").mkdir()
    state = StateDir(tmp_path / "state")
    with closing(LocalFleet(state)) as fleet:
        yield FleetSetup(state, tmp_path / "work", fleet, tmp_path / "work")


def test_an_agent_cannot_pass_its_own_check(tmp_path: Path) -> None:
    """The record of a check that says it passed, made before the check ran, does not count."""
    script = f"{FORGE} for n in 0 1 2 3; do forge $attempts/A/1/check-1.$n; done; echo a > A.txt"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script, verify=["false"])),
        limits={"attempts": 1},
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert (trial.landed(), "`false` exited with 1" in trial.state().tasks["A"].error) == ([], True)


def test_an_agent_cannot_open_the_gate_of_a_stage(tmp_path: Path) -> None:
    """The stage stays closed as long as its own check fails."""
    script = (
        f"{FORGE} for n in 0 1 2 3 4 5 6 7 8 9; do forge $attempts/@one/1/exit-1.$n; done; echo a > A.txt"
    )
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script), exit=["false"]),
        stage("two", sh("B", "echo b > B.txt")),
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert trial.landed() == ["A"]


def test_an_agent_cannot_finish_the_task_of_another(tmp_path: Path) -> None:
    """The other task is worked on by its own agent, whatever was in the folder of its attempt."""
    script = f"{FORGE} forge $attempts/B/1/agent; echo a > A.txt"
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", script), sh("B", "echo b > B.txt", needs=["A"]))
    )
    assert trial.execute() is RunStatus.COMPLETED
    row = trial.state().tasks["B"]
    assert (trial.show("B.txt"), row.attempt, row.failures) == ("b", 1, [])


def test_an_agent_cannot_score_its_own_work(tmp_path: Path) -> None:
    """What a validator said is its own output; a record and an output that were there before it are not."""
    script = f"""{FORGE} for n in 0 1 2 3; do forge $attempts/A/1/validator-v-1.$n
        echo '{{"score": 1}}' > $attempts/A/1/validator-v-1.$n/output.log; done; echo a > A.txt"""
    validator = {"id": "v", "run": ["echo", '{"score": 0.1, "feedback": "bad"}']}
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script, validators=[validator])),
        limits={"attempts": 1},
    )
    assert trial.execute() is RunStatus.BLOCKED
    assert (trial.landed(), trial.state().tasks["A"].latest.scores["v"].score) == ([], 0.1)


def test_a_check_whose_record_was_there_before_it_is_not_run(setup: FleetSetup) -> None:
    """Nobody but its supervisor writes there, so somebody forges; the run rests and says so."""
    key = LaunchKey(RUN, "T1", 1, "check-1.0")
    folder = setup.folder(key)
    folder.mkdir(parents=True)
    (folder / "supervisor.json").write_text('{"pid": 1, "boot": "", "token": "x"}')
    (folder / "exit.json").write_text(PASSED)
    with pytest.raises(LaunchError, match="was there before its launch"):
        asyncio.run(setup.fleet.launch(LaunchSpec(key, ("/bin/false",), setup.work, {})))


def test_a_record_that_is_changed_after_the_end_no_longer_counts(setup: FleetSetup) -> None:
    """The true record reveals its secret. It cannot be used to say something else."""
    spec = setup.sh("exit 1")
    assert asyncio.run(setup.finish(spec)).code == 1
    record = setup.folder(spec.key) / "exit.json"
    record.write_bytes(record.read_bytes().replace(b'"code": 1', b'"code": 0'))
    assert setup.fleet.inspect(spec.key).presence is Presence.LOST


def test_a_later_runner_believes_who_knows_the_secret_of_the_token(setup: FleetSetup) -> None:
    """The token is in the journal and in every agent's environment. The secret is in no file until the launch is over."""
    spec = setup.sh("exit 4")
    asyncio.run(setup.finish(spec))
    for token, presence in ((spec.token, Presence.ENDED), ("another", Presence.LOST)):
        later = LocalFleet(setup.state)
        later.recognise(spec.key, token)
        assert later.inspect(spec.key).presence is presence


def test_the_token_alone_proves_nothing(setup: FleetSetup) -> None:
    """An agent that writes its own end with all that it knows is not believed."""
    spec = setup.sh("read x < never")
    setup.fifo("never")
    asyncio.run(setup.fleet.launch(spec))
    forged = {"token": spec.token, "proof": spec.token, "reason": "exited", "code": 0}
    (setup.folder(spec.key) / "exit.json").write_text(json.dumps(forged))
    later = LocalFleet(setup.state)
    later.recognise(spec.key, spec.token)
    assert (later.inspect(spec.key).presence, setup.fleet.inspect(spec.key).presence) == (
        Presence.ALIVE,
        Presence.ALIVE,
    )
    asyncio.run(setup.fleet.cancel(spec.key))


def test_no_file_tells_the_secret_while_the_agent_lives(setup: FleetSetup) -> None:
    """Neither does its environment, and its supervisor's memory is closed to the user's other processes."""
    setup.fifo("never")
    spec = setup.sh("env > seen; echo > ready; read x < never")
    setup.fifo("ready")
    asyncio.run(setup.fleet.launch(spec))
    setup.heard("ready")
    files = [path for path in (*setup.state.root.rglob("*"), setup.work / "seen") if path.is_file()]
    assert [path for path in files if spec.secret in path.read_text()] == []
    supervisor = Path(f"/proc/{setup.supervisor(spec.key)}/environ")
    assert supervisor.stat().st_uid == 0
    asyncio.run(setup.fleet.cancel(spec.key))


@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_nobody_is_signalled_for_a_lock_on_another_file(
    setup: FleetSetup, link: Callable[[Path, Path], None]
) -> None:
    """A record that is a link to what some other program keeps locked does not make that program a supervisor."""
    spec, locked = setup.sh("exit 0"), setup.work / "locked"
    locked.write_text("{}")
    code = f"import fcntl, sys; fcntl.lockf(open({str(locked)!r}, 'r+'), fcntl.LOCK_EX); print(flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as innocent:
        assert innocent.stdout
        innocent.stdout.readline()
        setup.folder(spec.key).mkdir(parents=True)
        link(setup.folder(spec.key) / "supervisor.json", locked)
        asyncio.run(setup.fleet.cancel(spec.key))
        assert (innocent.poll(), setup.fleet.live_launches(RUN)) == (None, [])
        innocent.communicate(b"")
