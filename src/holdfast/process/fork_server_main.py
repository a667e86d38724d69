"""The program of the fork server: a small process that forks a supervisor per launch, and knows nothing else.

It exists because a fork of it costs a fraction of a fork of the runner, and carries none of the runner's files.
It ends when the runner does; the supervisors live on.
"""

from __future__ import annotations

import _socket  # the socket module itself brings enums and selectors that every fork would copy
import gc
import os
import sys

from holdfast.boot import boot_id
from holdfast.process import supervisor

_INT = 4
_RIGHTS_BYTES = _socket.CMSG_SPACE(_INT * 8)  # room for the link and what the supervisor holds for the runner


def main(channel: int) -> None:
    """Fork a supervisor for each link that arrives through `channel`, until the runner closes it or dies."""
    fork_server = os.getpid()

    def reap(*_: object) -> None:
        # Supervisors get this handler with the fork, but reap by themselves: there it only wakes them.
        if os.getpid() == fork_server:
            _reap()

    supervisor.install_signal_handlers(reap)
    orders = _socket.socket(fileno=channel)
    boot = boot_id()
    # Objects that the collector never walks stay on pages that are never copied after a fork.
    gc.disable()
    gc.freeze()
    while received := _receive(orders):
        _fork(received, channel, boot)


def _receive(orders: _socket.socket) -> list[int]:
    """Return the link of the next launch and the descriptors to hold during it; nothing when the runner is gone."""
    parts = orders.recvmsg(1, _RIGHTS_BYTES, _socket.MSG_CMSG_CLOEXEC)[1]
    data = parts[0][2] if parts else b""
    return [int.from_bytes(data[at : at + _INT], sys.byteorder) for at in range(0, len(data), _INT)]


def _fork(received: list[int], channel: int, boot: str) -> None:
    """Start a supervisor. It gets the descriptors to hold with the fork; only the fork server closes them."""
    link = received[0]
    try:
        pid = os.fork()
    except OSError as error:
        os.write(link, f"fork: {error.strerror}".encode())
        pid = -1
    if pid == 0:
        try:
            os.close(channel)
            supervisor.main(link, boot)
        finally:
            os._exit(0)
    for fd in received:
        os.close(fd)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return  # none is left
