"""Signals as bytes to read, so that one poll waits for output, children and orders to stop alike.

Handlers are installed once, in the nursery, and come to every supervisor with the fork.
"""

from __future__ import annotations

import os
import signal

STOP = int(signal.SIGTERM)


def install() -> None:
    """Let SIGTERM and SIGCHLD ring the bell, and nothing else stop us. Installed again, nothing changes."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, _ring)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


class Bell:
    """The descriptor that becomes readable with each signal of this process."""

    def __init__(self) -> None:
        self.fd, self._rope = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._rope, warn_on_full_buffer=False)

    def numbers(self) -> bytes:
        """Return the numbers of the signals that came; call it when the descriptor is readable."""
        return os.read(self.fd, 4096)

    def close(self) -> None:
        """Let go of a bell that came with the fork and belongs to the parent."""
        os.close(self.fd)
        os.close(self._rope)


def _ring(*_: object) -> None:
    """Do nothing: that a handler exists is what makes the kernel's signal ring the bell."""
