"""`watch`: a run live in the terminal, with keys for every command that steers it."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.cli.arguments import LAST_RUN, Arguments
from holdfast.cli.open_repo import choose_last_written_run
from holdfast.errors import ExitCode, HoldfastError
from holdfast.views.read_only_repo import open_read_only

ARGUMENTS: Arguments = (LAST_RUN,)


def execute(args: Namespace) -> int:
    """Show a run until the user leaves. The run goes on without us."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise HoldfastError(
            "watch needs a terminal", "`holdfast status -f` follows a run in a pipe, `--json` for programs"
        )
    opened = open_read_only()
    run = choose_last_written_run(opened, args.run).run
    try:
        from holdfast.watch.app import WatchApp  # heavy, and an extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "textual":
            raise
        raise HoldfastError(
            "watch needs the package textual, which is not installed", "pip install 'holdfast[watch]'"
        ) from error
    with _plain_terminal():
        WatchApp(opened.checkout, run).run()
    return ExitCode.DONE


@contextmanager
def _plain_terminal() -> Iterator[None]:
    """Put a plain stream where the library draws and asks for the size: ours, which let no control through, took their place."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", errors="backslashreplace") as terminal:
        streams: Any = sys
        streams.__stdout__ = streams.__stderr__ = terminal
        yield
