"""How a command is asked for where commands are forked, and a process that stands in for it: `fork_request.py ADDRESS PROGRAM WORD…`.

The stand-in is for whoever starts a process by its command line, as a client does with its server. The command has its streams,
folder and environment, and gets its SIGTERM. It must start at once: this module imports little and nothing of ours.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence


def ask(channel: socket.socket, request: Mapping[str, object], streams: Sequence[int]) -> int:
    """Have a command forked with these streams, which are closed here; return where its process id and its code can be read."""
    end, their_end = os.pipe()
    given = [os.memfd_create("request"), *streams, their_end]
    os.write(given[0], json.dumps(request).encode())
    socket.send_fds(channel, [b"+"], given)
    for descriptor in given:
        os.close(descriptor)
    return end


def _stand_in(address: str, words: Sequence[str], program: str) -> int:
    """Have a command forked and stay until it ends; return its code, or what a shell says for a signal."""
    request = {
        "here": os.getcwd(),  # noqa: PTH109 -- pathlib takes longer than the rest
        "words": words,
        "env": dict(os.environ),
        "program": program,
        "session": True,
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])  # it may come before there is whom to tell
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as channel:
        channel.connect(f"\0{address}")
        said = os.fdopen(ask(channel, request, (0, 1, os.dup(2))))
    pid = int(said.readline())
    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
    code = int(said.readline())
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(_stand_in(sys.argv[1], sys.argv[3:], sys.argv[2]))
