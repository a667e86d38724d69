"""Servers, schemas and addresses that a journal in Postgres refuses, and what it makes of those that it takes."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import msgspec
import psycopg
import pytest

from holdfast.core import events as ev
from holdfast.errors import HoldfastError, JournalError, LeaseLostError, StoreUnavailableError
from holdfast.journal import open_journal, open_reader
from holdfast.journal.address import JournalAddress
from holdfast.journal.lease import Holder
from holdfast.journal.postgres import PostgresJournal
from holdfast.journal.postgres_checks import ServerFacts, durability_of, refuse_old
from holdfast.journal.postgres_errors import no_connection
from holdfast.journal.postgres_schema import MIGRATIONS, migration
from tests.contract.journals import PLAN, RUN, begin, run_row, started, write_for_ever
from tests.support.postgres_server import (
    DATABASE,
    PASSWORD,
    USER,
    PostgresServer,
    free_port,
    pooler,
    postgres,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One server for all tests that leave it as it was: each has a schema of its own."""
    with postgres() as started_server:
        yield started_server


@pytest.fixture
def schema(request: pytest.FixtureRequest) -> str:
    """The name of a schema that no other test has."""
    return f"s{abs(hash(request.node.name))}"


@pytest.fixture
def address(server: PostgresServer, schema: str) -> JournalAddress:
    """Where a journal of the test's own can be."""
    return JournalAddress(f"{server.url}?schema={schema}", repository="r1")


def check_refused(url: str, message: str, hint: str, kind: type[HoldfastError] = JournalError) -> None:
    """Both ways of opening say what is wrong and how to go on, and never show the password."""
    address = JournalAddress(url, repository="r1")
    for opening in (open_journal, open_reader):
        with pytest.raises(kind, match=message) as caught:
            opening(address)
        assert hint in caught.value.hint
        assert isinstance(caught.value, StoreUnavailableError) is (kind is StoreUnavailableError)
        said = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caught.value.hint
        assert PASSWORD not in said


def relations(server: PostgresServer) -> str:
    """Return all tables that are not the server's own."""
    return server.sql(
        "SELECT schemaname, tablename FROM pg_tables WHERE schemaname !~ '^(pg_|information)' ORDER BY 1, 2"
    )


@pytest.mark.parametrize(
    "tail", [":nowhere/db", "/db?sslmode=maybe", "/db?colour=red", "/db?connect_timeout=soon", ":5432%zz/db"]
)
def test_an_address_that_is_none_is_refused(tail: str) -> None:
    """What the library says about it may hold the password, so it is not repeated."""
    check_refused(f"postgresql://me:{PASSWORD}@127.0.0.1{tail}", "understand|port|integer", "", HoldfastError)


def test_a_password_with_a_slash_is_refused_without_showing_it() -> None:
    """The part after the slash would be taken for the name of the database."""
    check_refused(f"postgresql://me:{PASSWORD}/{PASSWORD}@127.0.0.1/db", "has an @", "%2F", HoldfastError)


def test_a_wrong_password_is_refused(server: PostgresServer) -> None:
    """No retry helps."""
    check_refused(
        server.url.replace(PASSWORD, f"{PASSWORD}x"), "refuses the user or the password", "PGPASSWORD"
    )


def test_an_unknown_database_is_refused(server: PostgresServer) -> None:
    """The way out names the command."""
    check_refused(f"{server.url}x", "no such database", "createdb")


def test_a_server_without_tls_is_refused_where_the_address_asks_for_it(server: PostgresServer) -> None:
    """And the hint names the option."""
    check_refused(f"{server.url}?sslmode=require", "disagree about TLS", "sslmode")


