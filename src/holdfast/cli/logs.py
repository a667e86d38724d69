"""`logs`: what the agent of an attempt printed."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from codecs import getincrementaldecoder
from collections.abc import Iterator

from holdfast.cli.arguments import RUN_OF_TASK, TASK, Arguments, flag, option, positive
from holdfast.cli.open_repo import choose_task, open_read_only
from holdfast.core.facts import Presence
from holdfast.errors import ExitCode, HoldfastError
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import AGENT_STEP, Fleet, LaunchKey
from holdfast.journal.protocol import StoredRun
from holdfast.views.text import count, terminal_safe

_FOLLOW_POLL_S = 0.1


ARGUMENTS: Arguments = (
    RUN_OF_TASK,
    TASK,
    flag("-f --follow", "follow until the attempt ends"),
    option("--attempt", "N", "an earlier attempt (the newest)", type=positive),
)


def execute(args: Namespace) -> int:
    """Print what the agent of an attempt printed; `-f` follows until it ends.

    Byte for byte, but without control characters on a terminal.
    """
    opened = open_read_only()
    stored, task = choose_task(opened, args.run, args.task)
    attempt = _attempt_number(stored, task, args.attempt)
    key = LaunchKey(stored.row.run, task, attempt, AGENT_STEP)
    decode = getincrementaldecoder("utf-8")(errors="replace").decode
    printed = 0
    for chunk in _chunks(open_fleet(opened.state_dir.fleet), key, follow=args.follow):
        printed += len(chunk)
        sys.stdout.buffer.write(terminal_safe(decode(chunk)).encode() if sys.stdout.isatty() else chunk)
        sys.stdout.buffer.flush()
    if not printed:
        print(f"{task} printed nothing in attempt {attempt}.", file=sys.stderr)
    return ExitCode.DONE


def _chunks(fleet: Fleet, key: LaunchKey, *, follow: bool) -> Iterator[bytes]:
    """Yield the log as it grows. It checks for the end before each read, so the last output is included."""
    seen = 0
    while True:
        over = not follow or fleet.inspect(key).presence is not Presence.ALIVE
        piece = fleet.output(key, seen)
        seen = piece.start + len(piece.data)
        yield piece.data
        if over:
            return
        time.sleep(_FOLLOW_POLL_S)


def _attempt_number(stored: StoredRun, task: str, wanted: int | None) -> int:
    newest = stored.state().tasks[task].attempt
    if wanted is not None and wanted > newest:
        raise HoldfastError(
            f"task {task} has had {count(newest, 'attempt')}, not {wanted}",
            "leave out --attempt for the newest",
        )
    if newest == 0:
        raise HoldfastError(
            f"task {task} has not been started", f"`holdfast status {stored.row.run}` shows what it waits for"
        )
    return wanted or newest
