"""The program of the nursery: a small process that forks a supervisor per launch, and knows nothing else.

It exists because a fork of it costs a fraction of a fork of the runner, and carries none of the runner's files.
It ends when the runner does; the supervisors live on.
"""

from __future__ import annotations

import _socket  # the socket module itself brings enums and selectors that every fork would copy
import gc
import os
import select
import sys

from holdfast.process import signals, supervisor
from holdfast.process.procfs import boot_id

_LINK_BYTES = _socket.CMSG_SPACE(4)  # room for one descriptor


def main(door: int) -> None:
    """Fork a supervisor for each link that arrives through `door`, until the runner closes it or dies."""
    signals.install()
    nursery = _Nursery(door, boot_id())
    # Objects that the collector never walks stay on pages that are never copied after a fork.
    gc.disable()
    gc.freeze()
    while nursery.turn():
        continue


class _Nursery:
    def __init__(self, door: int, boot: str) -> None:
        self.boot = boot
        self.door = _socket.socket(fileno=door)
        self.bell = signals.Bell()
        self.poll = select.poll()
        self.poll.register(self.door, select.POLLIN)
        self.poll.register(self.bell.fd, select.POLLIN)

    def turn(self) -> bool:
        """Wait for an order or the end of a supervisor; return False when the nursery is to end."""
        for fd, _ in self.poll.poll():
            if fd == self.bell.fd:
                if signals.STOP in self.bell.numbers():
                    return False
                _reap()
            else:
                link = self._receive()
                if link is None:
                    return False
                self._fork(link)
        return True

    def _receive(self) -> int | None:
        """Return the link of the next launch, or None when the runner is gone."""
        parts = self.door.recvmsg(1, _LINK_BYTES, _socket.MSG_CMSG_CLOEXEC)[1]
        return int.from_bytes(parts[0][2][:4], sys.byteorder) if parts else None

    def _fork(self, link: int) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            os.write(link, f"fork: {error.strerror}".encode())
            pid = -1
        if pid == 0:
            try:
                self.door.close()
                self.bell.close()
                supervisor.main(link, self.boot)
            finally:
                os._exit(0)
        os.close(link)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return  # none is left
