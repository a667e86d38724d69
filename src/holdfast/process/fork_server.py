"""The runner's end of the fork server: starts it, hands it links to new supervisors, replaces one that died.

The program that runs on the other end is `fork_server_main`.
"""

from __future__ import annotations

import array
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import holdfast
from holdfast.errors import LaunchError

_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from holdfast.process.fork_server_main import main; main(int(sys.argv[2]))"
_HAND_OVER_S = 5.0


class ForkServer:
    """One process that forks supervisors. It is started when first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None

    def hand_over(self, link: socket.socket, holds: Sequence[int] = ()) -> None:
        """Give `link` to a new supervisor, which keeps the descriptors `holds` open for as long as it lives.

        A fork server that died is replaced. Raises LaunchError when none can be started.
        """
        for _ in range(2):
            if self._channel is None:
                self._start()
            try:
                self._send([link.fileno(), *holds])
            except OSError:
                self.close()
            else:
                return
        raise LaunchError("no process could be started to supervise the agent", "see `holdfast doctor`")

    def continue_if_stopped(self) -> None:
        """Let a fork server go on that somebody stopped by a signal. A running one takes no notice."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End the fork server; supervisors live on. Idempotent."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        root = Path(holdfast.__file__).parents[1]
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _PROGRAM, str(root), str(theirs.fileno())],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    # Symbols bound once here need not be looked up again in every fork.
                    env={**os.environ, "LD_BIND_NOW": "1"},
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise LaunchError(f"{sys.executable} cannot be started: {error.strerror}") from error
        ours.settimeout(_HAND_OVER_S)
        self._channel = ours

    def _send(self, descriptors: list[int]) -> None:
        assert self._channel is not None
        rights = array.array("i", descriptors)
        self._channel.sendmsg([b"+"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
