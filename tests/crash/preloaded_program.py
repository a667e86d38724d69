"""A preloaded interpreter: it has imported the program and forks a copy of itself for each command.

Starting Python costs more than what most commands of a sweep do, and so does what a process loads, compiles and reads on
first use: a first run does that before the forks. A command runs to its end here, or it waits to be traced by the fault
injector and broken.
"""

from __future__ import annotations

import ctypes
import gc
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast import disk_sync
from holdfast.runner.store_choice import STORE_VARIABLE
from tests.crash.faults import build_filter
from tests.crash.sample_run import CARRY_ON, PREVIEW, START, environment, git, make_template

COMMAND_S = 60
PRELOADED = (
    "adopt",
    "amend",
    "clean",
    "discard",
    "doctor",
    "give",
    "land",
    "list",
    "rebuild",
    "reset",
    "resume",
    "run",
    "status",
    "stop",
    "take",
)
STOPPED_BY_USER = "stopped-by-user"
"""Before the words of a command: a user at another terminal stops the run once the file named next is there.

The user's process id is in the file named after that.
"""
_LOOK_S = 0.02
_SET_PTRACER, _ANYBODY = 0x59616D61, ctypes.c_ulong(-1)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; `code` is negative for a signal, as after a command that took too long."""

    code: int
    output: str


class PreloadedProgram:
    """One preloaded interpreter. Commands run one after the other. With a `store`, runs are kept in that server."""

    def __init__(self, bug: str = "", store: str = "") -> None:
        self._messages = bool(store)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.preloaded_program", bug, str(build_filter())],
            env=environment() | ({STORE_VARIABLE: store} if store else {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, cwd: Path, *argv: str) -> Ended:
        """Run the program's main function with these arguments, as a process of its own."""
        with tempfile.NamedTemporaryFile() as output:
            code = self._ask({"argv": argv, "cwd": str(cwd), "output": output.name})
            return Ended(code, Path(output.name).read_text("utf-8", "replace"))

    def start(self, cwd: Path, argv: Sequence[str], output: Path, *, exchanges: bool) -> int:
        """Make a process that runs them once it is traced and continued; return its id."""
        filters = {"exchanges": exchanges, "messages": self._messages}
        return self._ask({"argv": argv, "cwd": str(cwd), "output": str(output), "traced": filters})

    def _ask(self, request: dict[str, object]) -> int:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End the interpreter."""
        with self._process as process:
            process.kill()


def _serve(bug: str, library: str) -> None:
    from holdfast.cli.commands import module_of
    from holdfast.cli.main import main
    from tests.crash.planted_bugs import plant

    for command in PRELOADED:
        # Loaded before the forks, which then need not.
        module_of(command)
    if bug:
        plant(bug)  # without a first run, which would be broken, too
    else:
        _run_once(main)
    install_filter = ctypes.CDLL(library, use_errno=True).install_filter
    install_filter.argtypes, install_filter.restype = [ctypes.c_bool, ctypes.c_bool], ctypes.c_bool
    gc.collect()
    gc.freeze()  # else the collector of each copy would touch, and thereby copy, every object there is
    for line in sys.stdin:
        request = json.loads(line)
        _reap()
        pid = os.fork()
        if pid == 0:
            os._exit(_child(main, request, install_filter))
        if request.get("traced"):
            os.waitpid(pid, os.WUNTRACED)
            print(pid, flush=True)
        else:
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _run_once(main: Any) -> None:
    """Run a plan in this very process. No thread may be left of it: a fork would not have it."""
    nothing = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        make_template(Path(folder, "repository"))
        # A store that is shared knows a repository by its first commit, which is that of every other template.
        git(Path(folder, "repository"), "config", "holdfast.repository", "preloaded")
        with redirect_stdout(nothing), redirect_stderr(nothing), chdir(Path(folder, "repository")):
            codes = [main(list(words)) for words in (START, CARRY_ON, PREVIEW)]
    disk_sync._threads().shutdown()
    disk_sync._threads.cache_clear()
    assert (codes, threading.enumerate()) == ([0, 0, 0], [threading.main_thread()])


def _reap() -> None:
    """Collect the processes that were traced and have ended."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def _child(main: Any, request: dict[str, Any], install_filter: Any) -> int:
    signal.alarm(COMMAND_S)
    os.chdir(request["cwd"])
    sink = os.open(request["output"], os.O_WRONLY | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, sink), (2, sink)):
        os.dup2(source, target)
    os.close(sink)
    os.close(nothing)
    if filters := request.get("traced"):
        ctypes.CDLL(None).prctl(_SET_PTRACER, _ANYBODY, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        assert install_filter(filters["exchanges"], filters["messages"])
    argv = request["argv"]
    if argv[0] == STOPPED_BY_USER:
        user = os.fork()
        if user == 0:
            return _stop_once_there(main, Path(argv[1]))
        Path(argv[2]).write_text(f"{user}\n")
        argv = argv[3:]
    return _called(main, argv)


def _stop_once_there(main: Any, file: Path) -> int:
    """Stop the run of the process that forked us. A user asks again if that fails, and then presses Ctrl-C."""
    runner = os.getppid()
    while os.getppid() == runner and not file.exists():
        time.sleep(_LOOK_S)
    while os.getppid() == runner:
        if 0 in (_called(main, ["stop", "--json"]) for _ in range(2)):
            return 0
        os.kill(runner, signal.SIGINT)
        time.sleep(_LOOK_S)
    return 0


def _called(main: Any, argv: Sequence[str]) -> int:
    sys.argv = ["holdfast", *argv]
    try:
        code = int(main(sys.argv[1:]) or 0)
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    _serve(sys.argv[1], sys.argv[2])
