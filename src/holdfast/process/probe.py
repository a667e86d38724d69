"""Asking a program a short question, such as its version: no input, a time limit, and nothing of it left alive."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

_OUTPUT_CHARS = 2_000


def ask(argv: Sequence[str], timeout_s: float) -> str | None:
    """Return what a program prints, or None if it cannot be run, fails, or takes longer. Asking again runs it again."""
    try:
        asked = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    try:
        output, _ = asked.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return None
    finally:
        _end(asked)
    return output[:_OUTPUT_CHARS].decode(errors="replace") if asked.returncode == 0 else None


def _end(asked: subprocess.Popen[bytes]) -> None:
    """Kill what is left of its session, so that no child of it keeps the pipe or the machine busy."""
    with suppress(ProcessLookupError):  # nothing was left: the usual case
        os.killpg(asked.pid, signal.SIGKILL)
    asked.wait()
    if asked.stdout is not None:
        asked.stdout.close()