def test_where_nobody_listens_a_later_try_may_help() -> None:
    """A port without a listener, a socket that is not there, a host that has no address."""
    for where in (f"127.0.0.1:{free_port()}", "host.invalid"):
        check_refused(
            f"postgresql://me:{PASSWORD}@{where}/db",
            "cannot be reached",
            "works again",
            StoreUnavailableError,
        )
    check_refused("postgresql:///db?host=/nowhere", "cannot be reached", "works again", StoreUnavailableError)


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"-ERR unknown command\r\n"])
def test_another_kind_of_server_is_refused(answer: bytes) -> None:
    """A web server or a Redis on that port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_answer_all, args=(listener, answer), daemon=True).start()
        port = listener.getsockname()[1]
        check_refused(
            f"postgresql://me:{PASSWORD}@127.0.0.1:{port}/db", "no Postgres server", "host and port"
        )


@pytest.mark.parametrize(
    "said",
    [
        "connection failed: SSL error: unexpected eof while reading",
        "connection failed: SSL SYSCALL error: EOF detected",
        "connection failed: could not receive data from server: Connection reset by peer",
        'connection to server at "h" failed: FATAL:  the database system is starting up',
        'connection to server at "h" failed: FATAL:  sorry, too many clients already',
        "connection timeout expired",
        "session is read-only",
    ],
)
def test_what_passes_by_itself_is_no_fault_of_the_address(said: str) -> None:
    """A connection that is cut during TLS is not a wrong certificate. Where a primary answered before, one will again."""
    assert isinstance(no_connection("store s", said, is_first=False), StoreUnavailableError)


def _answer_all(listener: socket.socket, answer: bytes) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client:
            client.recv(4096)
            client.sendall(answer)


def test_a_server_that_is_too_old_is_refused() -> None:
    """Its version is the first thing that is looked at."""
    with pytest.raises(JournalError, match=r"Postgres 11; Holdfast needs 12") as caught:
        refuse_old("store s", 110_022)
    assert "upgrade" in caught.value.hint


def test_without_the_library_the_error_says_how_to_get_it() -> None:
    """Nobody else needs it, so it is not installed with Holdfast."""
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from holdfast.errors import JournalError\n"
        "from holdfast.journal import open_journal\n"
        "from holdfast.journal.address import JournalAddress\n"
        "try: open_journal(JournalAddress('postgresql://h/d', repository='r'))\n"
        "except JournalError as error: print(error.hint)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "pip install 'holdfast[postgres]'"


def test_a_schema_with_tables_of_another_program_is_refused_and_kept(
    server: PostgresServer, address: JournalAddress, schema: str
) -> None:
    """Even if they are called like ours."""
    server.sql(f"CREATE SCHEMA {schema} AUTHORIZATION {USER}; CREATE TABLE {schema}.runs (x int)")
    before = relations(server)
    check_refused(address.url, "tables of another program", "?schema=")
    assert relations(server) == before


def test_tables_of_a_newer_version_are_refused_and_kept(
    server: PostgresServer, address: JournalAddress, schema: str
) -> None:
    """An old program never touches what it does not understand."""
    begin(open_journal(address))
    server.sql(f"INSERT INTO {schema}.journal_versions VALUES (99)")
    check_refused(address.url, "newer Holdfast .version 99", "upgrade")
    assert server.sql(f"SELECT count(*), max(epoch) FROM {schema}.runs") == "1|1"


def test_opening_and_reading_writes_nothing(server: PostgresServer, address: JournalAddress) -> None:
    """The tables come with the first write. Until then there are no runs, and nothing can be asked of one."""
    before = relations(server)
    journal, reader = open_journal(address), open_reader(address)
    assert (journal.runs(), reader.runs(), reader.is_confirmed("h1"), reader.holder(RUN)) == (
        [],
        [],
        False,
        None,
    )
    for ask in (lambda: reader.load(RUN), lambda: journal.take_epoch(RUN), lambda: list(reader.events(RUN))):
        with pytest.raises(JournalError, match=f"no run {RUN}"):
            ask()
    assert relations(server) == before
    journal.close()
    reader.close()


def test_many_processes_may_make_the_tables_at_once(address: JournalAddress) -> None:
    """One of them does, and the others use what it made."""
    journals = [open_journal(address) for _ in range(6)]
    with ThreadPoolExecutor(len(journals)) as pool:
        list(pool.map(lambda at: begin(journals[at], f"{at:02d}-run"), range(len(journals))))
    assert len(journals[0].runs()) == len(journals)
    for journal in journals:
        journal.close()


def test_older_tables_are_brought_up_to_date_once(
    server: PostgresServer, address: JournalAddress, schema: str
) -> None:
    """A later migration runs once, whoever comes first, and what was stored stays."""
    begin(open_journal(address))
    more = (*MIGRATIONS, ("CREATE TABLE {s}.later (x int)", "INSERT INTO {s}.later VALUES (1)"))
    with psycopg.connect(server.url, autocommit=True) as db:
        db.execute(migration(schema, len(MIGRATIONS), more))
    with psycopg.connect(server.url, autocommit=True) as db, pytest.raises(psycopg.Error, match="meanwhile"):
        db.execute(migration(schema, len(MIGRATIONS), more))
    found = server.sql(
        f"SELECT (SELECT count(*) FROM {schema}.later), max(version) FROM {schema}.journal_versions"
    )
    assert found == f"1|{len(more)}"


def test_a_user_that_may_not_make_a_schema_is_told_what_to_grant(server: PostgresServer, schema: str) -> None:
    """Nothing is written. In a schema that somebody made for it, it needs no more rights."""
    server.sql(f"CREATE ROLE {schema} LOGIN PASSWORD '{PASSWORD}'")
    url = f"{server.url.replace(USER, schema)}?schema={schema}"
    journal = open_journal(JournalAddress(url, repository="r1"))
    with pytest.raises(JournalError, match="lacks a permission") as caught:
        begin(journal)
    assert "GRANT CREATE" in caught.value.hint
    server.sql(f"CREATE SCHEMA {schema} AUTHORIZATION {schema}")
    assert begin(journal) == 1
    journal.close()


@pytest.mark.parametrize("name", ["Mixed Case", 'quo"te', "semi;colon'", "öäü"])
def test_the_schema_may_have_any_name(server: PostgresServer, name: str) -> None:
    """It is quoted wherever it is used."""
    address = JournalAddress(f"{server.url}?schema={quote(name)}", repository="r1")
    with closing(open_journal(address)) as journal:
        begin(journal)
        assert list(write_for_ever(journal, batches=3))[-1] > 1


def test_two_repositories_do_not_see_each_other(address: JournalAddress) -> None:
    """Not their runs, not their plans, not what the user agreed to."""
    one = PostgresJournal.open(address)
    other = PostgresJournal.open(JournalAddress(address.url, repository="r2"))
    begin(one)
    one.confirm_plan("h1", 1.0)
    assert (other.runs(), other.is_confirmed("h1"), other.progress([])) == ([], False, {})
    assert begin(other) == 1
    other.remove_run(RUN, 1)
    assert one.load(RUN).plan == PLAN
    one.close()
    other.close()


def test_a_socket_a_service_and_a_password_file_work_as_with_every_client(
    server: PostgresServer, tmp_path: Path, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever libpq understands can be in the address, or beside it."""
    passwords = tmp_path / "pgpass"
    passwords.write_text(f"127.0.0.1:{server.port}:{DATABASE}:{USER}:{PASSWORD}\n")
    passwords.chmod(0o600)
    (tmp_path / "services").write_text(f"[here]\nhost=127.0.0.1\nport={server.port}\ndbname={DATABASE}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    bare = server.url.replace(f":{PASSWORD}", "")
    urls = [
        f"{server.socket_url}&schema={schema}",
        f"{bare}?passfile={passwords}&schema={schema}",
        f"postgres://{USER}:{PASSWORD}@/?service=here&schema={schema}",
    ]
    for number, url in enumerate(urls):
        with closing(open_journal(JournalAddress(url, repository="r1"))) as journal:
            begin(journal, f"{number:02d}-run")
            assert len(journal.runs()) == number + 1


def test_a_role_that_may_only_read_is_refused_for_writing(server: PostgresServer, schema: str) -> None:
    """As managed servers set it when there is no room left; reading works."""
    server.sql(f"CREATE ROLE {schema} LOGIN PASSWORD '{PASSWORD}'")
    server.sql(f"ALTER ROLE {schema} SET default_transaction_read_only = on")
    address = JournalAddress(f"{server.url.replace(USER, schema)}?schema={schema}", repository="r1")
    with pytest.raises(JournalError, match="read-only"):
        open_journal(address)
    assert open_reader(address).runs() == []


def test_a_replica_is_refused_for_writing_and_can_be_read() -> None:
    """With both in the address, the one that can be written is chosen. Who follows at the replica looks from time to time."""
    with postgres() as primary, primary.replica() as replica:
        with closing(open_journal(JournalAddress(primary.url, repository="r1"))) as journal:
            begin(journal)
        check_read_only = JournalAddress(replica.url, repository="r1")
        with pytest.raises(JournalError, match="read-only replica") as caught:
            open_journal(check_read_only)
        assert "name the primary" in caught.value.hint
        both = primary.url.replace(f":{primary.port}", f":{replica.port},127.0.0.1:{primary.port}")
        with closing(open_journal(JournalAddress(both, repository="r1"))) as journal:
            journal.append(RUN, journal.take_epoch(RUN), [ev.StopRequested()], run_row(), [], 2.0)
        with closing(open_reader(check_read_only).follow(RUN)) as followed:
            seen: list[int] = []
            while seen != [1, 2]:
                seen += [item.seq for item in next(followed)]


def facts(**changes: object) -> ServerFacts:
    """Return what a server with sound settings says of itself."""
    return ServerFacts(150_000, False, False, True, True, "on", "")._replace(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "is_unlogged", "survives"),
    [
        ({}, False, (True, True, False)),
        ({"synchronous_commit": "off"}, False, (True, True, False)),
        ({"standbys": "ANY 1 (a, b)"}, False, (True, True, True)),
        ({"standbys": "a", "synchronous_commit": "local"}, False, (True, True, False)),
        ({"syncs": False}, False, (True, False, False)),
        ({"writes_full_pages": False}, False, (True, False, False)),
        ({}, True, (False, False, False)),
    ],
)
def test_what_an_event_survives_follows_from_the_settings(
    changes: dict[str, object], is_unlogged: bool, survives: tuple[bool, bool, bool]
) -> None:
    """A kill of the server, a power cut, a failover. Where a power cut damages all of it, the user must agree."""
    found = durability_of(facts(**changes), is_unlogged=is_unlogged)
    assert (found.server_killed, found.power_cut, found.failover) == survives
    assert found.is_volatile is (is_unlogged or not facts(**changes).syncs)


