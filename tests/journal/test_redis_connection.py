"""How a Redis server is reached: addresses, logins, TLS, sockets, Sentinels; and what is said when it cannot be."""

from __future__ import annotations

import socket
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.errors import HoldfastError, JournalError, StoreUnavailableError
from holdfast.journal import open_journal, open_reader
from holdfast.journal.address import JournalAddress
from holdfast.journal.protocol import Journal
from holdfast.journal.records_server import RecordsServer
from holdfast.journal.redis import RedisJournal
from holdfast.journal.redis_connection import RedisEndpoint
from tests.contract.journals import RUN, begin, run_row
from tests.support.command import eventually
from tests.support.redis_server import RedisServerProcess, free_port
from tests.support.servers import NotInstalledError

SECRET = "s3cret-pl@nted"
QUOTED = "s3cret-pl%40nted"


@pytest.fixture
def start() -> Iterator[Callable[..., RedisServerProcess]]:
    """Starts servers that end with the test, or a Sentinel that watches one."""
    running: list[RedisServerProcess] = []

    def start(watched: RedisServerProcess | None = None, **settings: str) -> RedisServerProcess:
        try:
            if watched is None:
                running.append(RedisServerProcess.start("redis-server", None, **settings))
            else:
                running.append(RedisServerProcess.start_sentinel("ours", watched, **settings))
        except NotInstalledError as error:
            pytest.skip(str(error))
        return running[-1]

    yield start
    for server in running:
        server.stop()


def _is_used(url: str) -> bool:
    """Write to a journal and read it again."""
    with closing(open_journal(JournalAddress(url, "r"))) as journal:
        begin(journal)
        with closing(open_reader(JournalAddress(url, "r"))) as reader:
            return reader.load(RUN).last_seq == 1


def _error(url: str) -> HoldfastError:
    with pytest.raises(HoldfastError) as caught:
        open_journal(JournalAddress(url, "r"))
    assert caught.value.hint
    said = "".join(traceback.format_exception(caught.value)) + repr(caught.value) + caught.value.hint
    assert SECRET not in said
    assert QUOTED not in said
    return caught.value


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("redis://", RedisEndpoint((("localhost", 6379),))),
        ("redis://h:1/4?prefix=p", RedisEndpoint((("h", 1),), db=4, prefix="p")),
        ("valkey://[::1]:7", RedisEndpoint((("::1", 7),))),
        ("valkeys://h", RedisEndpoint((("h", 6379),), tls={})),
        ("redis+unix:///run/r.sock?db=2", RedisEndpoint((), socket_path="/run/r.sock", db=2)),
        ("redis+unix://u:p@/run/r.sock", RedisEndpoint((), socket_path="/run/r.sock", username="u", password="p")),
        (
            "redis+sentinel://u:p%2F@a:1,b/name/3?sentinel_password=q",
            RedisEndpoint(
                (("a", 1), ("b", 26379)), service="name", db=3, username="u", password="p/", sentinel_login={"password": "q"}
            ),
        ),
    ],
)  # fmt: skip
def test_an_address_says_where_the_server_is(url: str, endpoint: RedisEndpoint) -> None:
    """Parts that are left out are as usual."""
    assert RedisEndpoint.of(JournalAddress(url, "r")) == endpoint


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis://h/x", 'the database "x"'),
        ("redis://h/1/2", 'the database "1/2"'),
        ("redis://h:70000", "no port 70000"),
        ("redis://h?retries=4", '"retries" is not an option'),
        ("redis+sentinel://h:1", "names no service"),
        ("rediss://h?ssl_ca_certs=/no/such", 'no file "/no/such"'),
    ],
)
def test_a_wrong_address_is_said_with_the_way_out(url: str, words: str) -> None:
    """Before anybody is asked for anything. The password in it is not shown."""
    assert words in _error(url.replace("://", f"://u:{QUOTED}@")).message


def test_nobody_at_the_address_is_an_outage() -> None:
    """Refused, or a name that nobody knows: it may be cured."""
    for where in (f"127.0.0.1:{free_port()}", "no-such-host.invalid:6379"):
        error = _error(f"redis://u:{QUOTED}@{where}")
        assert isinstance(error, StoreUnavailableError)
        assert where.partition(":")[0] in error.message


def test_a_login_is_used_and_never_shown(start: Callable[..., RedisServerProcess]) -> None:
    """Neither by the journal, nor in the error about a wrong one."""
    server = start(requirepass=SECRET)
    url = server.url.replace("127", f":{QUOTED}@127")
    assert _is_used(url)
    with closing(RedisJournal.open(JournalAddress(url, "r"))) as journal:
        shown = f"{journal!r} {journal.name} {journal._connection!r} {journal._connection.endpoint!r} {journal._address!r}"
        assert SECRET not in shown
        assert QUOTED not in shown
    for wrong in (f":{QUOTED}x@", f"who:{QUOTED}@", ""):
        error = _error(server.url.replace("127", f"{wrong}127"))
        assert not isinstance(error, StoreUnavailableError)
        assert "refuses the user name or the password" in error.message


