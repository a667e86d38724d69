"""`python stopwatch.py NOTES COMMAND…`: run a command and leave a note of the processor time that it took.

The agents of W8 run under it: nobody else can say exactly what a process and all below it took once it has ended. Few
imports, because what this program takes itself has to be taken off again.
"""

from __future__ import annotations

import os
import resource
import sys


def main(notes: str, command: list[str]) -> None:
    """Run the command; the note, named by this process, says what the command took and what watching it took."""
    pid = os.posix_spawn(command[0], command, os.environ)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    times = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    with open(f"{notes}/{os.getpid()}", "w") as note:  # noqa: PTH123 - pathlib would double what this takes
        note.write(" ".join(f"{usage.ru_utime + usage.ru_stime:.6f}" for usage in times))
    os._exit(code)  # what the interpreter would do at its end could not be noted any more


main(sys.argv[1], sys.argv[2:])
