"""Records of another system in a real Redis server: many of them, and the rights of whoever keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import pytest

from holdfast.errors import HoldfastError
from holdfast.journal.records_server import ForeignRecordError, RecordsServer, RecordWrite
from tests.support.redis_server import RedisServerProcess
from tests.support.servers import running

OURS, THEIRS = "repository/01-ours", "repository/01-theirs"


@pytest.fixture(scope="module")
def shared() -> Iterator[RedisServerProcess]:
    """A server for the tests of this module."""
    with running(RedisServerProcess.start) as started:
        yield started


@pytest.fixture
def process(shared: RedisServerProcess) -> RedisServerProcess:
    """The server, empty."""
    with shared.client() as client:
        client.flushall()
    return shared


@pytest.fixture
def server(process: RedisServerProcess) -> Iterator[RecordsServer]:
    """The server as Holdfast sees it."""
    with closing(RecordsServer(process.url)) as opened:
        yield opened


def _write(number: int, owner: str = OURS, how: str = "new") -> RecordWrite:
    content = {"sprintId": str(number), "epicId": "e", "holdfast": {"owner": owner}}
    return RecordWrite(f"sprint:{number}:state", how, json.dumps(content).encode())


def test_a_large_epic_is_written_and_read_whole(server: RecordsServer) -> None:
    """It takes many batches, and many steps of a scan."""
    records = [_write(number) for number in range(3_000)]
    server.put(records, OURS)
    found = dict(server.read("sprint:*:state"))
    assert found == {record.key: record.content.decode() for record in records}


def test_nothing_of_a_large_epic_is_written_if_its_last_record_is_in_the_way(server: RecordsServer) -> None:
    """Half an epic would look like one that lost its sprints."""
    server.put([_write(2_999, THEIRS)], THEIRS)
    with pytest.raises(ForeignRecordError, match="sprint:2999:state"):
        server.put([_write(number) for number in range(3_000)], OURS)
    assert [key for key, _ in server.read("*")] == ["sprint:2999:state"]


def test_a_record_of_somebody_else_is_neither_removed_nor_continued(server: RecordsServer) -> None:
    """A mark counts more than what the run was made from."""
    server.put([_write(1, THEIRS)], THEIRS)
    server.put([_write(1, how="gone")], OURS)
    with pytest.raises(ForeignRecordError):
        server.put([_write(1, how="continued")], OURS)
    assert [key for key, _ in server.read("*")] == ["sprint:1:state"]


def test_files_of_a_sprint_that_goes_on_are_never_written_over(
    process: RedisServerProcess, server: RecordsServer
) -> None:
    """They name no epic, so their sprint says whose they are. If it is gone, too, nobody knows."""
    epic = '{"epicId": "shop", "status": "in_progress"}'
    sprint = '{"sprintId": "a", "epicId": "shop", "status": "completed"}'
    with process.client() as client:
        client.set("sprint:a:files", '{"filesWritten": []}')
        for key, record in (("of:others", ""), ("sprint:a:state", sprint), ("epic:shop:state", epic)):
            client.set(key, record)
            with pytest.raises(ForeignRecordError, match="sprint:a:files"):
                server.put([RecordWrite("sprint:a:files", "new", b"{}")], OURS)
        client.set("epic:shop:state", epic.replace("in_progress", "completed"))
        server.put([RecordWrite("sprint:a:files", "new", b"{}")], OURS)


def test_a_record_of_our_own_is_removed(server: RecordsServer) -> None:
    """And it may be repeated."""
    server.put([_write(1)], OURS)
    for _ in range(2):
        server.put([_write(1, how="gone")], OURS)
    assert list(server.read("*")) == []


def test_a_user_without_the_rights_is_told_which_it_needs(process: RedisServerProcess) -> None:
    """They are others than those of a journal. The password is not shown."""
    with process.client() as client:
        client.execute_command("ACL", "SETUSER", "cfn", "on", ">s3cret-word", "~holdfast:*", "+@all")
    url = process.url.replace("://", "://cfn:s3cret-word@")
    with closing(RecordsServer(url)) as server, pytest.raises(HoldfastError) as caught:
        server.put([_write(1)], OURS)
    assert "~epic:* ~sprint:*" in caught.value.hint
    assert "s3cret-word" not in f"{caught.value} {caught.value.hint} {server.place}"
