"""The protocol of Redis over one socket: what comes in pieces, what is an error, and what is no answer at all."""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterator
from contextlib import closing
from threading import Thread

import pytest

from holdfast.journal.redis_socket import RedisAnswerError, RedisSocket, StrangeAnswerError


@pytest.fixture
def ends() -> Iterator[tuple[RedisSocket, socket.socket]]:
    """Our end of a connection, and the end of the server."""
    ours, theirs = socket.socketpair()
    with closing(RedisSocket(ours)) as connected, theirs:
        yield connected, theirs


class _OneByteAtATime(socket.socket):
    """A socket on whose way everything is cut into pieces."""

    def recv(self, _size: int, _flags: int = 0) -> bytes:
        return super().recv(1)


def test_an_answer_is_the_same_however_it_is_cut_into_pieces() -> None:
    """Each byte may come by itself, also within a length and within the end of a line."""
    ours, server = socket.socketpair()
    with closing(RedisSocket(_OneByteAtATime(fileno=ours.detach()))) as connected, server:
        server.sendall(b"*6\r\n$7\r\na\r\nb\r\nc\r\n$0\r\n\r\n$-1\r\n:-12\r\n*2\r\n+OK\r\n*0\r\n*-1\r\n")
        assert connected.answer() == [b"a\r\nb\r\nc", b"", None, -12, [b"OK", []], None]


def test_a_large_answer_comes_whole_and_leaves_the_next_one(ends: tuple[RedisSocket, socket.socket]) -> None:
    """Larger than what a socket takes at once."""
    connected, server = ends
    body = bytes(range(256)) * 20_000
    sending = Thread(target=lambda: server.sendall(b"$%d\r\n%b\r\n:7\r\n" % (len(body), body)))
    sending.start()
    assert connected.answer() == body
    assert connected.answer() == 7
    sending.join()


def test_an_error_has_a_code_and_the_next_answer_is_not_lost(
    ends: tuple[RedisSocket, socket.socket],
) -> None:
    """`ERR` says nothing, and is left out of the text."""
    connected, server = ends
    server.sendall(b"-ERR unknown command\r\n-OOM command not allowed\r\n+OK\r\n")
    for code, text in (("ERR", "unknown command"), ("OOM", "OOM command not allowed")):
        with pytest.raises(RedisAnswerError) as caught:
            connected.answer()
        assert (caught.value.code, str(caught.value)) == (code, text)
    assert connected.answer() == b"OK"


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n", b"$many\r\n", b"\r\n"])
def test_what_is_no_answer_is_not_taken_for_one(ends: tuple[RedisSocket, socket.socket], said: bytes) -> None:
    """Somebody else listens at that address."""
    connected, server = ends
    server.sendall(said)
    with pytest.raises(StrangeAnswerError):
        connected.answer()


def test_a_message_that_came_with_another_one_is_not_waited_for(
    ends: tuple[RedisSocket, socket.socket],
) -> None:
    """It is here already, though nothing more can be read from the socket."""
    connected, server = ends
    server.sendall(b"+first\r\n+second\r\n")
    assert connected.answer() == b"first"
    assert connected.can_read(0)
    assert connected.answer() == b"second"
    assert not connected.can_read(0)


def test_the_end_of_the_connection_is_an_error_of_the_way(
    ends: tuple[RedisSocket, socket.socket],
) -> None:
    """In the middle of an answer, too."""
    connected, server = ends
    server.sendall(b"$10\r\nhalf")
    server.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionError):
        connected.answer()


def test_a_connection_that_nobody_has_any_more_is_closed_in_silence() -> None:
    """A reader that is dropped leaves nothing open and warns nobody, also if it is part of a circle."""
    ours, server = socket.socketpair()
    circle: list[object] = [RedisSocket(ours)]
    circle.append(circle)
    del ours, circle
    gc.collect()
    with server:
        assert server.recv(1) == b""