def test_a_server_that_does_not_sync_is_refused_unless_accepted() -> None:
    """The error says what would be lost."""
    with postgres("fsync=off") as volatile:
        address = JournalAddress(volatile.url, repository="r1")
        with pytest.raises(JournalError, match="fsync is off") as caught:
            open_journal(address)
        assert "--accept-volatile" in caught.value.hint
        accepted = JournalAddress(volatile.url, repository="r1", accept_volatile=True)
        with closing(PostgresJournal.open(accepted)) as journal:
            assert (begin(journal), journal.durability.power_cut) == (1, False)


def test_unlogged_tables_are_refused(server: PostgresServer, address: JournalAddress, schema: str) -> None:
    """They are empty after a crash of the server."""
    begin(open_journal(address))
    server.sql(f"ALTER TABLE {schema}.events SET UNLOGGED")
    with pytest.raises(JournalError, match="unlogged"):
        open_journal(address)


def test_writers_that_meet_under_a_strict_isolation_level_all_get_through(
    server: PostgresServer, schema: str
) -> None:
    """The server refuses one of two that meet; it calls again. No epoch is given twice."""
    server.sql(
        f"CREATE ROLE {schema} LOGIN PASSWORD '{PASSWORD}'; CREATE SCHEMA {schema} AUTHORIZATION {schema}"
    )
    server.sql(f"ALTER ROLE {schema} SET default_transaction_isolation = 'serializable'")
    address = JournalAddress(f"{server.url.replace(USER, schema)}?schema={schema}", repository="r1")
    journals = [open_journal(address) for _ in range(4)]
    begin(journals[0])
    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(lambda journal: [journal.take_epoch(RUN) for _ in range(10)], journals))
    assert sorted(epoch for mine in taken for epoch in mine) == list(range(2, 42))
    for journal in journals:
        journal.close()


