"""CFN Loop's records of a run in a real Redis server: kept from the run, alive while it is, nobody else's touched."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Cli, eventually, fails, writes
from tests.support.redis_server import RedisServerProcess
from tests.support.runs import Fifo
from tests.support.servers import running

DONE, BAD_INPUT = 0, 2
RUN = "01-try-it"
EPIC = f"epic:{RUN}:state"
AGENT = "agent:b-coder-1:state"
CHECKPOINT = "agent:b-coder-1:checkpoint"


@pytest.fixture
def server() -> Iterator[RedisServerProcess]:
    """A server that a test may kill."""
    with running(RedisServerProcess.start) as started:
        yield started


def _records(server: RedisServerProcess) -> dict[str, Any]:
    """Return all keys with what they hold. A journal that is in the same server is left out."""
    with server.client() as client:
        names = [key.decode() for key in client.scan_iter() if not key.startswith(b"holdfast:")]
        return {name: json.loads(client.get(name) or b"null") for name in sorted(names)}


def _put(server: RedisServerProcess, key: str, record: object) -> None:
    with server.client() as client:
        client.set(key, json.dumps(record))


def _stopped(path: Path, *tasks: dict[str, Any], **plan: Any) -> Cli:
    """Return a project with a run that rests: its only other task failed."""
    cli = Cli.of(path, *tasks, fails("z"), limits={"attempts": 1}, **plan)
    assert cli("run", "--yes").code == 1
    return cli


def _failures(cli: Cli) -> list[str]:
    events = [line["event"] for line in cli.json("inspect")["events"]]
    return [event["error"] for event in events if event["kind"] == "MirrorFailed"]


class _AtWork:
    """A run whose task `a` has landed and whose task `b` works until it may go on."""

    def __init__(self, folder: Path, url: str) -> None:
        self.at_work, self.go_on = Fifo(folder / "at-work"), Fifo(folder / "go-on")
        script = f"{self.at_work.give}; {self.go_on.take}; echo b > b.txt"
        waits = {"id": "b", "title": "Second", "run": ["sh", "-c", script], "needs": ["a"]}
        self.cli = Cli.of(folder / "p", writes("a"), waits)
        self.runner = self.cli.start("run", "--yes")
        self.at_work.wait()
        assert self.cli("mirror", "cfn", "--to", url).code == DONE


def test_a_resting_run_has_every_record_under_its_documented_key(
    server: RedisServerProcess, tmp_path: Path
) -> None:
    """Whoever asks for them finds them there: the epic, its sprints and their files, and none expires."""
    cli = _stopped(tmp_path / "p", writes("a"))
    done = cli("mirror", "cfn", "--to", server.url)
    assert (done.code, done.err) == (DONE, "")
    found = _records(server)
    assert list(found) == [EPIC, *(f"sprint:{name}:{what}" for name in "az" for what in ("files", "state"))]
    epic = found[EPIC]
    assert (epic["epicId"], epic["totalSprints"], epic["completedSprints"]) == (RUN, 2, 1)
    assert epic["sprints"][0] == {"id": "a", "status": "completed", "progress": 100}
    assert found["sprint:a:files"]["filesWritten"] == [
        {"path": "a.txt", "completed": True, "confidence": None}
    ]
    assert found["sprint:a:state"]["filesWritten"] == found["sprint:a:files"]["filesWritten"]
    with server.client() as client:
        assert {client.ttl(key) for key in found} == {-1}


def test_an_agent_at_work_has_a_state_and_a_checkpoint_and_a_heartbeat_that_goes_on(
    server: RedisServerProcess, tmp_path: Path
) -> None:
    """Nothing happens in the run meanwhile: readers would take an old heartbeat for a crash."""
    trial = _AtWork(tmp_path, server.url)
    eventually(lambda: AGENT in _records(server), "the agent has a record")
    first = _records(server)
    assert first[AGENT]["agentId"] == first[CHECKPOINT]["agentId"] == "b-coder-1"
    assert (first[AGENT]["sprintId"], first[AGENT]["currentTask"]) == ("b", "Second")
    assert first["sprint:b:state"]["phase"] == "Loop 3 - Implementation"
    for key, field in ((AGENT, "lastHeartbeat"), (CHECKPOINT, "timestamp"), (EPIC, "lastCheckpoint")):
        eventually(
            lambda key=key, field=field: _records(server)[key][field] > first[key][field],  # type: ignore[misc]
            f"{field} goes on",
        )
    trial.go_on.release()
    assert trial.runner.wait() == DONE
    last = _records(server)
    assert last[EPIC]["status"] == "completed"
    assert [key for key in last if key.startswith("agent:")] == []


def test_a_killed_run_leaves_what_its_agent_did_with_the_last_heartbeat(
    server: RedisServerProcess, tmp_path: Path
) -> None:
    """That is how a crash is found; the run that continues brings the records up to date."""
    trial = _AtWork(tmp_path, server.url)
    eventually(lambda: AGENT in _records(server), "the agent has a record")
    os.killpg(trial.runner.pid, signal.SIGKILL)
    trial.runner.wait()
    left = _records(server)
    assert (left[EPIC]["status"], left["sprint:b:state"]["status"]) == ("in_progress", "in_progress")
    assert left[AGENT]["lastHeartbeat"]
    with server.client() as client:
        assert {client.ttl(key) for key in left} == {-1}
    trial.go_on.release()
    assert trial.cli("resume", "--yes").code == DONE
    assert _records(server)[EPIC]["completedSprints"] == 2


def test_a_published_interface_is_a_signal_with_its_contract(
    server: RedisServerProcess, tmp_path: Path
) -> None:
    """Sprints of other tools wait for this key."""
    script = "holdfast report interface AuthAPI 'POST /auth/login'; echo a > a.txt"
    cli = _stopped(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    assert cli("mirror", "cfn", "--to", server.url).code == DONE
    signal_of_a = _records(server)["interface:a:ready"]
    assert signal_of_a["ready"] is True
    assert signal_of_a["interfaces"] == [{"name": "AuthAPI", "contract": "POST /auth/login"}]
    [published] = [
        line["at"] for line in cli.json("inspect")["events"] if line["event"]["kind"] == "InterfacePublished"
    ]
    assert signal_of_a["publishedAt"][:19] == published[:19]


def test_the_records_of_a_sprint_with_very_many_files_stay_below_a_megabyte(
    server: RedisServerProcess, tmp_path: Path
) -> None:
    """What is cut is named, and the newest stays."""
    long = "x" * 200
    folder = "/".join([long] * 3)  # the paths make a record large, with fewer files
    script = f"mkdir -p {folder}; for n in $(seq 1900); do echo $n > {folder}/{long}$n; done"
    cli = _stopped(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    assert cli("mirror", "cfn", "--to", server.url).code == DONE
    with server.client() as client:
        sizes = {key: client.strlen(key) for key in client.keys("sprint:a:*")}
    assert len(sizes) == 2
    assert sum(sizes.values()) < 1_000_000
    found = _records(server)["sprint:a:files"]
    assert found["truncated"] == ["filesWritten"]
    assert len(found["filesWritten"]) > 100


def test_records_of_somebody_elses_work_are_never_written_over(
    server: RedisServerProcess, tmp_path: Path
) -> None:
    """Names of sprints are short, and one server serves many. Nothing at all is written then."""
    theirs = {"sprintId": "a", "epicId": "shop", "status": "in_progress"}
    _put(server, "sprint:a:state", theirs)
    cli = _stopped(tmp_path / "p", writes("a"))
    done = cli("mirror", "cfn", "--to", server.url)
    assert done.code == BAD_INPUT
    assert "sprint:a:state" in done.err
    assert _records(server) == {"sprint:a:state": theirs}


def test_records_of_an_epic_that_is_over_make_room(server: RedisServerProcess, tmp_path: Path) -> None:
    """Otherwise one server could serve a name only once. The files of a sprint name no epic, and go with their sprint."""
    _put(server, "epic:shop:state", {"epicId": "shop", "status": "completed"})
    _put(server, "sprint:a:state", {"sprintId": "a", "epicId": "shop", "status": "completed"})
    _put(server, "sprint:a:files", {"filesWritten": [{"path": "shop.ts", "completed": True}]})
    cli = _stopped(tmp_path / "p", writes("a"))
    assert cli("mirror", "cfn", "--to", server.url).code == DONE
    found = _records(server)
    assert found["sprint:a:state"]["epicId"] == RUN
    assert found["sprint:a:files"]["filesWritten"] == [
        {"path": "a.txt", "completed": True, "confidence": None}
    ]


def test_two_repositories_with_a_run_of_the_same_name_do_not_mix(
    server: RedisServerProcess, tmp_path: Path
) -> None:
    """The second is told; in another database it has its place."""
    first = _stopped(tmp_path / "p", writes("a"))
    second = _stopped(tmp_path / "q", writes("a"))
    second.project.git("config", "holdfast.repository", "other")
    assert first("mirror", "cfn", "--to", server.url).code == DONE
    assert second("mirror", "cfn", "--to", server.url).code == BAD_INPUT
    assert second("mirror", "cfn", "--to", server.url.replace("/0", "/1")).code == DONE


def test_a_server_that_is_away_does_not_disturb_the_run_and_is_told_once(
    server: RedisServerProcess, tmp_path: Path
) -> None:
    """The records are brought up to date when it is back."""
    trial = _AtWork(tmp_path, server.url)
    eventually(lambda: AGENT in _records(server), "the agent has a record")
    server.kill()
    eventually(lambda: len(_failures(trial.cli)) == 1, "the outage is told")
    server.launch()
    eventually(lambda: AGENT in _records(server), "the server has its records again")
    server.kill()
    trial.go_on.release()
    assert trial.runner.wait() == DONE
    assert len(_failures(trial.cli)) == 1
    server.launch()
    assert "wrote 5 records once" in trial.cli("mirror", "cfn", "--to", server.url).out
    assert _records(server)[EPIC]["status"] == "completed"


def test_with_a_store_in_redis_its_server_has_the_records_and_no_password_is_written_down(
    tmp_path: Path,
) -> None:
    """The password of the store serves; it is in no file, no event and on no screen."""
    server = RedisServerProcess.start(requirepass="s3cret-word")
    try:
        store = server.url.replace("://", "://:s3cret-word@")
        cli = Cli.of(tmp_path / "p", writes("a"))
        done = cli("run", "--yes", "--mirror", "cfn", HOLDFAST_STORE=store)
        assert done.code == DONE
        assert _records(server)[EPIC]["status"] == "completed"
        told = cli("inspect", "--json", HOLDFAST_STORE=store)
        assert f'"{server.url}"' in told.out.replace(" ", "")
        assert "s3cret-word" not in done.out + done.err + told.out + told.err
        files = [path for path in (cli.here / ".holdfast").rglob("*") if path.is_file()]
        assert files
        assert [path for path in files if b"s3cret-word" in path.read_bytes()] == []
    finally:
        server.stop()


def test_the_password_of_another_server_comes_from_the_environment(tmp_path: Path) -> None:
    """In the address it would have to be written down for the next runner."""
    server = RedisServerProcess.start(requirepass="s3cret-word")
    try:
        cli = _stopped(tmp_path / "p", writes("a"))
        refused = cli("mirror", "cfn", "--to", server.url.replace("://", "://:s3cret-word@"))
        assert refused.code == BAD_INPUT
        assert "HOLDFAST_CFN_PASSWORD" in refused.err
        assert "s3cret-word" not in refused.err
        assert cli("mirror", "cfn", "--to", server.url).code != DONE
        done = cli("mirror", "cfn", "--to", server.url, HOLDFAST_CFN_PASSWORD="s3cret-word")
        assert done.code == DONE
        assert EPIC in _records(server)
    finally:
        server.stop()


def test_only_a_system_with_records_is_kept_in_a_server(server: RedisServerProcess, tmp_path: Path) -> None:
    """The others have files; and a server of another kind has no such records."""
    cli = _stopped(tmp_path / "p", writes("a"))
    assert cli("mirror", "execute", "--to", server.url).code == BAD_INPUT
    assert cli("mirror", "cfn", "--to", "http://localhost/").code == BAD_INPUT
    assert _records(server) == {}
