"""Standard output and error: what a terminal can show, and what to do when the reader is gone."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from io import TextIOBase, TextIOWrapper
from typing import TextIO

_NARROWEST = 40
_WIDE = 120
ANY_WIDTH = 10_000
"""For a pipe in which a row of a table is one line, for whoever searches it."""


def supports_live_display(out: TextIO) -> bool:
    """Tell whether to draw a live table: on a terminal that can, unless the user asked for plain text."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class DrawingOutput(TextIOBase):
    """A stream for a live display, whose control sequences are our own. What it draws on is fixed at the beginning."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def write(self, text: str) -> int:
        """Write a text as it is."""
        if isinstance(self._out, TextIOWrapper):
            return TextIOWrapper.write(self._out, text)
        return self._out.write(text)

    def flush(self) -> None:
        """Flush the stream."""
        self._out.flush()

    def isatty(self) -> bool:
        """Tell whether the stream is a terminal."""
        return self._out.isatty()

    def fileno(self) -> int:
        """Return the stream's descriptor."""
        return self._out.fileno()


def terminal_width(in_pipe: int = _WIDE) -> int:
    """Return how many columns a line may have, by COLUMNS or the terminal; in a pipe enough for a wide table."""
    return max(_NARROWEST, _columns_by_environment() or _columns_of_output() or in_pipe)


def _columns_by_environment() -> int:
    with suppress(ValueError):
        return int(os.environ.get("COLUMNS", ""))
    return 0


def _columns_of_output() -> int:
    """Return the columns of the terminal on standard output; 0 if it is none, or does not know.

    `shutil.get_terminal_size` would ask `sys.__stdout__`, which the program has replaced.
    """
    with suppress(OSError, ValueError):
        return os.get_terminal_size(sys.stdout.fileno()).columns
    return 0


def silence(out: TextIO) -> None:
    """Drop all pending output, because the reader is gone. Idempotent."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, out.fileno())
    os.close(nowhere)


def flush_output() -> None:
    """Write what was printed, before something goes to standard error: both may end in one file. As in `write_line`."""
    try:
        sys.stdout.flush()
    except OSError:
        silence(sys.stdout)


def write_line(text: str, out: TextIO) -> None:
    """Write a line and flush it. A closed reader or a full disk does not stop the writer."""
    try:
        out.write(text + "\n")
        out.flush()
    except OSError:
        silence(out)