_TRAPS = """CREATE TABLE public.caught (who text, how text); GRANT ALL ON public.caught TO public;
  CREATE FUNCTION public.joined(text, bigint) RETURNS text LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO public.caught VALUES (current_user, 'joined'); RETURN concat($1, $2); END $$;
  CREATE OPERATOR public.|| (LEFTARG = text, RIGHTARG = bigint, FUNCTION = public.joined);
  CREATE FUNCTION public.pg_advisory_xact_lock(integer) RETURNS void LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO public.caught VALUES (current_user, 'locked'); END $$;
  CREATE FUNCTION public.counted(bigint, oid) RETURNS bigint LANGUAGE plpgsql AS
    $$ BEGIN INSERT INTO public.caught VALUES (current_user, 'counted'); RETURN $1 + 1; END $$;
  CREATE AGGREGATE public.count(oid) (SFUNC = public.counted, STYPE = bigint, INITCOND = '0')"""


def test_what_other_users_of_the_database_made_is_never_called(
    server: PostgresServer, address: JournalAddress
) -> None:
    """An operator that fits our types better than the server's own would run with our rights, at each append."""
    server.sql(_TRAPS)
    try:
        with closing(open_journal(address)) as journal:
            begin(journal)
            list(write_for_ever(journal, batches=2))
        for draft in (PostgresJournal.open_draft(address), PostgresJournal.open_draft(address)):
            draft.close()
        PostgresJournal.put_in_place(address)
        assert server.sql("SELECT DISTINCT how FROM public.caught") == ""
    finally:
        server.sql("DROP SCHEMA public CASCADE; CREATE SCHEMA public")


