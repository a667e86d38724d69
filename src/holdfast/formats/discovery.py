"""Finds the files of other systems on the disk and reads them: the only part of `formats/` that touches a disk.

It never writes. Sizes and counts are bounded, and no link leads out of the project.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from holdfast.errors import HoldfastError
from holdfast.formats.lenient_json import time_in
from holdfast.formats.model import Finding, ForeignFormat, ForeignRun
from holdfast.formats.registry import System

FILE_BYTES_MAX = 8 * 1024 * 1024
_ALL_BYTES_MAX = 48 * 1024 * 1024
_DOCUMENTS_MAX = 2_000
_ENTRIES_MAX = 20_000
_DEPTH_MAX = 5
_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml", ".md", ".continue-here")
_PASSED_OVER = frozenset({".git", ".holdfast", "node_modules", ".venv", "venv", "__pycache__", "target"})

_ANYWHERE = "**/"


class NothingFoundError(HoldfastError):
    """There is no file of a system that Holdfast knows."""


@dataclass(frozen=True, slots=True)
class ForeignSource:
    """One run of another system on the disk: its state file, and all files that belong to it.

    Paths are relative to `root`. `problems` name the files that could not be read. A run whose state was read from a server
    at `read_at` has an `address` there, and no file.
    """

    system: System
    main: str
    root: Path
    documents: dict[str, bytes]
    problems: tuple[Finding, ...] = ()
    address: str = ""
    read_at: float = 0.0

    @property
    def named(self) -> str:
        """How a user names it."""
        return self.address or str(self.path)

    @property
    def touched_at(self) -> float:
        """When its file was last changed, or when it was read from its server."""
        return self.read_at if self.address else self.path.stat().st_mtime

    @property
    def path(self) -> Path:
        """Where the state file is."""
        return self.root / self.main

    @property
    def updated(self) -> float:
        """When the run was last changed, by its state's own word, else by the newest of its other files; 0 if none says so."""
        others = (time_in(data) for data in self.documents.values())
        return time_in(self.documents[self.main]) or max(others, default=0.0)


def find_sources(path: Path, project: Path, formats: Mapping[System, ForeignFormat]) -> list[ForeignSource]:
    """Return the runs that a file, a folder or a whole project holds; `project` is the repository's checkout.

    Raises NothingFoundError if there is none. A file that belongs to a listed run is not listed again.
    """
    place = Path(os.path.abspath(path))  # noqa: PTH100 - resolving would follow links
    if not place.exists():
        raise NothingFoundError(
            f"there is no {path}", "name a state file, a folder with one, or a repository"
        )
    patterns = [pattern for one in formats.values() for pattern in one.places]
    root = _root_of(place, project, patterns)
    reader = _Reader(root)
    found: list[ForeignSource] = []
    for main in map(reader.behind, _candidates(place, root, patterns)):
        if any(_is_same(source, main) for source in found):
            continue
        if source := _source(main, reader, formats):
            found.append(source)
    if not found:
        raise _nothing(path, formats)
    return found


def _nothing(path: Path, formats: Mapping[System, ForeignFormat]) -> NothingFoundError:
    kind = "is no state file" if path.is_file() else "holds no state file"
    *others, last = sorted(one.title for one in formats.values())
    return NothingFoundError(
        f"{path} {kind} of {', '.join(others)} or {last}",
        "name the file itself, such as .auto-claude/specs/001-x/implementation_plan.json",
    )


def _is_same(source: ForeignSource, main: str) -> bool:
    return main in source.documents or (source.root / main).resolve() == source.path.resolve()


def _source(main: str, reader: _Reader, formats: Mapping[System, ForeignFormat]) -> ForeignSource | None:
    data = reader.read(main)
    if data is None:
        return None
    system = next((name for name, one in formats.items() if one.recognises(main, data)), None)
    if system is None:
        return None
    documents, problems = {main: data}, []
    for name in reader.matches(formats[system].companions(main)):
        if name in documents:
            continue
        content = reader.read(name) if len(documents) < _DOCUMENTS_MAX else None
        if content is None or sum(map(len, documents.values())) + len(content) > _ALL_BYTES_MAX:
            sentence = f"{name} could not be read or is too large; it was left out."
            problems.append(Finding(kind="unreadable", sentence=sentence))
        else:
            documents[name] = content
    return ForeignSource(system, main, reader.root, documents, tuple(problems))


def _root_of(place: Path, project: Path, patterns: Sequence[str]) -> Path:
    """Return the folder that paths start from: the project, or for other files their probable project."""
    if place.is_relative_to(project):
        return project
    native = {pattern.partition("/")[0] for pattern in patterns}
    for folder in (place, *place.parents):
        if folder.name in native:
            return folder.parent
    return place if place.is_dir() else place.parent


