"""A process that has imported the program and forks one for each command: `forking_process.py CHANNEL LISTENER PART`.

Its only user is `preloaded_command`. It imports nothing else of the tests: the forks would have it, too.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import pkgutil
import runpy
import select
import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module

LARGE = ("holdfast.mcp_server", "holdfast.agents.acp")
"""Parts of the program that import large libraries for few commands. They are imported if they are named."""


def _serve(channel: socket.socket, listener: socket.socket) -> list[int]:
    """Fork for each request: those on the channel, and the one that each connection brings.

    Return in the fork, with what the request brought; with nothing once nobody asks on the channel any more. A command that has ended keeps its process id until whoever asked for it knows: nobody's signal may meet another process.
    """
    running: dict[int, tuple[int, int]] = {}
    told: dict[int, int] = {}
    waiting = select.poll()
    waiting.register(channel, select.POLLIN)
    waiting.register(listener, select.POLLIN)
    while True:
        for ready, _ in waiting.poll():
            waiting.unregister(ready)
            if ready in told:
                os.waitpid(told.pop(ready), 0)
                os.close(ready)
            elif ready in running:
                pid, end = running.pop(ready)
                _tell_end(pid, end)
                os.close(ready)
                told[end] = pid
                waiting.register(end, 0)  # the kernel always tells that the other end was closed
            else:
                waiting.register(ready, select.POLLIN)
                given = _receive(channel if ready == channel.fileno() else listener.accept()[0])
                if not given and ready != channel.fileno():
                    continue  # who connected was ended before it asked
                if not given or (pid := os.fork()) == 0:
                    return given
                running[ended := os.pidfd_open(pid)] = pid, given.pop()
                waiting.register(ended, select.POLLIN)
                for descriptor in given:
                    os.close(descriptor)


def _receive(channel: socket.socket) -> list[int]:
    return socket.recv_fds(channel, 1, 5)[1]


def _tell_end(pid: int, end: int) -> None:
    found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert found is not None
    code = found.si_status if found.si_code == os.CLD_EXITED else -found.si_status
    with suppress(BrokenPipeError):  # nobody wants to know
        os.write(end, b"%d\n" % code)


def _become_command(request: int, *streams: int) -> str:
    """Take on what a command of its own would have been started with, and say so. Return the program, if it is another one."""
    os.lseek(request, 0, os.SEEK_SET)
    with os.fdopen(request, "rb") as file:
        asked = json.load(file)
    for number, stream in enumerate(streams[:3]):
        os.dup2(stream, number)
    # The others were made for pipes; this one may have been made for a file.
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    if asked.get("session"):
        os.setsid()
    os.write(streams[3], b"%d\n" % os.getpid())
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    os.chdir(asked["here"])
    os.environ.clear()
    os.environ.update(asked["env"])
    sys.argv[1:] = asked["words"]
    return str(asked.get("program", ""))


def _run_command(program: str) -> None:
    """Do what `python -m holdfast` or `python -c PROGRAM` does.

    What was there before the fork is not freed at the end: that takes longer than most commands.
    """
    code = 0
    try:
        if program:
            sys.path.insert(0, "")
            exec(program, {"__name__": "__main__"})
        else:
            runpy.run_module("holdfast", run_name="__main__", alter_sys=True)
    except SystemExit as left:
        if not isinstance(left.code, int):
            raise
        code = left.code
    gc.collect()  # so that what the command itself left behind complains as it does when an interpreter ends
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)


def _preload(part: str) -> None:
    import holdfast

    left_out = ("holdfast.__main__", *(large for large in LARGE if large != part))
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
        if not module.name.startswith(left_out):
            import_module(module.name)
    gc.collect()
    gc.freeze()  # else the collector of each fork would touch, and thereby copy, every object there is


if __name__ == "__main__":
    _preload(sys.argv.pop())
    if received := _serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:])):
        _run_command(_become_command(*received))
