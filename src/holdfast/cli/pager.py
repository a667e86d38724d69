"""The user's pager and colours, chosen as git chooses them, for text that may be longer than the screen.

Both come from the environment and from the user's own git configuration. The repository's configuration, which agents can
write, is not asked: our git does not see it.
"""

from __future__ import annotations

import os
import sys

from holdfast.process.programs import show_in_pager
from holdfast.repo.git import Git, decode_text
from holdfast.views.terminal import DrawingOutput

_NO_PAGER = ("", "cat")
_DEFAULT = "less"
_VARIABLES = {"LESS": "FRX", "LV": "-c"}
"""What git sets for its pagers where the user has not: quit if it fits, keep colours, keep the screen."""
_OFF = frozenset({"false", "never", "no", "off", "0"})
_PARTS = {"meta": "bold", "frag": "cyan", "old": "red", "new": "green"}
"""The parts of a patch that have a colour, and git's own choice for each."""


def users_colours(git: Git) -> dict[str, str] | None:
    """Return how the user's terminal shows the parts of a patch; None if there shall be no colours."""
    wanted = (_setting(git, "color.diff") or _setting(git, "color.ui") or "auto").lower()
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb" or not sys.stdout.isatty()
    if wanted in _OFF or (plain and wanted != "always") or os.environ.get("NO_COLOR"):
        return None
    return {part: _colour(git, part, usual) for part, usual in _PARTS.items()}


def show_long(text: str, git: Git) -> None:
    """Print a text, on a terminal through the user's pager. In a pipe there never is one."""
    command = _pager(git)
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb" or command.strip() in _NO_PAGER:
        out = DrawingOutput(sys.stdout)  # colours are our own; what agents wrote has none left
        out.write(text + "\n")
        out.flush()
        return
    sys.stdout.flush()
    show_in_pager(command, text + "\n", _VARIABLES)


def _pager(git: Git) -> str:
    """Return the user's pager as a line for the shell; empty if the user wants none."""
    for choice in (os.environ.get("GIT_PAGER"), _setting(git, "core.pager"), os.environ.get("PAGER")):
        if choice is not None:
            return choice
    return _DEFAULT


def _setting(git: Git, key: str) -> str | None:
    asked = git.try_run("config", "--get", key)
    return decode_text(asked.stdout).rstrip("\n") if asked.rc == 0 else None


def _colour(git: Git, part: str, usual: str) -> str:
    asked = git.try_run("config", "--get-color", f"color.diff.{part}", usual)
    return decode_text(asked.stdout) if asked.rc == 0 else ""
