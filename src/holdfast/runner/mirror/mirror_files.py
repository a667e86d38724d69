"""Writes native files: each whole or not at all, never over somebody else's file, and through no link.

A ledger remembers what is ours. It is written before the files are, so that after a kill each file is either as it was
or as the ledger says.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from holdfast.errors import HoldfastError
from holdfast.formats.exported_run import NativeFile
from holdfast.paths import STATE_DIR
from holdfast.repo.files import (
    abandoned_drafts,
    draft_prefix,
    is_plain_directory,
    link_atomically,
    write_durably,
)

BACKUP_SUFFIX = ".before-holdfast"
_FORBIDDEN = frozenset({".git", STATE_DIR, "..", "."})
_NOTHING = ""
_LINK = "link "


class OccupiedError(HoldfastError):
    """A native file's place holds something that is not ours to overwrite."""


class Ledger(msgspec.Struct, kw_only=True):
    """The marks of what we wrote at each path, the newest last."""

    files: dict[str, list[str]] = {}


class MirrorFiles:
    """One mirror's place on the disk: the folder that its paths begin at, its ledger, and the files it was adopted from."""

    def __init__(self, root: Path, ledger: Path, originals: Mapping[str, bytes]) -> None:
        self._root = root
        self._ledger_path = ledger
        self._originals = originals
        self._ledger = _read(ledger)

    def changes(self, files: Sequence[NativeFile]) -> list[NativeFile]:
        """Return the files that are not as they should be. Raises OccupiedError if one of them is not ours."""
        found: list[NativeFile] = []
        for file in files:
            self._require_safe(file)
            there = _mark_of(self._root / file.path)
            if there == _mark(file):
                continue
            if there != _NOTHING and not self._is_ours(file.path, there):
                if file.gone:
                    continue  # It is not ours, so we do not remove it.
                if file.link and there.startswith(_LINK):
                    found.append(file)  # A link holds no content: pointing it at another run loses nothing.
                    continue
                raise OccupiedError(
                    f"{self._root / file.path} was not written by Holdfast, or was changed since",
                    "adopt it first with `holdfast adopt`, or write elsewhere with `--to DIR`",
                )
            found.append(file)
        return found

    def put(self, files: Sequence[NativeFile]) -> list[str]:
        """Bring the files into their places, in order, and return the paths that changed. Idempotent."""
        changed = self.changes(files)
        if not changed:
            return []
        self._announce(changed)
        for file in changed:
            self._put(file)
        return [file.path for file in changed]

    def _put(self, file: NativeFile) -> None:
        path = self._root / file.path
        self._back_up(file.path, path)
        if file.gone:
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        # Drafts lie in our own folder: beside the others' files nothing half-made is ever seen, not even after a kill.
        draft = self._ledger_path.parent / f"{draft_prefix()}{secrets.token_hex(4)}"
        if file.link:
            draft.symlink_to(file.link)
        else:
            write_durably(draft, file.content)
        try:
            draft.replace(path)
        except OSError as error:
            draft.unlink()
            if error.errno != errno.EXDEV:
                raise
            _put_across(file, path)

    def _announce(self, files: Sequence[NativeFile]) -> None:
        """Record what will be ours. The earlier mark stays, because a kill may leave either file."""
        for file in files:
            marks = self._ledger.files.get(file.path, [])
            self._ledger.files[file.path] = [*marks[-1:], _mark(file)]
        for draft in abandoned_drafts(self._ledger_path.parent):
            draft.unlink(missing_ok=True)
        write_durably(self._ledger_path, msgspec.json.encode(self._ledger))

    def _back_up(self, name: str, path: Path) -> None:
        """Keep the original of an adopted file beside it, once, before it is first written over."""
        backup = path.with_name(path.name + BACKUP_SUFFIX)
        original = self._originals.get(name)
        if original is not None and _mark_of(path) == _content_mark(original) and not os.path.lexists(backup):
            write_durably(backup, original)

    def _is_ours(self, name: str, mark: str) -> bool:
        original = self._originals.get(name)
        return mark in self._ledger.files.get(name, ()) or (
            original is not None and mark == _content_mark(original)
        )

    def _require_safe(self, file: NativeFile) -> None:
        """Raise OccupiedError unless the path, and the target of a link, stay below the root and pass through no link."""
        parts = file.path.split("/")
        if file.path.startswith("/") or "" in parts or _FORBIDDEN.intersection(parts):
            raise OccupiedError(f"{file.path} leads out of the project", "report this: it must not happen")
        folder = next(_links_above(self._root, self._root / file.path), None)
        if folder is not None:
            raise OccupiedError(
                f"{folder} is a symbolic link; Holdfast does not write through it",
                "put the real folder in its place, or write elsewhere with `--to DIR`",
            )
        if file.link and not _stays_below(self._root, file):
            raise OccupiedError(
                f"{file.path} would lead out of the project", "report this: it must not happen"
            )


def is_in_ledger(ledger: Path, name: str, content: bytes) -> bool:
    """Tell whether a file is what we last wrote there, or the time before."""
    return _content_mark(content) in _read(ledger).files.get(name, ())


def _put_across(file: NativeFile, path: Path) -> None:
    """Write a file that lies on another file system than our own folder."""
    if file.link:
        link_atomically(path, Path(file.link))
    else:
        write_durably(path, file.content)


def _read(path: Path) -> Ledger:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Ledger)
    except (FileNotFoundError, msgspec.MsgspecError):
        return Ledger()


def _mark(file: NativeFile) -> str:
    """Return the mark of a file as it should be."""
    if file.gone:
        return _NOTHING
    return f"{_LINK}{file.link}" if file.link else _content_mark(file.content)


def _mark_of(path: Path) -> str:
    """Return the mark of a path as it is; `_NOTHING` if nothing is there."""
    if path.is_symlink():
        return f"{_LINK}{path.readlink()}"
    if is_plain_directory(path):
        return "folder"
    try:
        return _content_mark(path.read_bytes())
    except FileNotFoundError:
        return _NOTHING


def _content_mark(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _links_above(root: Path, path: Path) -> Iterator[Path]:
    """Yield each part of the path from the root to a file that is not a real folder."""
    for folder in reversed(path.parents[: len(path.parts) - len(root.parts) - 1]):
        if folder.is_symlink() or (os.path.lexists(folder) and not folder.is_dir()):
            yield folder


def _stays_below(root: Path, file: NativeFile) -> bool:
    target = os.path.normpath(root / Path(file.path).parent / file.link)
    return not file.link.startswith("/") and Path(target).is_relative_to(root)