def test_the_same_epoch_with_another_fence_is_refused(
    server: PostgresServer, address: JournalAddress, schema: str
) -> None:
    """As after a failover that lost an epoch, which another runner then took again."""
    with closing(open_journal(address)) as journal:
        epoch = begin(journal)
        server.sql(f"UPDATE {schema}.runs SET fence = 'of another'")
        refused: list[Callable[[], object]] = [
            lambda: journal.append(RUN, epoch, [ev.StopRequested()], run_row(), [], 2.0),
            lambda: journal.renew(RUN, epoch),
            lambda: journal.remove_run(RUN, epoch),
        ]
        for call in refused:
            with pytest.raises(LeaseLostError):
                call()
        assert journal.load(RUN).last_seq == 1


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM {s}.events WHERE first > 1; UPDATE {s}.runs SET last_seq = 1",
        "UPDATE {s}.runs SET epoch = 0",
        "DELETE FROM {s}.runs",
        "DROP SCHEMA {s} CASCADE",
    ],
    ids=["events", "epoch", "run", "everything"],
)
def test_a_store_that_went_back_is_never_written_on(
    server: PostgresServer, address: JournalAddress, schema: str, damage: str
) -> None:
    """As after a failover or a restored backup: the runner must first compare with git."""
    with closing(open_journal(address)) as journal:
        epoch = begin(journal)
        journal.append(RUN, epoch, [ev.StopRequested()], run_row(), [], 2.0)
        server.sql(damage.replace("{s}", schema))
        with pytest.raises(JournalError, match="lost events") as caught:
            journal.append(RUN, epoch, [ev.StopRequested()], run_row(), [], 3.0)
        assert not isinstance(caught.value, StoreUnavailableError)
        assert f"holdfast resume {RUN}" in caught.value.hint


def test_creating_a_run_again_after_its_answer_was_lost_changes_nothing(address: JournalAddress) -> None:
    """The same call finds its own run. A different one is refused."""
    with closing(open_journal(address)) as journal:
        for _ in range(2):
            journal.create_run(PLAN, run_row(), started(), 100.0)
        assert len(list(journal.events(RUN))) == 1
        journal.take_epoch(RUN)
        with pytest.raises(JournalError, match="already exists"):
            journal.create_run(PLAN, run_row(), started(), 100.0)


