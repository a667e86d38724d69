"""Journals in servers whose records somebody else changed: every one is refused with the way out, and none is lost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
import redis

from holdfast.core import events as ev
from holdfast.core.projection import TaskRow
from holdfast.errors import JournalError
from holdfast.journal import open_journal, open_reader
from holdfast.journal.address import JournalAddress
from holdfast.journal.lease import Holder
from holdfast.journal.maintenance import back_up, diagnose, open_draft, put_in_place
from holdfast.journal.protocol import Journal
from tests.contract.journals import RUN, begin, run_row
from tests.support.postgres_server import PostgresServer, postgres
from tests.support.redis_server import RedisServerProcess
from tests.support.servers import running

REPOSITORY = "5" * 40
BASE = f"holdfast:{{{REPOSITORY}}}:"
HASH, TASKS, EVENTS = f"{BASE}run:{RUN}", f"{BASE}tasks:{RUN}", f"{BASE}events:{RUN}"
DEEP = b"[" * 100_000
STAGE = '[{"kind":"StageOpened","stage":"s"}]'

Forgery = Callable[[redis.Redis], object]


def _row(client: redis.Redis, **changes: object) -> None:
    row = json.loads(client.hget(HASH, "row") or b"{}")
    client.hset(HASH, "row", json.dumps({**row, **changes}))


def _retyped(client: redis.Redis, key: str) -> None:
    client.delete(key)
    client.lpush(key, "x")


def _twin(client: redis.Redis) -> None:
    client.copy(HASH, f"{BASE}run:02-twin")
    client.zadd(f"{BASE}runs", {"02-twin": 2})


IN_REDIS: dict[str, Forgery] = {
    "a run without its record": lambda client: client.delete(HASH),
    "a record of another type": lambda client: _retyped(client, HASH),
    "tasks of another type": lambda client: _retyped(client, TASKS),
    "runs of another type": lambda client: _retyped(client, f"{BASE}runs"),
    "a format of another type": lambda client: _retyped(client, f"{BASE}format"),
    "a format that is no number": lambda client: client.set(f"{BASE}format", b"\xff"),
    "a format of very many digits": lambda client: client.set(f"{BASE}format", "9" * 5000),
    "no plan": lambda client: client.delete(f"{BASE}plans"),
    "no name of a plan": lambda client: client.hdel(HASH, "plan"),
    "a name of a plan that is no text": lambda client: client.hset(HASH, "plan", b"\xff"),
    "a number that is none": lambda client: client.hset(HASH, "last_seq", b"\xff"),
    "a last event that is too early": lambda client: client.hset(HASH, "last_seq", "2"),
    "a time that is no number": lambda client: client.hset(HASH, "started_at", "x"),
    "a time that no clock shows": lambda client: client.hset(HASH, "started_at", "nan"),
    "a time that no calendar has": lambda client: client.hset(HASH, "updated_at", "1e300"),
    "a row that is no text": lambda client: client.hset(HASH, "row", b'{"run":"\xff"}'),
    "a row that is nested too deep": lambda client: client.hset(HASH, "row", b'{"x":' + DEEP),
    "a row of another run": lambda client: _row(client, run="02-x", branch="refs/heads/holdfast/02-x"),
    "a row of a run that is a path": lambda client: _row(client, run="../x"),
    "the same run twice": _twin,
    "a run whose id is no text": lambda client: client.zadd(f"{BASE}runs", {b"\xff": 2}),
    "a task without a place": lambda client: client.hset(TASKS, "x", b"{}"),
    "a task that is not in the plan": lambda client: client.hset(TASKS, "99", b'{"id":"zz"}'),
    "a task that is there twice": lambda client: client.hset(TASKS, "99", b'{"id":"a"}'),
    "a task that is no text": lambda client: client.hset(TASKS, "0", b'{"id":"\xff"}'),
    "no events": lambda client: client.delete(EVENTS),
    "no first event": lambda client: client.xdel(EVENTS, "1-0"),
    "an event that is missing": lambda client: client.xdel(EVENTS, "3-0"),
    "no last event": lambda client: client.xdel(EVENTS, "4-0"),
    "an event that is there twice": lambda client: client.xadd(EVENTS, {"at": "1", "body": STAGE}, "4-1"),
    "an event after the last": lambda client: client.xadd(EVENTS, {"at": "1", "body": STAGE}, "5-0"),
    "an event without a body": lambda client: client.xadd(EVENTS, {"at": "1"}, "5-0"),
    "an event without a time": lambda client: client.xadd(EVENTS, {"body": STAGE}, "5-0"),
    "an event that is no text": lambda client: client.xadd(EVENTS, {"at": "1", "body": b'["\xff"]'}, "5-0"),
}


@pytest.fixture(scope="module")
def redis_server() -> Iterator[RedisServerProcess]:
    """A server for all forgeries."""
    with running(RedisServerProcess.start) as started:
        yield started


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[PostgresServer]:
    """A server for all forgeries."""
    with postgres() as started:
        yield started


def _filled(journal: Journal) -> None:
    """Make a run with four events, each in an append of its own."""
    with closing(journal):
        epoch = begin(journal)
        for number in range(3):
            journal.append(
                RUN, epoch, [ev.StageOpened(stage="s")], run_row(), [TaskRow(id="a")], 101.0 + number
            )


def _read_all(address: JournalAddress) -> None:
    with closing(open_reader(address)) as journal:
        for listing in journal.runs():
            journal.load(listing.row.run)
            journal.progress([listing])
            list(journal.events(listing.row.run))


def _replace(address: JournalAddress) -> None:
    """Read all that can be read, then make a new journal beside it."""
    with suppress(JournalError):
        _read_all(address)
    with closing(open_draft(address)) as draft:
        begin(draft)


def _require_way_out(address: JournalAddress, folder: Path) -> None:
    """The damage is said, no reader ends with another error, and the journal can be replaced by a new one."""
    assert diagnose(address)
    with suppress(JournalError):
        back_up(address, folder / "backup.db")
    _replace(address)
    assert put_in_place(address)
    assert diagnose(address) == ""


@pytest.mark.parametrize("forgery", IN_REDIS)
def test_a_forged_record_in_redis_is_refused_and_the_journal_can_be_replaced(
    redis_server: RedisServerProcess, tmp_path: Path, forgery: str
) -> None:
    """What was there is kept under another name."""
    address = JournalAddress(redis_server.url, REPOSITORY)
    with redis_server.client() as client:
        client.flushall()
        _filled(open_journal(address))
        assert diagnose(address) == ""
        IN_REDIS[forgery](client)
        _require_way_out(address, tmp_path)
        assert client.exists(f"{BASE}damaged-1:format") == 1


IN_POSTGRES = {
    "a row that is no text": "UPDATE {s}.runs SET row = '\\xff'",
    "a row of another run": "UPDATE {s}.runs SET run = '02-x'",
    "no row": "ALTER TABLE {s}.runs ALTER row DROP NOT NULL; UPDATE {s}.runs SET row = NULL",
    "a time that no clock shows": "UPDATE {s}.runs SET started_at = 'NaN'",
    "a time of an event that no calendar has": "UPDATE {s}.events SET at = 'Infinity'",
    "an event that is missing": "DELETE FROM {s}.events WHERE first = 3",
    "no events": "DELETE FROM {s}.events",
    "an event that is no text": "UPDATE {s}.events SET body = '\\xff'",
    "a last event that is too early": "UPDATE {s}.runs SET last_seq = 2",
    "a task that is no text": "UPDATE {s}.tasks SET row = '\\xff'",
    "no plan": "DELETE FROM {s}.plans",
    "a plan that is no text": "UPDATE {s}.plans SET body = '\\xff'",
}


@pytest.mark.parametrize("forgery", IN_POSTGRES)
def test_a_forged_record_in_postgres_is_refused_and_the_journal_can_be_replaced(
    postgres_server: PostgresServer, tmp_path: Path, forgery: str
) -> None:
    """What was there is kept under another name."""
    schema = f"s{list(IN_POSTGRES).index(forgery)}"
    address = JournalAddress(f"{postgres_server.url}?schema={schema}", REPOSITORY)
    _filled(open_journal(address))
    assert diagnose(address) == ""
    postgres_server.sql(IN_POSTGRES[forgery].replace("{s}", schema))
    _require_way_out(address, tmp_path)


CHANGED_TABLES: dict[str, tuple[str, Callable[[JournalAddress], None]]] = {
    "a column of another type": ("ALTER TABLE {s}.runs ALTER started_at TYPE numeric", _read_all),
    "no table of tasks": ("DROP TABLE {s}.tasks", _read_all),
    "no version": ("TRUNCATE {s}.journal_versions", _replace),
}


@pytest.mark.parametrize("change", CHANGED_TABLES)
def test_tables_that_somebody_changed_are_told_with_the_way_out(
    postgres_server: PostgresServer, change: str
) -> None:
    """Nobody tries for ever to make them anew, or takes them for tables without runs."""
    schema = f"t{list(CHANGED_TABLES).index(change)}"
    address = JournalAddress(f"{postgres_server.url}?schema={schema}", REPOSITORY)
    _filled(open_journal(address))
    statement, use = CHANGED_TABLES[change]
    postgres_server.sql(statement.replace("{s}", schema))
    with pytest.raises(JournalError, match="its tables are not as Holdfast made them") as refused:
        use(address)
    assert "?schema=" in refused.value.hint


def test_the_name_of_a_schema_that_the_server_would_cut_is_refused(postgres_server: PostgresServer) -> None:
    """Another one with the same beginning would be the same schema."""
    with pytest.raises(JournalError, match="too long"):
        open_journal(JournalAddress(f"{postgres_server.url}?schema={'x' * 64}", REPOSITORY))


def test_a_journal_in_redis_of_a_newer_version_is_not_replaced(redis_server: RedisServerProcess) -> None:
    """It is not damaged: who has that version uses it."""
    address = JournalAddress(redis_server.url, REPOSITORY)
    with redis_server.client() as client:
        client.flushall()
        _filled(open_journal(address))
        client.set(f"{BASE}format", "2")
        with pytest.raises(JournalError, match="newer Holdfast"):
            open_draft(address)


def test_an_epoch_that_is_no_number_is_told_with_the_way_out(redis_server: RedisServerProcess) -> None:
    """The error is about the record, not about the address of the server."""
    address = JournalAddress(redis_server.url, REPOSITORY)
    with redis_server.client() as client:
        client.flushall()
        _filled(open_journal(address))
        client.hset(HASH, "epoch", "x")
    with (
        closing(open_journal(address)) as journal,
        pytest.raises(JournalError, match="not as Holdfast") as told,
    ):
        journal.take_epoch(RUN, Holder(pid=1), hold=True)
    assert "holdfast rebuild --yes" in told.value.hint


def test_a_lease_that_is_no_number_is_none(redis_server: RedisServerProcess) -> None:
    """The run can be taken."""
    address = JournalAddress(redis_server.url, REPOSITORY)
    with redis_server.client() as client:
        client.flushall()
        _filled(open_journal(address))
        client.hset(HASH, "lease_end", "x")
    with closing(open_journal(address)) as journal:
        assert journal.take_epoch(RUN, Holder(pid=1), hold=True) == 2
