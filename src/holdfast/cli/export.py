"""`export`: a run in another system's own files, written once."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from holdfast.cli.arguments import ANY_RUN, JSON, Arguments, flag, option
from holdfast.cli.open_repo import choose_latest_run
from holdfast.cli.output import as_json
from holdfast.disk_sync import make_folder, sync
from holdfast.errors import ExitCode, HoldfastError
from holdfast.formats.exported_run import NativeFile
from holdfast.formats.registry import SYSTEM_NAMES, System
from holdfast.repo.files import holds, write_durably
from holdfast.runner.mirror.renderer import RunRenderer
from holdfast.views.read_only_repo import open_read_only
from holdfast.views.text import count

ARGUMENTS: Arguments = (
    ANY_RUN,
    option(
        "--as",
        None,
        "whose files: " + ", ".join(SYSTEM_NAMES),
        dest="format",
        choices=SYSTEM_NAMES,
        required=True,
    ),
    option("-o --output", "F", "a file for the state, or a folder/ for all (standard output)"),
    flag("--force", "replace existing files"),
    JSON,
)


class ExportResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `export --json` prints: the files that were written; without `-o` the state file itself."""

    run: str
    format: str
    written: tuple[str, ...] = ()
    path: str | None = None
    content: str | None = None


def execute(args: Namespace) -> int:
    """Write a run's state file to standard output or a file, or all of a system's files into a folder."""
    opened = open_read_only()
    run = choose_latest_run(opened, args.run).run
    live = opened.holder(run) is not None
    renderer = RunRenderer(opened.open_repository(), opened.require_journal(), run)
    files = [file for file in renderer.native_files(System(args.format), live=live) if not file.gone]
    written: list[Path] = []
    if args.output is None and args.json:
        state = _state_file(files)
        content = state.content.decode("utf-8", "replace")
        print(as_json(ExportResult(run=run, format=args.format, path=state.path, content=content)))
        return ExitCode.DONE
    if args.output is None:
        sys.stdout.buffer.write(_state_file(files).content)
        sys.stdout.buffer.flush()
    elif args.output.endswith("/") or Path(args.output).is_dir():
        written = _write_all(Path(args.output), files, force=args.force)
    else:
        written = [Path(args.output)]
        _write(Path(args.output), _state_file(files).content, force=args.force)
        print(f"Wrote {args.output}.", file=sys.stderr)
    if args.json:
        print(as_json(ExportResult(run=run, format=args.format, written=tuple(map(str, written)))))
    return ExitCode.DONE


def _state_file(files: list[NativeFile]) -> NativeFile:
    """Return the state file: writers put it first."""
    return next(file for file in files if not file.link)


def _write_all(folder: Path, files: list[NativeFile], *, force: bool) -> list[Path]:
    for file in files:
        path = folder / file.path
        if file.link:
            make_folder(path.parent)
            path.unlink(missing_ok=True)
            path.symlink_to(file.link)
            sync(path.parent)
        else:
            _write(path, file.content, force=force)
    print(f"Wrote {count(len(files), 'file')} to {folder}.", file=sys.stderr)
    return [folder / file.path for file in files]


def _write(path: Path, content: bytes, *, force: bool) -> None:
    if os.path.lexists(path) and not force and not holds(path, content):
        raise HoldfastError(f"{path} exists and differs", "name another place, or use --force")
    write_durably(path, content)
