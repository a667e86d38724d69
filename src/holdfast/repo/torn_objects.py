"""Removes loose objects that a power cut tore. Git would never write them again.

Git takes an object whose file exists as stored: the same content, added once more, "succeeds", and the commit that
needs it is corrupt. Who wrote it does not matter: an agent or the user, whose git syncs nothing, or a command of ours
that had no time to. Only the objects that were written last can be torn, because the kernel writes everything to disk
soon. A torn object holds nothing that anybody could read, so removing it loses nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from holdfast.boot import boot_id
from holdfast.repo.files import holds, write_atomically
from holdfast.repo.private_git_dir import private_dir

_UNSYNCED_MAX_S = 600.0
"""How long written bytes may wait for the disk, generously: the kernel's default is half a minute."""
_FOLDER = re.compile(r"[0-9a-f]{2}")
_NAME = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
_SHA1_NAME = 38
_CHUNK = 1 << 20
_DEFLATE = 8
_CHECKED_BOOT = "checked-boot"


def remove_torn_objects(common_dir: Path, *, thorough: bool = False) -> list[str]:
    """Remove torn objects and return a sentence for each. Without `thorough`, only their first bytes are looked at.

    Safe beside git commands: they give an object its name only when it is whole.
    """
    torn = [path for path in _suspects(common_dir / "objects", thorough) if _is_torn(path, thorough)]
    for path in torn:
        path.unlink(missing_ok=True)
    return [f"Removed {path}, which a power cut tore." for path in torn]


def remove_torn_objects_after_reboot(common_dir: Path) -> None:
    """Remove torn objects, thoroughly, if that was not yet done since the machine started."""
    mark, boot = private_dir(common_dir) / _CHECKED_BOOT, boot_id().encode()
    if not holds(mark, boot):
        remove_torn_objects(common_dir, thorough=True)
        # On a full disk that is looked for again: `stop` and `clean` must work there.
        with suppress(OSError):
            write_atomically(mark, boot)


def _suspects(objects: Path, thorough: bool) -> Iterator[Path]:
    """Yield the loose objects that may be torn: the empty ones, and the last that were written before the end.

    That end is the last boot. Without `thorough` the machine need not have stopped, so it is the last object.
    """
    written = list(_loose_objects(objects))
    end = _booted_at() if thorough else float("inf")
    last = max((found.st_mtime for found, _ in written if found.st_mtime < end), default=end)
    for found, path in written:
        if found.st_size == 0 or found.st_mtime >= last - _UNSYNCED_MAX_S:
            yield Path(path)


def _loose_objects(objects: Path) -> Iterator[tuple[os.stat_result, str]]:
    folders = [entry.path for entry in os.scandir(objects) if _FOLDER.fullmatch(entry.name)]
    for folder in folders:
        with suppress(FileNotFoundError):  # `git gc` removes objects, and folders that it has emptied
            yield from (
                (entry.stat(), entry.path)
                for entry in os.scandir(folder)
                if _NAME.fullmatch(entry.name) and entry.is_file()
            )


def _booted_at() -> float:
    """Return when the machine started, by today's clock."""
    fields = dict(line.split(" ", 1) for line in Path("/proc/stat").read_text().splitlines())
    return float(fields["btime"])


def _is_torn(path: Path, thorough: bool) -> bool:
    """Tell whether a loose object cannot be what its name says. One that is gone, or unreadable for us, is left alone."""
    try:
        with path.open("rb") as file:
            return not (_is_whole(file, path) if thorough else _is_deflated(file.read(2)))
    except (FileNotFoundError, PermissionError):
        return False


def _is_deflated(head: bytes) -> bool:
    return len(head) == 2 and head[0] & 15 == _DEFLATE and int.from_bytes(head) % 31 == 0


def _is_whole(file: BinaryIO, path: Path) -> bool:
    """Tell whether the bytes of an object have the hash that it is named by."""
    inflate = zlib.decompressobj()
    digest = hashlib.new("sha1" if len(path.name) == _SHA1_NAME else "sha256", usedforsecurity=False)
    try:
        while chunk := file.read(_CHUNK):
            digest.update(inflate.decompress(chunk))
    except zlib.error:
        return False
    return inflate.eof and digest.hexdigest() == path.parent.name + path.name
