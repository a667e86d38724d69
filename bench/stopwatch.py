"""`python stopwatch.py NOTE COMMAND…`: run a command and write down its processor time, in the workspace.

The agents of W8 run under it: only the parent can measure exactly what an ended process and its children
took. Few imports, because the time of this program itself must be subtracted.
"""

from __future__ import annotations

import os
import resource
import sys


def main(name: str, command: list[str]) -> None:
    """Run the command. The note has the time of the command and of this program."""
    pid = os.posix_spawn(command[0], command, os.environ)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    times = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    with open(name, "w") as note:  # noqa: PTH123 - pathlib would double what this takes
        note.write(" ".join(f"{usage.ru_utime + usage.ru_stime:.6f}" for usage in times))
    os._exit(code)  # time of the interpreter's shutdown could not be noted


main(sys.argv[1], sys.argv[2:])
