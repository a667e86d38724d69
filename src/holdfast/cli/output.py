"""What commands print: a view as text or JSON, sentences, notes, and the result of a command that steers a run."""

from __future__ import annotations

import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from holdfast.cli.open_repo import OpenRepo
from holdfast.core.ids import with_run_numbers
from holdfast.core.status import RunStatus
from holdfast.errors import ExitCode, quoted
from holdfast.mounts import mounts_in
from holdfast.reporting.displayed_status import displayed_run_status
from holdfast.views.terminal import flush_output, write_line
from holdfast.views.text import with_local_times

if TYPE_CHECKING:
    from holdfast.repo.repository import Repository

_SETTINGS_SHOWN = 12
_View = TypeVar("_View")


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """What every command that steers a run prints with `--json`; errors go to standard error, as without it.

    `status` is the run's status now, `task` the task that was named. `pending`: a live runner was asked
    and has not done it yet. `kept` names what was saved: a backup, an archived branch, the note of a stopped run.
    """

    run: str
    status: RunStatus
    detail: str
    task: str | None = None
    pending: bool = False
    kept: dict[str, str] = {}


def as_json(view: object) -> str:
    """Return a view as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(view), indent=2).decode()


def for_people(text: str) -> str:
    """Return a text as people read it: commands name runs by their number, times are local. Programs get neither."""
    return with_local_times(with_run_numbers(text))


def show(view: _View, as_text: Callable[[_View], str], args: Namespace) -> ExitCode:
    """Print a view, as JSON if that was asked for, and return success."""
    print(as_json(view) if args.json else for_people(as_text(view)))
    return ExitCode.DONE


def say(text: str, args: Namespace) -> None:
    """Tell the user something; with `--json` on standard error."""
    write_line(for_people(text), sys.stderr if args.json else sys.stdout)


def note(text: str) -> None:
    """Tell the user something that must not go into a pipe."""
    flush_output()
    print(f"Note: {for_people(text)}", file=sys.stderr)


def new_settings_sentence(run: str, names: Sequence[str]) -> str:
    """Say what is new in the repository's own git settings. Holdfast does not follow it, but the user's git does."""
    listed = ", ".join(quoted(name) for name in names[:_SETTINGS_SHOWN])
    more = f" and {len(names) - _SETTINGS_SHOWN} more" if len(names) > _SETTINGS_SHOWN else ""
    return f"new in git since run {run} began, by an agent or by you: {listed}{more}"


def missing_runs_sentence(runs: list[str]) -> str:
    """Say that the journal was lost and started again: git has runs that are missing in it."""
    return f"git knows {', '.join(runs)}, the journal does not: `holdfast rebuild` restores it."


def undeletable_lines(folders: Iterable[Path]) -> list[str]:
    """Return a sentence for each folder that had to stay, with the command that removes it."""
    return [_undeletable(folder) for folder in folders]


def _undeletable(folder: Path) -> str:
    if mounted := mounts_sentence(folder):
        return f"{folder} stays.{mounted}"
    return f"{folder} holds files of another user and stays. `sudo rm -rf {shlex.quote(str(folder))}` removes it."


def mounts_sentence(folder: Path) -> str:
    """Say what must be done before somebody deletes a folder in which something is mounted: that would be emptied, too."""
    named = " ".join(shlex.quote(place) for place in mounts_in(folder))
    return f" Something is mounted in it: run `sudo umount {named}` before you delete it." if named else ""


def uncommitted_lines(repo: Repository, run: str) -> list[str]:
    """Return a sentence for each folder of files of a run that could not be committed."""
    # Imported here because `status` loads this module, and has no need of it.
    from holdfast.repo.debris import uncommitted_folders, uncommitted_folders_of_people

    theirs = uncommitted_folders_of_people(repo, run)
    ends = {
        folder: "you delete it" if folder in theirs else f"`holdfast clean {run}`"
        for folder in uncommitted_folders(repo, run)
    }
    return [
        f"{folder} holds files that could not be committed; it stays until {end}.{mounts_sentence(folder)}"
        for folder, end in ends.items()
    ]


def print_result(
    opened: OpenRepo,
    run: str,
    detail: str,
    args: Namespace,
    *,
    task: str | None = None,
    pending: bool = False,
    kept: Mapping[str, str] | None = None,
) -> ExitCode:
    """Say what was done, and return success."""
    kept = {name: where for name, where in (kept or {}).items() if where}
    if not args.json:
        print("\n".join([for_people(detail), *(f"  {name}: {where}" for name, where in kept.items())]))
        return ExitCode.DONE
    print(as_json(command_result(opened, run, detail, task=task, pending=pending, kept=kept)))
    return ExitCode.DONE


def command_result(
    opened: OpenRepo,
    run: str,
    detail: str,
    *,
    task: str | None = None,
    pending: bool = False,
    kept: Mapping[str, str] | None = None,
) -> CommandResult:
    """Return what a command did to a run, with the run's status now."""
    row = opened.journal.load(run).row
    status = displayed_run_status(row, held=opened.holder(run) is not None)
    return CommandResult(
        run=run, status=status, detail=detail, task=task, pending=pending, kept=dict(kept or {})
    )
