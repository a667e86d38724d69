"""What a Redis server must be to hold a journal, and what it says of what it keeps."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from holdfast.errors import JournalError, StoreUnavailableError
from holdfast.journal import open_reader
from holdfast.journal.address import JournalAddress
from holdfast.journal.protocol import StoreDurability
from holdfast.journal.redis import RedisJournal
from tests.contract.journals import RUN, begin
from tests.support.command import eventually
from tests.support.redis_server import RedisServerProcess, free_port
from tests.support.servers import running


@pytest.fixture
def server() -> Iterator[RedisServerProcess]:
    """A server of the test's own."""
    with running(RedisServerProcess.start) as started:
        yield started


def _durability(url: str, *, accept_volatile: bool = False) -> StoreDurability:
    with closing(RedisJournal.open(JournalAddress(url, "r", accept_volatile=accept_volatile))) as journal:
        return journal.durability


def _said_at_opening(server: RedisServerProcess) -> str:
    """Return how a server that is away now says so; empty if it does not."""
    try:
        RedisJournal.open(JournalAddress(server.url, "r")).close()
    except StoreUnavailableError as error:
        return error.message
    return ""


def _user(server: RedisServerProcess, *rights: str) -> str:
    """Make a user with all rights but some; return the address with its name."""
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "limited", "on", ">pw", "~*", "&*", "+@all", *rights)
    return server.url.replace("127", "limited:pw@127")


def test_a_server_that_syncs_each_write_keeps_all_it_acknowledged(server: RedisServerProcess) -> None:
    """Without replicas there is no failover to speak of."""
    found = _durability(server.url)
    assert (found.server_killed, found.power_cut, found.failover, found.is_volatile) == (
        True,
        True,
        None,
        False,
    )
    assert found.sentence == "An acknowledged event survives a kill of the server and a power cut."


@pytest.mark.parametrize(
    ("setting", "value", "words"),
    [
        ("appendfsync", "everysec", "last seconds with it: appendfsync everysec"),
        ("appendfsync", "no", "half minute or more with it: appendfsync no"),
        ("no-appendfsync-on-rewrite", "yes", "half minute or more with it: appendfsync always, no-appendfsync-on-rewrite yes"),
    ],
)  # fmt: skip
def test_a_server_that_syncs_later_says_what_it_may_lose(
    server: RedisServerProcess, setting: str, value: str, words: str
) -> None:
    """It is used: git knows what landed, and a gap is noticed."""
    server.set(setting, value)
    found = _durability(server.url)
    assert (found.power_cut, found.is_volatile) == (False, False)
    assert words in found.sentence


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"appendonly": "no"}, "memory only"),
        ({"maxmemory-policy": "allkeys-lru", "maxmemory": "100mb"}, "drops keys"),
    ],
)
def test_a_server_that_may_forget_is_refused_unless_the_user_accepts_it(
    server: RedisServerProcess, settings: dict[str, str], words: str
) -> None:
    """The error names the settings to change. Nothing is written."""
    for name, value in settings.items():
        server.set(name, value)
    with pytest.raises(JournalError, match=words) as caught:
        RedisJournal.open(JournalAddress(server.url, "r"))
    for setting in (
        "appendonly yes",
        "appendfsync always",
        "maxmemory-policy noeviction",
        "--accept-volatile",
    ):
        assert setting in caught.value.hint
    with server.client() as client:
        assert client.dbsize() == 0
    assert _durability(server.url, accept_volatile=True).server_killed is False


@pytest.mark.parametrize("settings", [{"maxmemory-policy": "volatile-lru", "maxmemory": "100mb"}, {"maxmemory-policy": "allkeys-lru"}])  # fmt: skip
def test_a_policy_that_cannot_drop_our_keys_is_no_reason_to_refuse(
    server: RedisServerProcess, settings: dict[str, str]
) -> None:
    """Keys that never expire are spared, and without a limit nothing is dropped."""
    for name, value in settings.items():
        server.set(name, value)
    assert not _durability(server.url).is_volatile


