"""Signals as bytes to read, so that one poll waits for output, children and orders to stop alike.

Handlers are installed once, in the nursery, and come to every supervisor with the fork.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

STOP = int(signal.SIGTERM)


def install(on_child: Callable[..., None]) -> None:
    """Let SIGTERM and SIGCHLD ring the bell, and no other request to end be heard. Installed again, nothing changes."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGTERM, _ring)
    signal.signal(signal.SIGCHLD, on_child)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


class Bell:
    """The descriptor that becomes readable with each signal of this process."""

    def __init__(self) -> None:
        self.fd, rope = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(rope, warn_on_full_buffer=False)

    def numbers(self) -> bytes:
        """Return the numbers of the signals that came; call it when the descriptor is readable."""
        return os.read(self.fd, 4096)


def _ring(*_: object) -> None:
    """Do nothing: that a handler exists is what makes the kernel's signal ring the bell."""
