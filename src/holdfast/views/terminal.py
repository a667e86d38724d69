"""What kind of place output goes to, and what to do when its reader went away."""

from __future__ import annotations

import os
import shutil
from typing import TextIO

_NARROWEST = 40
_WIDE = 120


def supports_live_display(out: TextIO) -> bool:
    """Tell whether a moving picture is welcome: a terminal that can do it, and nobody asked for plain text."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def terminal_width() -> int:
    """Return how many columns a line may have: what COLUMNS or the terminal says, else enough for a wide table."""
    return max(_NARROWEST, shutil.get_terminal_size((_WIDE, 0)).columns)


def silence(out: TextIO) -> None:
    """Let everything still to be written vanish, because nobody reads any more. Repeating it changes nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, out.fileno())
    os.close(nowhere)


def write_line(text: str, out: TextIO) -> None:
    """Write a line and make sure that it is out. A reader that went away, or a full disk, does not stop the teller."""
    try:
        out.write(text + "\n")
        out.flush()
    except OSError:
        silence(out)
