"""A preloaded interpreter: it has imported the program and forks a copy of itself for each command.

Starting Python costs more than what most commands of a sweep do. Only commands that are not to be broken run here.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.crash.sample_run import environment

COMMAND_S = 60


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; `code` is negative for a signal, as after a command that took too long."""

    code: int
    output: str


class PreloadedProgram:
    """One preloaded interpreter. Commands run one after the other."""

    def __init__(self, bug: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.preloaded_program", bug],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, cwd: Path, *argv: str) -> Ended:
        """Run the program's main function with these arguments, as a process of its own."""
        assert self._process.stdin
        assert self._process.stdout
        with tempfile.NamedTemporaryFile() as output:
            request = {"argv": argv, "cwd": str(cwd), "output": output.name}
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            return Ended(code, Path(output.name).read_text("utf-8", "replace"))

    def close(self) -> None:
        """End the interpreter."""
        with self._process as process:
            process.kill()


def _serve(bug: str) -> None:
    from holdfast.cli.commands import module_of
    from holdfast.cli.main import main
    from tests.crash.planted_bugs import plant

    for command in ("run", "resume", "status"):
        # Loaded before the forks, which then need not.
        module_of(command)
    plant(bug)
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            os._exit(_child(main, request))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _child(main: object, request: dict[str, object]) -> int:
    assert callable(main)
    signal.alarm(COMMAND_S)
    os.chdir(str(request["cwd"]))
    sink = os.open(str(request["output"]), os.O_WRONLY | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, sink), (2, sink)):
        os.dup2(source, target)
    sys.argv = ["holdfast", *map(str, request["argv"])]  # type: ignore[call-overload]
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
    _serve(sys.argv[1])
