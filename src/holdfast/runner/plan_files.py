"""The plan files of a run, which people edit: which of them says what the run's plan says, and where an amended plan is written.

A file of the user's that says anything else is never written to: what is in it, the run does not have. Nor is one with a comment
that would be lost. Reading and writing the format is the caller's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, count, takewhile
from pathlib import Path

from holdfast.core.amendment import amended_plan
from holdfast.core.plan import Plan
from holdfast.core.projection import RunRow
from holdfast.core.state import RunState
from holdfast.errors import PlanError
from holdfast.repo.files import holds, read_regular, write_durably
from holdfast.repo.repository import Repository
from holdfast.repo.shared_file import SharedFileError, change_file

ReadFile = Callable[[bytes, str], Plan]
"""Reads what a file of that name holds; raises PlanError if it is no plan."""
WriteFile = Callable[[str], bytes]
"""Returns what a file of that name is to hold."""


def own_plan_file(row: RunRow) -> str:
    """Return the plan file that a run began with, relative to the checkout or absolute; empty if it began with none."""
    is_file = row.origin is None and not row.plan_source.startswith("workflow ")
    return row.plan_source if is_file else ""


def is_plan_file(row: RunRow, path: str) -> bool:
    """Tell whether a path of the checkout is a plan file of the run: its own, or one that an amended plan was written to."""
    amended = str(_beside(row)).removesuffix(".yaml")
    return path == own_plan_file(row) or (path.startswith(amended) and path.endswith(".yaml"))


def _beside(row: RunRow) -> Path:
    own = Path(own_plan_file(row) or row.run)
    return own.with_name(f"{own.stem}-amended.yaml")


def _plan_files(checkout: Path, row: RunRow) -> Iterator[Path]:
    """Yield the files that may hold the plan of a run, without end: its own, then those beside it."""
    if own := own_plan_file(row):
        yield checkout / own
    first = checkout / _beside(row)
    yield first
    yield from (first.with_stem(f"{first.stem}-{number}") for number in count(2))


def unchanged_plan_file(checkout: Path, state: RunState, read: ReadFile) -> Path | None:
    """Return the plan file that says exactly what the run's plan says, or None."""
    files = _plan_files(checkout, state.row)
    there = chain([next(files)], takewhile(Path.exists, files))
    return next((path for path in there if _says(path, state.plan, read)), None)


def edited_plan_file(checkout: Path, state: RunState, read: ReadFile) -> str:
    """Return the plan file that a run began with, if it holds another plan by now which no other plan file explains.

    Empty if it is as it was, is gone, or is no plan.
    """
    own = own_plan_file(state.row)
    if not own or unchanged_plan_file(checkout, state, read) is not None:
        return ""
    try:
        wanted = read(read_regular(checkout / own), own)
    except PlanError:
        return ""
    return "" if amended_plan(state, wanted) == state.plan else own


def _says(path: Path, plan: Plan, read: ReadFile) -> bool:
    try:
        return read(read_regular(path), path.name) == plan
    except PlanError:
        return False


def write_amended(repo: Repository, state: RunState, read: ReadFile, content: WriteFile) -> Path:
    """Write an amended plan for people and return where: into the first plan file of the run that loses nothing by it.

    That one is absent, or says what the run's plan says, without a comment that the content lacks, or holds the content
    already: repeating it changes nothing. The file is whole at every moment, and what somebody saves in it meanwhile stays.
    """
    files = _plan_files(repo.checkout, state.row)
    return next(path for path in files if _write(repo, path, state, read, content(path.name)))


def _write(repo: Repository, path: Path, state: RunState, read: ReadFile, content: bytes) -> bool:
    if not path.exists() and not path.is_symlink():
        write_durably(path, content)
        return True

    def change(found: bytes) -> bytes:
        if found != content and read(found, path.name) != state.plan:
            raise PlanError(f"{path.name} was edited")
        if path.suffix != ".json" and not _comments(found) <= _comments(content):
            raise PlanError(f"{path.name} has comments that would be lost")
        return content

    with suppress(PlanError, SharedFileError):
        change_file(path.parent, path.name, repo.state_dir.run(state.row.run).root, change)
        return True
    return holds(path, content)


def _comments(content: bytes) -> set[bytes]:
    """Return all that may be a comment in YAML."""
    return set(re.findall(rb"(?:^|\s)(#.*?)\s*$", content, re.MULTILINE))
