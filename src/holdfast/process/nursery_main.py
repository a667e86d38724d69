"""The program of the nursery: a small process that forks a supervisor per launch, and knows nothing else.

It exists because a fork of it costs a fraction of a fork of the runner, and carries none of the runner's files.
It ends when the runner does; the supervisors live on.
"""

from __future__ import annotations

import gc
import os
import select
import socket
from contextlib import suppress

from holdfast.process import signals, supervisor
from holdfast.process.procfs import boot_id


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
        self.door = socket.socket(fileno=door)
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
                links = socket.recv_fds(self.door, 1, 1, socket.MSG_CMSG_CLOEXEC)[1]
                if not links:
                    return False
                self._fork(links[0])
        return True

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
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
