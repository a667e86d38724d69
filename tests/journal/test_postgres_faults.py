"""A Postgres server that is killed, stopped, restarted, cut off or full in the middle of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from holdfast.core import events as ev
from holdfast.core.projection import TaskRow
from holdfast.errors import JournalError, StoreUnavailableError
from holdfast.journal import open_journal, open_reader
from holdfast.journal.address import JournalAddress
from holdfast.journal.postgres import PostgresJournal
from tests.contract.journals import RUN, begin, run_row
from tests.contract.test_journal import check_rows_match_events
from tests.support.command import eventually, is_alive
from tests.support.postgres_server import PASSWORD, USER, PostgresServer, postgres
from tests.support.servers import address_in
from tests.support.tiny_disk import tiny_disk

ROOT = Path(__file__).parents[2]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """A server of the test's own, to be broken."""
    with postgres() as started_server:
        yield started_server


@pytest.fixture
def address(server: PostgresServer) -> JournalAddress:
    """Where its journal is."""
    return JournalAddress(server.url, repository="r1")


def add(journal: PostgresJournal, epoch: int, count: int = 1) -> int:
    """Append some events with the row of a task."""
    events = [ev.StageOpened(stage=str(number)) for number in range(count)]
    return journal.append(RUN, epoch, events, run_row(), [TaskRow(id="a", attempt=count)], 2.0)


def add_until_refused(journal: PostgresJournal, epoch: int, events: list[ev.Event]) -> None:
    """Append the same events twenty times, or until that fails: the last pages of a table may have room."""
    for _ in range(20):
        journal.append(RUN, epoch, events, run_row(), [], 2.0)


def numbers(address: JournalAddress) -> list[int]:
    """Return the numbers of all events that are stored."""
    with closing(open_reader(address)) as reader:
        return [item.seq for item in reader.events(RUN)]