def test_a_user_who_may_not_ask_for_settings_is_told_that_a_part_is_unknown(
    server: RedisServerProcess,
) -> None:
    """As with many hosted servers. That there is a log is known without them."""
    found = _durability(_user(server, "-config"))
    assert (found.power_cut, found.is_volatile) == (None, False)
    assert "may not ask how often" in found.sentence


def test_a_server_of_which_nothing_can_be_known_is_refused_unless_accepted(
    server: RedisServerProcess,
) -> None:
    """Not knowing is no promise."""
    url = _user(server, "-config", "-info")
    with pytest.raises(JournalError, match="cannot be known") as refused:
        RedisJournal.open(JournalAddress(url, "r"))
    assert "+info" in refused.value.hint
    assert _durability(url, accept_volatile=True).power_cut is None


def test_a_server_that_still_loads_its_log_is_waited_for_and_not_called_volatile() -> None:
    """Meanwhile it says that it keeps none. It looks at its clients after each thousand commands of the log."""
    server = RedisServerProcess.start()
    try:
        with server.client() as client, client.pipeline(transaction=False) as commands:
            for number in range(10_000):
                commands.set("of others", number)
            commands.execute()
        server.kill()
        server.settings |= {"key-load-delay": "200"}
        with ThreadPoolExecutor(1) as pool:
            # The server ends with the thread that starts it.
            seen = pool.submit(eventually, lambda: "loads its data" in _said_at_opening(server), "it loads")
            server.launch()
            seen.result()
        assert _said_at_opening(server) == ""
    finally:
        server.stop()


def test_a_replica_is_read_but_not_written(server: RedisServerProcess) -> None:
    """The error names the server that it follows, and that one says that a failover may lose something."""
    replica = RedisServerProcess.start(replicaof=f"127.0.0.1 {server.port}")
    try:
        with closing(RedisJournal.open(JournalAddress(server.url, "r"))) as journal:
            begin(journal)
        with replica.client() as client:
            eventually(lambda: client.dbsize() > 0, "the replica follows")
        with pytest.raises(JournalError, match=f"read-only replica of 127.0.0.1:{server.port}") as caught:
            RedisJournal.open(JournalAddress(replica.url, "r"))
        assert "redis+sentinel://" in caught.value.hint
        with closing(open_reader(JournalAddress(replica.url, "r"))) as reader:
            assert reader.load(RUN).last_seq == 1
        found = _durability(server.url)
        assert found.failover is False
        assert "A failover may lose the last moment" in found.sentence
    finally:
        replica.stop()


def test_a_node_of_a_cluster_is_refused(server: RedisServerProcess) -> None:
    """It keeps only a part of the keys."""
    server.kill()
    server.settings |= {"cluster-enabled": "yes", "cluster-port": str(free_port())}
    server.launch()
    with pytest.raises(JournalError, match="Redis Cluster"):
        RedisJournal.open(JournalAddress(server.url, "r"))


def _answering(answer: bytes) -> int:
    """Return a port at which every request gets the same answer."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener, listener.accept()[0] as connection, suppress(OSError):
            while connection.recv(65536):
                connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    port: int = listener.getsockname()[1]
    return port


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"$20\r\nredis_version:6.2.14\r\n", "is Redis 6.2.14, which is too old"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not answer as Redis does"),
        (b"220 mail.example ESMTP\r\n", "does not answer as Redis does"),
    ],
)
def test_a_server_that_is_too_old_or_no_redis_is_refused(answer: bytes, words: str) -> None:
    """Before anything is written."""
    with pytest.raises(JournalError, match=words) as caught:
        RedisJournal.open(JournalAddress(f"redis://127.0.0.1:{_answering(answer)}", "r"))
    assert caught.value.hint
