"""The `holdfast` program: runs one command and turns errors into a message and an exit code.

Start-up is kept short: `commands.py` imports a command's module only when the command is given. Agents call
`holdfast report` very often, so it does not use the parser of the other commands.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from holdfast.errors import ExitCode, HoldfastError
from holdfast.system_errors import machine_error


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    _fill_closed_streams()
    _tolerate_any_text()
    try:
        return _dispatch(words)
    except HoldfastError as error:
        _complain(error)
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader of our output closed the pipe; nothing is wrong.
        _silence()
        return ExitCode.DONE
    except OSError as error:
        # A disk can fail under any call. What was recorded stays; the rest is done again.
        refused = machine_error(error, "run the command again", _act(words, error))
        _complain(refused)
        return refused.exit_code


def _act(words: list[str], error: OSError) -> str:
    """Return what failed where nothing more exact is known: the command as a whole."""
    return "" if hasattr(error, "__notes__") else f"finish `holdfast {' '.join(words[:1])}`"


def _fill_closed_streams() -> None:
    """Open /dev/null where a standard stream is closed: a print must not fail or go into another file."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, mode))


def _tolerate_any_text() -> None:
    """Escape characters that the terminal's encoding lacks: a goal in any script must not end a command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["report"]:
        from holdfast.cli.report import execute as report

        return report(words[1:])
    from holdfast.cli.commands import execute

    code = execute(words)
    _flush()
    return code


def _flush() -> None:
    """Write what is still buffered; a reader that left early does not change the exit code."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()


def _silence() -> None:
    from holdfast.views.terminal import silence

    silence(sys.stdout)


def _complain(error: HoldfastError) -> None:
    from holdfast.views.text import block

    hint = block(error.hint, "  ")
    print("\n".join([*block(f"holdfast: {error.message}", ""), *hint]), file=sys.stderr)
