"""`recap`: what happened in a run, on the terminal or as a page. Git proves what landed."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import msgspec

from holdfast.cli.arguments import ANY_RUN, JSON, Arguments, option
from holdfast.cli.open_repo import choose_latest_run
from holdfast.cli.output import as_json, show
from holdfast.errors import ExitCode, HoldfastError
from holdfast.views.read_only_repo import open_read_only
from holdfast.views.recap import recap_of, recap_text

ARGUMENTS: Arguments = (
    ANY_RUN,
    option("--html", "F", "write a page to send to somebody, all in one file (`-` is standard output)"),
    JSON,
)


class PageResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `recap --html F --json` prints: the file that was written, or with `-` the page itself."""

    run: str
    written: str | None = None
    page: str | None = None


def execute(args: Namespace) -> int:
    """Print what happened in a run, or write it as a page."""
    opened = open_read_only()
    run = choose_latest_run(opened, args.run).run
    if args.html is None:
        return show(recap_of(opened.open_repository(), opened, run), recap_text, args)
    # Imported here because the text needs none of it.
    from holdfast.views.recap_page import recap_document, recap_page

    path = None if args.html == "-" else _place(args.html)
    page = recap_page(recap_document(opened.open_repository(), opened, run))
    content = page.encode("utf-8", "replace")
    if path is not None:
        _write(path, content)
        return show(PageResult(run=run, written=args.html), lambda view: f"Wrote {view.written}.", args)
    if args.json:
        print(as_json(PageResult(run=run, page=content.decode())))
        return ExitCode.DONE
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()
    return ExitCode.DONE


def _place(name: str) -> Path:
    """Return the file to write, behind a link if there is one. Raises HoldfastError if no file can be there."""
    path = Path(name).resolve()
    if path.is_dir():
        raise HoldfastError(f"{name} is a folder", f"name a file in it, such as {Path(name) / 'recap.html'}")
    if path.exists() and not path.is_file():
        raise HoldfastError(
            f"{name} is no plain file", "name another one; `--html -` writes to standard output"
        )
    if not path.parent.is_dir():
        raise HoldfastError(f"there is no folder {Path(name).parent}", "make it, or name a file elsewhere")
    return path


def _write(path: Path, content: bytes) -> None:
    from holdfast.repo.files import write_durably
    from holdfast.system_errors import machine_error

    try:
        write_durably(path, content)
    except OSError as error:
        raise machine_error(error, "write it again", "write the recap", path) from error
