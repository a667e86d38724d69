"""The `holdfast` program: runs one command and turns errors into a message and an exit code.

Start-up is kept short: `commands.py` imports a command's module only when the command is given. Agents call
`holdfast report` very often, and shells complete while somebody types, so these do not use the parser of the others.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from holdfast.errors import ExitCode, HoldfastError
from holdfast.escapes import without_controls
from holdfast.system_errors import as_system_error, machine_error

_SHOWN_CHARS = 200


def program() -> int:
    """Run the command that was typed, as a process of its own; return its exit code."""
    code = main()
    if "temporalio" in sys.modules:
        # Its threads abort one in a few interpreters that end while they run. All that counts is on disk by now.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


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
    except UnicodeError as error:
        _complain(_unreadable(words, error))
        return ExitCode.BAD_INPUT
    except (OSError, MemoryError, RuntimeError) as error:
        # A disk can fail under any call. What was recorded stays; the rest is done again.
        if (refused := as_system_error(error)) is None:
            raise
        explained = machine_error(refused, "run the command again", _act(words, refused))
        _complain(explained)
        return explained.exit_code


def _act(words: list[str], error: OSError) -> str:
    """Return what failed where nothing more exact is known: the command as a whole."""
    return "" if hasattr(error, "__notes__") else _whole(words)


def _whole(words: list[str]) -> str:
    return f"finish `holdfast {' '.join(words[:1])}`"


def _unreadable(words: list[str], error: UnicodeError) -> HoldfastError:
    """Return the error for a name or a text in bytes that are no characters."""
    found = (
        ascii(error.object)[:_SHOWN_CHARS]
        if isinstance(error, UnicodeDecodeError | UnicodeEncodeError)
        else ""
    )
    return HoldfastError(
        f"could not {_whole(words)}: {found or 'a name'} is not valid UTF-8",
        "Rename the file or branch that has this name (`ls -b` shows such bytes), then run the command again.",
    )


def _fill_closed_streams() -> None:
    """Open /dev/null where a standard stream is closed: a print must not fail or go into another file."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, mode))


class _SafeOutput(TextIOWrapper):
    """A standard stream to which no text can give orders. Whatever a command prints goes through it.

    Goals, titles, errors, file names and branches come from agents and repositories. What draws by itself writes
    through `views/terminal.py`.
    """

    def write(self, text: str) -> int:
        """Write a text without control characters."""
        return super().write(without_controls(text))


def _tolerate_any_text() -> None:
    """Let any text be printed: without control characters, and with escapes for what the terminal's encoding lacks.

    A goal in any script must not end a command.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if type(stream) is TextIOWrapper:
            encoding, lines, at_once = stream.encoding, stream.line_buffering, stream.write_through
            stream = _SafeOutput(stream.detach(), encoding, line_buffering=lines, write_through=at_once)
            setattr(sys, name, stream)
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["report"]:
        from holdfast.cli.report import execute as report

        return report(words[1:])
    if words[:1] == ["completion"] and words[1:2] in (["--runs"], ["--tasks"]):
        from holdfast.cli.completion_names import print_names

        return print_names(words[1:])
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
    from holdfast.core.ids import with_run_numbers
    from holdfast.redaction import redact
    from holdfast.views.text import block, with_local_times

    try:
        sys.stdout.flush()  # both may end in one file
    except OSError:
        _silence()
    # The user's own words are repeated, and an address among them may have a password.
    message, hint = with_local_times(redact(error.message)), with_local_times(with_run_numbers(error.hint))
    print("\n".join([*block(f"holdfast: {message}", ""), *block(hint, "  ")]), file=sys.stderr)