def test_a_password_for_a_server_that_has_none_is_told_so(start: Callable[..., RedisServerProcess]) -> None:
    """As after a move from a store that had one: the variable still holds it."""
    error = _error(start().url.replace("://", f"://:{QUOTED}@"))
    assert ("has no password" in error.message, "unset HOLDFAST_STORE_PASSWORD" in error.hint) == (True, True)


def test_a_server_that_repeats_the_password_does_not_get_it_shown() -> None:
    """Some repeat what they do not understand."""
    listener = socket.create_server(("127.0.0.1", 0))

    def repeat() -> None:
        with listener, listener.accept()[0] as connection, suppress(OSError):
            while said := connection.recv(65536):
                connection.sendall(b"-ERR unknown command " + said.replace(b"\r\n", b" ") + b"\r\n")

    threading.Thread(target=repeat, daemon=True).start()
    assert "***" in _error(f"redis://u:{QUOTED}@127.0.0.1:{listener.getsockname()[1]}").message


def test_a_user_with_the_rights_that_we_name_can_do_everything(
    start: Callable[..., RedisServerProcess],
) -> None:
    """The error about missing rights names them."""
    server = start()
    with server.client() as client:
        client.execute_command(
            "ACL", "SETUSER", "few", "on", ">pw", "~*", "+@connection", "+info", "+config|get"
        )
        error = _error(server.url.replace("127", "few:pw@127"))
        assert "does not permit it" in error.message
        rights = error.hint.partition(": ")[2].split()
        client.execute_command("ACL", "SETUSER", "ours", "on", ">pw", *rights)
    with closing(open_journal(JournalAddress(server.url.replace("127", "ours:pw@127"), "r"))) as journal:
        epoch = begin(journal)
        with closing(journal.follow(RUN, after=1)) as followed:
            next(followed)
            journal.append(RUN, epoch, [ev.StopRequested()], run_row(), [], 1.0)
            assert [item.seq for item in next(batch for batch in followed if batch)] == [2]
        journal.remove_run(RUN, epoch)


def test_a_user_without_a_right_to_the_channel_still_writes_and_follows(
    start: Callable[..., RedisServerProcess],
) -> None:
    """Who follows then looks several times a second."""
    server = start()
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "deaf", "on", ">pw", "~*", "resetchannels", "+@all")
    with closing(open_journal(JournalAddress(server.url.replace("127", "deaf:pw@127"), "r"))) as journal:
        epoch = begin(journal)
        with closing(journal.follow(RUN, after=1)) as followed:
            next(followed)
            journal.append(RUN, epoch, [ev.StopRequested()], run_row(), [], 1.0)
            assert [item.seq for item in next(batch for batch in followed if batch)] == [2]


def test_a_database_that_the_server_does_not_have_is_named(start: Callable[..., RedisServerProcess]) -> None:
    """It is no outage."""
    error = _error(start().url.replace("/0", "/99"))
    assert not isinstance(error, StoreUnavailableError)
    assert "no database 99" in error.message


