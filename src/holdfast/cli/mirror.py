"""`mirror`: keep another system's own files up to date during a run."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path

from holdfast.cli.arguments import JSON, RUN, Arguments, flag, one_of, option, positional
from holdfast.cli.open_repo import OpenRepo, choose_run, open_repo
from holdfast.cli.output import print_result
from holdfast.core import events as ev
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import HoldfastError
from holdfast.formats.model import format_of
from holdfast.formats.registry import SYSTEM_NAMES, System
from holdfast.paths import STATE_DIR
from holdfast.repo.repository import Repository
from holdfast.runner.decisions.user_decisions import record_decision
from holdfast.runner.mirror.mirror_records import is_server, place_of_store, require_keepable
from holdfast.runner.mirror.mirror_writer import check_mirror, export_run
from holdfast.runner.mirror.staging_worktree import staging_path, staging_problem
from holdfast.runner.requests import Request, ask_runner
from holdfast.views.text import count

ARGUMENTS: Arguments = (
    RUN,
    positional("format", "whose files: " + ", ".join(SYSTEM_NAMES), choices=SYSTEM_NAMES),
    one_of(
        option("--to", "PLACE", "a folder of the project, or a redis:// server for cfn (its own places)"),
        flag("--off", "stop updating them"),
    ),
    JSON,
)


def execute(args: Namespace) -> int:
    """Keep a system's own files up to date beside a run from now on; `--off` leaves them as they are."""
    with open_repo() as opened:
        row = choose_run(opened, args.run)
        system = System(args.format)
        if args.off:
            return _end(opened, row.run, system, args)
        folder = _place(opened.repo, system, args.to)
        check_mirror(opened.repo, opened.journal, row.run, system, folder)
        if row.status in RUN_IS_OVER:
            written = export_run(opened.repo, opened.journal, row.run, system, folder)
            what = "record" if is_server(folder) else "file"
            done = f"wrote {count(len(written), what)} once" if written else "its files are up to date"
            detail = f"Run {row.run} is {row.status}: {done}."
        elif opened.holder(row.run) is not None:
            ask_runner(opened.directory(row.run), Request(action="mirror", system=system, folder=folder))
            detail = f"The runner of {row.run} keeps its {_named(system, folder)} up to date."
        else:
            record_decision(opened.repo, opened.journal, row.run, ev.MirrorKept(system=system, folder=folder))
            detail = f"Wrote the {_named(system, folder)} of {row.run}. They are kept up to date when it continues."
            detail += _staging(opened, row.run)
        return print_result(opened, row.run, detail, args)


def _staging(opened: OpenRepo, run: str) -> str:
    """Return a line about the worktree with the build so far, if the system has one."""
    row = opened.journal.load(run).row
    if not (path := staging_path(opened.repo, row)):
        return ""
    problem = staging_problem(opened.repo, row)
    return f"\nNote: {problem}." if problem else f"\nThe build so far is in {path}."


def start_mirror(opened: OpenRepo, run: str, system: str) -> None:
    """Start a mirror at the system's own places for a run without a runner, from its first event on."""
    folder = _place(opened.repo, System(system), None)
    check_mirror(opened.repo, opened.journal, run, System(system), folder)
    record_decision(opened.repo, opened.journal, run, ev.MirrorKept(system=System(system), folder=folder))


def _end(opened: OpenRepo, run: str, system: System, args: Namespace) -> int:
    if opened.holder(run) is not None:
        ask_runner(opened.directory(run), Request(action="unmirror", system=system))
    elif system in opened.journal.load(run).row.mirrors:
        record_decision(opened.repo, opened.journal, run, ev.MirrorEnded(system=system))
    return print_result(opened, run, f"The {system} files of {run} stay as they are from now on.", args)


def _named(system: System, folder: str) -> str:
    return f"{system} records in {folder}" if is_server(folder) else f"{system} files"


def _place(repo: Repository, system: System, named: str | None) -> str:
    """Return where a mirror goes: a server, or a folder. A system with records uses the server of the store, if it is one."""
    if named is not None and is_server(named):
        return require_keepable(named)
    if named is None and format_of(system).server is not None:
        return place_of_store(repo)
    return _folder(repo.checkout, named)


def _folder(checkout: Path, named: str | None) -> str:
    """Return where the files go, relative to the project; an empty string means the system's own places."""
    if named is None:
        return ""
    folder = Path(os.path.abspath(named))  # noqa: PTH100 - a link must not be followed
    inside = folder.is_relative_to(checkout) and folder.resolve().is_relative_to(checkout)
    if not inside or {".git", STATE_DIR}.intersection(folder.relative_to(checkout).parts):
        raise HoldfastError(
            f"{named} is not a folder of the project",
            "a mirror must be inside the project; `export -o` writes anywhere",
        )
    return "" if folder == checkout else folder.relative_to(checkout).as_posix()
