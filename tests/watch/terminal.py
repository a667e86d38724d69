"""A terminal of a given size with a command in it, kept by tmux: what is typed reaches it, what it shows can be read."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command import COMMAND, eventually

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
_COMMIT = re.compile(r"\b[0-9a-f]{12}\b")
_AGE = re.compile(r"\b\d+ (?:s|min) ago\b")


@dataclass(frozen=True, slots=True)
class Terminal:
    """One terminal with one window."""

    server: str

    def press(self, *keys: str) -> None:
        """Press keys, by tmux's names for them."""
        self._tmux("send-keys", "-t", "0", *keys)

    def type(self, text: str) -> None:
        """Type a text as it is."""
        self._tmux("send-keys", "-t", "0", "-l", text)

    def click(self, column: int, row: int) -> None:
        """Click with the mouse; the first column and row are 1."""
        # Pasted, because tmux would take an Escape among keys for one that somebody pressed.
        self._tmux("set-buffer", f"\x1b[<0;{column};{row}M\x1b[<0;{column};{row}m")
        self._tmux("paste-buffer", "-t", "0")

    def screen(self) -> str:
        """Return what is on the screen, without the spaces at the end of lines."""
        return "\n".join(
            line.rstrip() for line in self._tmux("capture-pane", "-p", "-t", "0").split("\n")
        ).rstrip()

    def drawn(self) -> str:
        """Return what is on the screen with the escapes that give it its looks."""
        return self._tmux("capture-pane", "-p", "-e", "-t", "0")

    def steady_screen(self) -> str:
        """Return what is on the screen, with the names of commits and ages replaced."""
        return _AGE.sub("N s ago", _COMMIT.sub("c" * 12, self.screen()))

    def shows(self, *texts: str) -> None:
        """Wait until every text is on the screen. A failure shows what was there first, too: a message may have gone since."""
        seen: list[str] = []

        def is_shown() -> bool:
            seen.append(self.screen())
            return all(text in seen[-1] for text in texts)

        try:
            eventually(is_shown, "")
        except AssertionError:
            first = "\n\n".join(list(dict.fromkeys(seen))[:3])
            pytest.fail(f"{texts} is not on the screen:\n{seen[-1]}\n\nit began with:\n{first}")

    def hides(self, text: str) -> None:
        """Wait until a text is no longer on the screen."""
        eventually(lambda: text not in self.screen(), f"{text} is gone")

    def _tmux(self, *words: str) -> str:
        return subprocess.run(
            ["tmux", "-L", self.server, *words], check=True, capture_output=True, text=True
        ).stdout


@contextmanager
def terminal(here: Path, *args: str, columns: int = 80, rows: int = 24, **env: str) -> Iterator[Terminal]:
    """Start a command of the program on a terminal of its own. Whatever still runs there is ended."""
    server = f"holdfast-{uuid.uuid4().hex}"
    variables = [f"{name}={value}" for name, value in {"LANG": "C.UTF-8", **env}.items()]
    command = shlex.join(["env", "-u", "COLUMNS", "-u", "LINES", *variables, *COMMAND, *args])
    size = ("-x", str(columns), "-y", str(rows))
    # What the program says at its end stays on the screen.
    start = ["new-session", "-d", *size, "-c", str(here), f"{command}; echo ended with $?; exec cat"]
    subprocess.run(["tmux", "-L", server, "-f", "/dev/null", *start], check=True)
    try:
        yield Terminal(server)
    finally:
        subprocess.run(["tmux", "-L", server, "kill-server"], check=False, capture_output=True)
