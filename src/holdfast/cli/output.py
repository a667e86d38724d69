"""What a command that changed something says afterwards: a sentence for people, one object for programs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping

import msgspec

from holdfast.cli.open_repo import OpenRepo
from holdfast.cli.status import as_json
from holdfast.core.status import RunStatus
from holdfast.errors import ExitCode
from holdfast.reporting.displayed_status import displayed_run_status


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """What every command that steers a run prints with `--json`; errors go to standard error, as without it.

    `status` is where the run stands now, `task` the one that was meant. While `pending`, a live runner has been asked
    and has not done it yet. `kept` names what was put aside: a backup, an archived branch, the note of a resting run.
    """

    run: str
    status: RunStatus
    detail: str
    task: str | None = None
    pending: bool = False
    kept: dict[str, str] = {}


def print_result(
    place: OpenRepo,
    run: str,
    detail: str,
    args: argparse.Namespace,
    *,
    task: str | None = None,
    pending: bool = False,
    kept: Mapping[str, str] | None = None,
) -> ExitCode:
    """Say what was done, and return the exit code of a command that did it."""
    kept = {name: where for name, where in (kept or {}).items() if where}
    if not args.json:
        print("\n".join([detail, *(f"  {name}: {where}" for name, where in kept.items())]))
        return ExitCode.DONE
    row = place.journal.load(run).row
    status = displayed_run_status(row, held=place.holder(run) is not None)
    print(
        as_json(CommandResult(run=run, status=status, detail=detail, task=task, pending=pending, kept=kept))
    )
    return ExitCode.DONE