def _candidates(place: Path, root: Path, patterns: Sequence[str]) -> Iterator[str]:
    """Yield the files that may be a run's state: the named file, or those at the usual places."""
    if place.is_file():
        yield place.relative_to(root).as_posix()
        return
    called = [pattern.removeprefix(_ANYWHERE) for pattern in patterns if pattern.startswith(_ANYWHERE)]
    found = sorted(_walk(place, root), key=lambda name: (name.count("/"), _rank(name, called), name))
    if place == root:
        fixed = [pattern for pattern in patterns if not pattern.startswith(_ANYWHERE)]
        elsewhere = (name for name in found if _is_called(name, called))
        yield from dict.fromkeys((*_at_their_places(root, fixed), *elsewhere))
    else:
        yield from (name for name in found if name.endswith(_SUFFIXES))


def _at_their_places(root: Path, patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from sorted(path.relative_to(root).as_posix() for path in root.glob(pattern))


def _is_called(name: str, called: Sequence[str]) -> bool:
    last = name.rpartition("/")[2].lower()
    return any(fnmatchcase(last, pattern) for pattern in called)


def _rank(name: str, called: Sequence[str]) -> int:
    """Sort files named like a state first, so that the files beside them are assigned to them."""
    return 0 if "state" in name.rpartition("/")[2] or _is_called(name, called) else 1


def _walk(folder: Path, root: Path) -> Iterator[str]:
    """Yield the files below a folder and the links to files, down to a limit of depth and of number."""
    pending, seen = [(folder, 0)], 0
    while pending and seen < _ENTRIES_MAX:
        at, depth = pending.pop(0)
        for entry in _entries(at):
            seen += 1
            if entry.is_dir(follow_symlinks=False):
                if depth < _DEPTH_MAX and entry.name not in _PASSED_OVER:
                    pending.append((Path(entry.path), depth + 1))
            elif entry.is_file():
                yield Path(entry.path).relative_to(root).as_posix()


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []  # A folder that we may not read holds nothing to adopt.


class _Reader:
    """Reads files below one folder, and nothing else."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.real = root.resolve()

    def behind(self, name: str) -> str:
        """Return the target of a link, if it is inside the root: the run's other files are beside it."""
        path = self.root / name
        target = path.resolve()
        leads_on = path.is_symlink() and target.is_relative_to(self.real)
        return target.relative_to(self.real).as_posix() if leads_on else name

    def read(self, name: str) -> bytes | None:
        """Return a file's content; None if it is too large, unreadable, not a file, or outside the root."""
        path = self.root / name
        try:
            if not path.resolve().is_relative_to(self.real) or not name.isprintable() or ".git" in path.parts:
                return None
            found = path.stat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > FILE_BYTES_MAX:
                return None
            return path.read_bytes()
        except OSError:
            return None

    def matches(self, patterns: Iterable[str]) -> list[str]:
        """Return the files that match, in the order of the patterns."""
        found: dict[str, None] = {}
        for pattern in patterns:
            if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
                continue
            files = (path for path in self.root.glob(pattern) if path.is_file())
            names = sorted(path.relative_to(self.root).as_posix() for path in files)
            found |= dict.fromkeys(names[: _DOCUMENTS_MAX - len(found)])
        return list(found)


def read_source(source: ForeignSource, formats: Mapping[System, ForeignFormat]) -> ForeignRun:
    """Return the run that a source describes, with findings on unreadable files and on live processes.

    Raises BrokenFileError if it is unusable.
    """
    own = formats[source.system]
    run = own.read(source.main, source.documents)
    return msgspec.structs.replace(run, findings=(*run.findings, *source.problems, *_at_work(source, own)))


def _at_work(source: ForeignSource, own: ForeignFormat) -> Iterator[Finding]:
    """Yield a warning for each lock file near the state whose process lives. A server has no lock files."""
    if source.address:
        return
    for lock in {
        *source.path.parent.glob("*.lock"),
        *(lock for at in own.locks for lock in source.root.glob(at)),
    }:
        pid = _first_number(lock)
        if pid and Path("/proc", pid).exists():
            name = lock.relative_to(source.root)
            sentence = (
                f"Process {pid} holds {name}: {own.title} may still be at work. Stop it before you resume."
            )
            yield Finding("alive", sentence)


def _first_number(path: Path) -> str:
    try:
        if not path.is_file():
            return ""  # to open a pipe would wait for its other end
        with path.open("rb") as file:
            found = re.search(rb"\d{1,9}", file.read(256))
    except OSError:
        return ""
    return found[0].decode() if found else ""