@pytest.mark.crash
def test_a_killed_server_has_all_that_it_acknowledged(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed three times in the middle of appends, with every process of it."""
    monkeypatch.setenv("TESTS_POSTGRESQL_URL", server.url)
    address = address_in(tmp_path, "postgresql")
    with closing(open_journal(address)) as journal:
        begin(journal)
    argv = [
        sys.executable,
        "-m",
        "tests.contract.journals",
        "postgresql",
        str(tmp_path),
        RUN,
        str(sys.maxsize),
    ]
    for heard in (1, 20, 60):
        with subprocess.Popen(
            argv, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            said = [writer.stdout.readline() for _ in range(heard)]
            server.kill()
            said += writer.stdout.readlines()
            assert "StoreUnavailableError" in (writer.stderr.read() if writer.stderr else "")
        server.launch()
        with closing(open_journal(address)) as journal:
            assert check_rows_match_events(journal) >= int(said[-1])


def test_a_server_that_commits_without_syncing_is_made_to_sync() -> None:
    """Its role has `synchronous_commit = off`, and its log would not be written for ten seconds."""
    with postgres("wal_writer_delay=10s", "synchronous_commit=off") as server:
        address = JournalAddress(server.url, repository="r1")
        with closing(PostgresJournal.open(address)) as journal:
            last = add(journal, begin(journal), 5)
            server.kill()
        server.launch()
        assert numbers(address) == list(range(1, last + 1))


def test_a_stopped_server_is_unavailable_in_time_and_nothing_is_stored_twice(
    server: PostgresServer, address: JournalAddress
) -> None:
    """The append that it did not answer may still be stored when it goes on: the same one again changes nothing."""
    impatient = JournalAddress(f"{address.url}?connect_timeout=2", address.repository)
    with closing(PostgresJournal.open(impatient)) as journal:
        epoch = begin(journal)
        assert add(journal, epoch) == 2
        server.pause()
        for _ in range(2):
            with pytest.raises(StoreUnavailableError) as caught:
                add(journal, epoch, 3)
            assert PASSWORD not in f"{caught.value} {caught.value.hint}"
        server.go_on()
        assert add(journal, epoch, 3) == 5
        assert add(journal, epoch) == 6
        assert [task.attempt for task in journal.load(RUN).tasks] == [1]
    eventually(
        lambda: server.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'tester'") == "0", "idle"
    )
    assert numbers(address) == [1, 2, 3, 4, 5, 6]


def test_a_restart_between_two_calls_is_not_noticed(server: PostgresServer, address: JournalAddress) -> None:
    """The connection is made again; the fence is still ours."""
    with closing(PostgresJournal.open(address)) as journal:
        epoch = begin(journal)
        for expected in (2, 3):
            server.shut_down()
            server.launch()
            assert add(journal, epoch) == expected
        assert journal.load(RUN).last_seq == 3


def test_a_server_that_is_away_is_unavailable_until_it_is_back(
    server: PostgresServer, address: JournalAddress
) -> None:
    """Every call says so, and the same calls work afterwards."""
    with closing(PostgresJournal.open(address)) as journal:
        epoch = begin(journal)
        server.kill()
        for call in (
            lambda: add(journal, epoch),
            lambda: journal.load(RUN),
            lambda: journal.renew(RUN, epoch),
            lambda: journal.take_epoch(RUN),
            lambda: next(journal.follow(RUN)),
        ):
            with pytest.raises(StoreUnavailableError):
                call()
        server.launch()
        assert add(journal, epoch) == 2


def test_an_append_whose_answer_was_lost_is_stored_once(
    server: PostgresServer, address: JournalAddress
) -> None:
    """The same events again are found stored. Others in their place are refused: the writer does not know the store."""
    with closing(PostgresJournal.open(address)) as journal:
        epoch = begin(journal)
        for _ in range(2):
            journal._owned[RUN].last = 1  # the answer to an earlier one did not come
            assert add(journal, epoch) == 2
        journal._owned[RUN].last = 1
        with pytest.raises(JournalError, match="lost events"):
            add(journal, epoch, 2)
    assert numbers(address) == [1, 2]


def test_a_run_that_another_transaction_locks_is_not_waited_for_without_end(
    server: PostgresServer, address: JournalAddress
) -> None:
    """Somebody's forgotten session holds its row: the append gives up, and nothing of it is left waiting on the server."""
    with closing(PostgresJournal.open(address)) as journal:
        epoch = begin(journal)
        with psycopg.connect(server.url) as other:
            other.execute("SELECT * FROM holdfast.runs FOR UPDATE")
            with pytest.raises(StoreUnavailableError, match="holds the run's row"):
                add(journal, epoch)
            other.rollback()
        assert add(journal, epoch) == 2


def test_who_follows_a_run_misses_nothing_over_a_lost_connection(
    server: PostgresServer, address: JournalAddress
) -> None:
    """Both of its connections are ended between two events; what happened meanwhile comes at once, and once."""
    with closing(PostgresJournal.open(address)) as journal, closing(journal.reader()) as reader:
        epoch = begin(journal)
        with closing(reader.follow(RUN)) as followed:
            seen = [item.seq for item in next(followed)]
            for last in range(2, 6):
                server.sql(
                    f"SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE usename = '{USER}'"
                )
                add(journal, epoch)
                while seen[-1] < last:
                    seen += [item.seq for item in next(followed)]
    assert seen == [1, 2, 3, 4, 5]


def test_who_waits_for_a_change_is_told_of_it(server: PostgresServer, address: JournalAddress) -> None:
    """The wait is endless as far as the test goes: only the writer, or the loss of the connection, ends it."""
    with closing(PostgresJournal.open(address)) as journal, closing(journal.reader()) as reader:
        epoch = begin(journal)
        with closing(reader._watch()) as watch:
            for _ in range(20):
                add(journal, epoch)
                watch.wait(3600.0)
            server.sql(
                f"SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE usename = '{USER}'"
            )
            watch.wait(3600.0)
            add(journal, epoch)
            watch.wait(3600.0)
    assert numbers(address)[-1] == 22


def test_a_full_disk_of_the_server_is_said_and_passes(server: PostgresServer) -> None:
    """Nothing of the refused append is stored; once there is room, the same one is."""
    with tiny_disk(server.folder / "disk", 24) as disk:
        server.make_tablespace("small", disk.root)
        server.sql(f"CREATE DATABASE tiny OWNER {USER} TABLESPACE small")
        address = JournalAddress(server.url.replace("/journal", "/tiny"), repository="r1")
        with closing(PostgresJournal.open(address)) as journal:
            epoch = begin(journal)
            disk.fill()
            big: list[ev.Event] = [ev.StageOpened(stage=os.urandom(40_000).hex())]
            with pytest.raises(StoreUnavailableError, match="disk of the server is full"):
                add_until_refused(journal, epoch, big)
            stored = journal.load(RUN).last_seq
            assert [item.seq for item in journal.events(RUN)] == list(range(1, stored + 1))
            disk.free()
            assert journal.append(RUN, epoch, big, run_row(), [], 2.0) == stored + 1
        server.sql("DROP DATABASE tiny", "postgres")
        server.sql("DROP TABLESPACE small")


def test_a_test_run_that_is_killed_leaves_no_server(server: PostgresServer) -> None:
    """The kernel ends the server with the process that started it."""
    code = (
        "import sys, time\n"
        "from tests.support.postgres_server import PostgresServer\n"
        "server = PostgresServer.start()\n"
        "print(server.process.pid, server.folder, flush=True)\n"
        "time.sleep(600)"
    )
    argv = [sys.executable, "-c", code]
    with subprocess.Popen(argv, cwd=ROOT, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pid, folder = starter.stdout.readline().split()
        starter.kill()
    eventually(lambda: not is_alive(int(pid)), "the server is gone")
    subprocess.run(["rm", "-rf", folder], check=True)


def _both(primary: PostgresServer, replica: PostgresServer) -> JournalAddress:
    url = primary.url.replace(f":{primary.port}", f":{primary.port},127.0.0.1:{replica.port}")
    return JournalAddress(url, repository="r1")


def test_after_a_failover_the_run_goes_on_at_the_new_primary(server: PostgresServer) -> None:
    """Until there is one, the store is unavailable. The replica had everything."""
    with server.replica() as replica, closing(PostgresJournal.open(_both(server, replica))) as journal:
        epoch = begin(journal)
        assert add(journal, epoch) == 2
        replica.catch_up(server)
        server.kill()
        for _ in range(2):
            with pytest.raises(StoreUnavailableError):
                add(journal, epoch, 3)
        replica.sql("SELECT pg_promote()")
        assert add(journal, epoch, 3) == 5
        assert [item.seq for item in journal.events(RUN)] == [1, 2, 3, 4, 5]


def test_a_failover_that_lost_acknowledged_events_is_noticed(server: PostgresServer) -> None:
    """The replica was behind: nothing is written on top of the gap."""
    with server.replica() as replica, closing(PostgresJournal.open(_both(server, replica))) as journal:
        epoch = begin(journal)
        replica.catch_up(server)
        replica.shut_down()
        assert add(journal, epoch) == 2
        server.kill()
        replica.launch()
        replica.sql("SELECT pg_promote()")
        with pytest.raises(JournalError, match="lost events") as caught:
            add(journal, epoch)
        assert not isinstance(caught.value, StoreUnavailableError)
        assert journal.load(RUN).last_seq == 1
