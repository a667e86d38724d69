"""`export` and `mirror`: a run in another system's own files, once or for as long as it goes on."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from holdfast.cli.open_repo import OpenRepo, choose_latest_run, choose_run, open_read_only, open_repo
from holdfast.core import events as ev
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import ExitCode, HoldfastError
from holdfast.formats.model import NativeFile
from holdfast.formats.registry import System
from holdfast.paths import STATE_DIR
from holdfast.repo.files import holds, write_atomically
from holdfast.repo.repository import Repository
from holdfast.runner.decisions.user_decisions import record_decision
from holdfast.runner.mirror.mirror_writer import check_mirror, export_run
from holdfast.runner.mirror.renderer import RunRenderer
from holdfast.runner.mirror.staging_worktree import staging_path, staging_problem
from holdfast.runner.requests import Request, send_request
from holdfast.views.text import count


def export(args: argparse.Namespace) -> int:
    """Write a run in a system's own files: its state file to standard output or a file, or all of them into a folder."""
    place = open_read_only()
    journal = place.require_journal()
    run = choose_latest_run(journal.runs(), args.run).row.run
    live = place.holder(run) is not None
    chronicle = RunRenderer(Repository.open(place.checkout), journal, run)
    files = [file for file in chronicle.native_files(System(args.format), live=live) if not file.gone]
    if args.output is None:
        sys.stdout.buffer.write(_main(files).content)
        sys.stdout.buffer.flush()
    elif args.output.endswith("/") or Path(args.output).is_dir():
        _write_all(Path(args.output), files, force=args.force)
    else:
        _write(Path(args.output), _main(files).content, force=args.force)
        print(f"Wrote {args.output}.", file=sys.stderr)
    return ExitCode.DONE


def mirror(args: argparse.Namespace) -> int:
    """Keep a system's own files up to date beside a run, from now on; `--off` leaves them as they are."""
    with open_repo() as place:
        row = choose_run(place.journal.runs(), args.run).row
        system = System(args.format)
        if args.off:
            return _end(place, row.run, system)
        folder = _folder(place.repo.checkout, args.to)
        check_mirror(place.repo, place.journal, row.run, system, folder)
        if row.status in RUN_IS_OVER:
            written = export_run(place.repo, place.journal, row.run, system, folder)
            done = f"wrote {count(len(written), 'file')} once" if written else "its files are up to date"
            print(f"Run {row.run} is {row.status}: {done}.")
        elif place.holder(row.run) is not None:
            request = Request(action="mirror", system=system, folder=folder)
            send_request(place.directory(row.run), request)
            print(f"Asked the runner of {row.run} to keep its {system} files up to date.")
        else:
            record_decision(place.repo, place.journal, row.run, ev.MirrorKept(system=system, folder=folder))
            print(f"The {system} files of {row.run} are written, and kept up to date when it goes on.")
            _tell_build(place, row.run)
    return ExitCode.DONE


def keep_mirror(place: OpenRepo, run: str, system: str) -> None:
    """Have a run that nobody carries on yet keep a system's own files, at their own places, from its first event on."""
    check_mirror(place.repo, place.journal, run, System(system), "")
    record_decision(place.repo, place.journal, run, ev.MirrorKept(system=System(system), folder=""))


def _tell_build(place: OpenRepo, run: str) -> None:
    row = place.journal.load(run).row
    if path := staging_path(place.repo, row):
        trouble = staging_problem(place.repo, row)
        print(f"Note: {trouble}." if trouble else f"The build so far is in {path}.")


def _end(place: OpenRepo, run: str, system: System) -> int:
    if place.holder(run) is not None:
        send_request(place.directory(run), Request(action="unmirror", system=system))
    elif system in place.journal.load(run).row.mirrors:
        record_decision(place.repo, place.journal, run, ev.MirrorEnded(system=system))
    print(f"The {system} files of {run} are left as they are from now on.")
    return ExitCode.DONE


def _folder(checkout: Path, named: str | None) -> str:
    """Return where the files go, told from the project; nothing stands for their own place."""
    if named is None:
        return ""
    folder = Path(os.path.abspath(named))  # noqa: PTH100 - a link must be seen, not followed
    inside = folder.is_relative_to(checkout) and folder.resolve().is_relative_to(checkout)
    if not inside or {".git", STATE_DIR}.intersection(folder.relative_to(checkout).parts):
        raise HoldfastError(
            f"{named} is not a folder of the project",
            "a mirror is kept below the project; `export -o` goes anywhere",
        )
    return "" if folder == checkout else folder.relative_to(checkout).as_posix()


def _main(files: list[NativeFile]) -> NativeFile:
    """Return the state file: writers put it first."""
    return next(file for file in files if not file.link)


def _write_all(folder: Path, files: list[NativeFile], *, force: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if file.link:
            path.unlink(missing_ok=True)
            path.symlink_to(file.link)
        else:
            _write(path, file.content, force=force)
    print(f"Wrote {count(len(files), 'file')} to {folder}.", file=sys.stderr)


def _write(path: Path, content: bytes, *, force: bool) -> None:
    if os.path.lexists(path) and not force and not holds(path, content):
        raise HoldfastError(f"{path} is there already and differs", "name another place, or say --force")
    write_atomically(path, content)