def test_a_child_process_gets_a_connection_of_its_own(address: JournalAddress) -> None:
    """It neither speaks on that of its parent nor closes it."""
    with closing(open_journal(address)) as journal:
        epoch = begin(journal)
        if (child := os.fork()) == 0:
            done = journal.load(RUN).last_seq == 1 and journal.append(
                RUN, epoch, [ev.StopRequested()], run_row(), [], 2.0
            )
            journal.close()
            os._exit(0 if done == 2 else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert journal.load(RUN).last_seq == 2


def test_a_plan_is_never_dropped_under_a_run_that_is_just_made(address: JournalAddress) -> None:
    """One runner removes the only run of a plan again and again, while another makes runs of the same plan."""
    with closing(open_journal(address)) as one, closing(open_journal(address)) as other:
        one.confirm_plan("h1", 1.0)

        def make_and_remove() -> None:
            for at in range(40):
                one.remove_run(f"{at:02d}-gone", begin(one, f"{at:02d}-gone"))

        with ThreadPoolExecutor(2) as pool:
            removing = pool.submit(make_and_remove)
            for at in range(40):
                begin(other, f"{at:02d}-made")
                assert other.load(f"{at:02d}-made").plan == PLAN
                other.remove_run(f"{at:02d}-made", 1)
            removing.result()
        assert other.runs() == []
        assert other._overview().plans == {}


def test_a_draft_replaces_the_journal_which_is_kept(
    server: PostgresServer, address: JournalAddress, schema: str
) -> None:
    """Until then nobody sees it; afterwards writers of the old one are refused. Repeating it changes nothing."""
    old = PostgresJournal.open(address)
    epoch = begin(old, "01-old")
    for number in (1, 2):
        PostgresJournal.open_draft(address).create_run(PLAN, run_row("09-left"), started("09-left"), 1.0)
        with closing(PostgresJournal.open_draft(address)) as draft:
            begin(draft, f"02-new{number}")
            assert f"02-new{number}" not in [listing.row.run for listing in open_reader(address).runs()]
        assert [PostgresJournal.put_in_place(address) for _ in range(2)] == [f"damaged-{number}"] * 2
        assert [listing.row.run for listing in open_reader(address).runs()] == [f"02-new{number}"]
    with pytest.raises(JournalError):
        old.append("01-old", epoch, [ev.StopRequested()], run_row("01-old"), [], 2.0)
    kept = server.sql(
        f"SELECT name, run FROM {schema}.runs r JOIN {schema}.journals j ON j.key = r.journal ORDER BY 1"
    )
    assert kept.split() == ["|02-new2", "damaged-1|01-old", "damaged-2|02-new1"]
    old.close()


def test_the_first_draft_replaces_nothing(address: JournalAddress) -> None:
    """As in a server that was emptied."""
    with closing(PostgresJournal.open_draft(address)) as draft:
        begin(draft)
    assert PostgresJournal.put_in_place(address) is None
    assert open_reader(address).load(RUN).last_seq == 1


def test_everything_works_behind_a_pooler_in_transaction_mode(server: PostgresServer, schema: str) -> None:
    """Nothing is prepared or set for a session. Who follows is not told there, and looks from time to time."""
    with pooler(server) as url:
        address = JournalAddress(f"{url}?schema={schema}", repository="r1")
        one, other = open_journal(address), open_journal(address)
        begin(one)
        epoch = one.take_epoch(RUN, Holder(pid=7), hold=True)
        assert other.holder(RUN) == Holder(pid=7)
        one.release(RUN, epoch)
        last = list(write_for_ever(other, batches=30))[-1]
        with closing(one.follow(RUN)) as followed:
            assert [item.seq for item in next(followed)] == list(range(1, last + 1))
            list(write_for_ever(other, batches=1))
            assert [item.seq for item in next(batch for batch in followed if batch)] == [last + 1]
        one.close()
        other.close()


def test_the_error_of_a_held_run_says_how_long_to_wait(address: JournalAddress) -> None:
    """At most the lease."""
    here = Holder(pid=7, host="here", boot_id="b", lock="1:2")
    with closing(open_journal(address)) as one, closing(open_journal(address)) as other:
        begin(one)
        one.take_epoch(RUN, here, hold=True)
        with pytest.raises(HoldfastError, match="pid 7 on here") as caught:
            other.take_epoch(RUN, msgspec.structs.replace(here, boot_id="c"), hold=True)
        assert "30 s" in caught.value.hint


def test_tls_is_used_as_the_address_says(tmp_path: Path) -> None:
    """Large answers come whole. A certificate that nobody vouches for is refused where it is to be checked, and so is plain text."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    with postgres() as server:
        key, certificate = server.data / "server.key", server.data / "server.crt"
        argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=db"]
        argv += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
        subprocess.run(argv, check=True, capture_output=True)
        key.chmod(0o600)
        owner = server.data.stat()
        os.chown(key, owner.st_uid, owner.st_gid)
        certificate.chmod(0o644)
        root = tmp_path / "root.crt"
        root.write_bytes(certificate.read_bytes())
        hosts = server.data / "pg_hba.conf"
        hosts.write_text(hosts.read_text().replace("host all", "hostssl all"))
        server.shut_down()
        server.settings = ("ssl=on",)
        server.launch()
        for mode in ("require", f"verify-full&sslrootcert={root}"):
            address = JournalAddress(f"{server.url}?sslmode={mode}", repository=mode)
            with closing(open_journal(address)) as journal:
                big: list[ev.Event] = [ev.AgentObserved(task="a", attempt=1, activity="é" * 300_000)] * 5
                journal.append(RUN, begin(journal), big, run_row(), [], 2.0)
                assert [item.event for item in journal.events(RUN, after=1)] == big
        check_refused(f"{server.url}?sslmode=verify-full&sslrootcert=/nowhere", "certificate", "sslrootcert")
        check_refused(f"{server.url}?sslmode=disable", "disagree about TLS", "sslmode")