def test_a_unix_socket_leads_to_the_server(start: Callable[..., RedisServerProcess], tmp_path: Path) -> None:
    """With a login and a number of a database, too."""
    start(unixsocket=str(tmp_path / "r.sock"), requirepass="pw")
    assert _is_used(f"redis+unix://:pw@{tmp_path}/r.sock?db=2")


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Make a key and a certificate for this machine, signed by itself."""
    key, certificate = folder / "key.pem", folder / "cert.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    subprocess.run([*made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return key, certificate


def test_a_server_with_tls_is_reached_by_who_trusts_its_certificate(
    start: Callable[..., RedisServerProcess], tmp_path: Path
) -> None:
    """Everybody else is told what does not fit: an unknown signer, TLS where there is none, none where it is needed."""
    key, certificate = _certificate(tmp_path)
    port = free_port()
    server = start(
        tls_port=str(port), tls_cert_file=str(certificate), tls_key_file=str(key), tls_auth_clients="no"
    )
    secure = f"rediss://:{QUOTED}@127.0.0.1:{port}"
    server.set("requirepass", SECRET)
    assert _is_used(f"{secure}?ssl_ca_certs={certificate}")
    error = _error(secure)
    assert not isinstance(error, StoreUnavailableError)
    assert "no secure connection" in error.message
    for url in (f"redis://:{QUOTED}@127.0.0.1:{port}", f"rediss://127.0.0.1:{server.port}"):
        assert "rediss://" in _error(url).hint


def test_sentinels_say_where_the_server_is_also_after_a_failover(
    start: Callable[..., RedisServerProcess],
) -> None:
    """The journal stays open. What both servers had is there, and the lease is still its own."""
    primary = start(requirepass="pw", masterauth="pw")
    replica = start(requirepass="pw", masterauth="pw", replicaof=f"127.0.0.1 {primary.port}")
    sentinel = start(watched=primary)
    url = f"redis+sentinel://:pw@127.0.0.1:{free_port()},127.0.0.1:{sentinel.port}/ours/0"
    with closing(open_journal(JournalAddress(url, "r"))) as journal, replica.client() as copy:
        epoch = begin(journal)
        eventually(lambda: copy.dbsize() == primary.client().dbsize(), "the replica has what the server has")
        eventually(lambda: copy.info("replication")["master_link_status"] == "up", "the replica follows")
        with sentinel.client() as client:
            eventually(lambda: client.sentinel_slaves("ours") != [], "the Sentinel knows the replica")
        primary.kill()
        eventually(lambda: _goes_on(journal, epoch), "the replica took over")
        assert [item.seq for item in journal.events(RUN)] == [1, 2]
        assert copy.info("replication")["role"] == "master"


def test_sentinels_with_tls_are_asked_with_it(
    start: Callable[..., RedisServerProcess], tmp_path: Path
) -> None:
    """The options of the address are for them as for the server."""
    key, certificate = _certificate(tmp_path)
    files = {
        "tls_cert_file": str(certificate),
        "tls_key_file": str(key),
        "tls_ca_cert_file": str(certificate),
    }
    tls = {**files, "tls_auth_clients": "no", "tls_replication": "yes"}
    primary = start(requirepass="pw", tls_port=str(free_port()), **tls)
    port = free_port()
    start(watched=primary, tls_port=str(port), **tls)
    assert _is_used(f"redis+sentinel://:pw@127.0.0.1:{port}/ours?ssl_ca_certs={certificate}")


def _goes_on(journal: Journal, epoch: int) -> bool:
    """Append an event, the same one until the store takes it."""
    with suppress(StoreUnavailableError):
        return journal.append(RUN, epoch, [ev.StopRequested()], run_row(), [], 1.0) == 2
    return False


def test_sentinels_that_do_not_know_the_service_are_an_outage(
    start: Callable[..., RedisServerProcess],
) -> None:
    """They may just have begun to look for it."""
    sentinel = start(watched=start(requirepass="pw"))
    error = _error(f"redis+sentinel://:{QUOTED}@127.0.0.1:{sentinel.port}/other")
    assert isinstance(error, StoreUnavailableError)
    with pytest.raises(JournalError, match="refuses the user name or the password"):
        open_journal(JournalAddress(f"redis+sentinel://:no@127.0.0.1:{sentinel.port}/ours", "r"))


def test_a_port_that_is_no_number_is_told() -> None:
    """It would be looked for as a part of the host's name."""
    with pytest.raises(HoldfastError, match="a host or a port that cannot be"):
        RedisEndpoint.of(JournalAddress("redis://localhost:port/0", "r"))


def test_a_user_who_lost_the_right_to_write_is_told_which_rights_it_needs(
    start: Callable[..., RedisServerProcess],
) -> None:
    """The records are sound: nobody is sent to make them anew."""
    server = start()
    with closing(open_journal(JournalAddress(server.url, "r"))) as journal, server.client() as client:
        epoch = begin(journal)
        client.execute_command("ACL", "SETUSER", "default", "-@write")
        with pytest.raises(JournalError, match="does not permit it") as refused:
            journal.append(RUN, epoch, [ev.StopRequested()], run_row(), [], 101.0)
    assert "+@write" in refused.value.hint


@pytest.mark.parametrize("scheme", ["redis", "redis+sentinel"])
@pytest.mark.parametrize(
    "answer",
    [
        b"+OK\r\n",
        b":5\r\n",
        b"*0\r\n",
        b"*1\r\n$2\r\nok\r\n",
        b"*2\r\n$2\r\nok\r\n:5\r\n",
        b"*1\r\n" * 9_999 + b":1\r\n",
        b"$99999999999999\r\n",
        b"$-7\r\n",
    ],
    ids=["word", "number", "nothing", "list", "list with a number", "nested", "huge", "below zero"],
)
def test_a_server_whose_answers_make_no_sense_is_said_to_be_none(scheme: str, answer: bytes) -> None:
    """Whatever it answers, there is an error with a way out, also where records of another system are looked for."""
    with _answering(answer) as port:
        url = f"{scheme}://127.0.0.1:{port}/0" if scheme == "redis" else f"{scheme}://127.0.0.1:{port}/ours"
        for use in (
            lambda: open_reader(JournalAddress(url, "r")).runs(),
            lambda: list(RecordsServer(url).read("*")),
        ):
            with pytest.raises(HoldfastError) as caught:
                use()
            assert caught.value.hint


@contextmanager
def _answering(answer: bytes) -> Iterator[int]:
    """Listen, and give everyone the same answer to everything."""

    def serve(client: socket.socket) -> None:
        with client, suppress(OSError):
            while client.recv(65536):
                client.sendall(answer)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield listening.getsockname()[1]
