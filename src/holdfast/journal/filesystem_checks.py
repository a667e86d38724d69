"""Where durable state may live: on a disk of this machine.

Nothing here knows what is stored. Journals and leases ask before they create a file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from holdfast.errors import JournalError
from holdfast.locks import try_lock
from holdfast.system_errors import filesystem_kind

_NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
    "ocfs2", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf", "fuse.ceph-fuse", "fuse.curlftpfs", "fuse.davfs",
    "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse",
})  # fmt: skip
_TRIED_BYTES = 64 * 1024


def refusal(folder: Path) -> OSError | None:
    """Write, sync and lock a passing file in a folder; return what the system has against it, if anything."""
    # Imported here because it is rarely asked and slow to load.
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(_TRIED_BYTES))
            file.flush()
            os.fsync(file.fileno())
            try_lock(file.fileno())
    except OSError as error:
        error.filename = str(folder)
        return error
    return None


def unwritable(folder: Path, depth: int) -> Iterator[Path]:
    """Yield what this user may not write to, or put files into: a folder, and the files and folders in it, so many levels deep.

    What is below a folder that cannot be written to is not named as well.
    """
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        yield from [folder] if folder.exists() else []
        return
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if path.is_dir() and depth:
            yield from unwritable(path, depth - 1)
        elif not os.access(path, os.W_OK | os.X_OK if path.is_dir() else os.W_OK):
            yield path


def refuse_network_filesystem(path: Path) -> None:
    """Raise JournalError if `path` is on a network file system, where locks and shared memory can fail."""
    kind = network_filesystem(
        path.resolve(), Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    )
    if kind:
        raise JournalError(
            f"{path} is on a network file system ({kind}), where file locks cannot be trusted",
            "keep the repository on a local disk of the machine that runs it",
        )


def network_filesystem(path: Path, mountinfo: str) -> str:
    """Return the type of the network file system that holds `path`, or an empty string if it is local.

    `mountinfo` is the text of `/proc/self/mountinfo`.
    """
    kind = filesystem_kind(path, mountinfo)
    return kind if kind in _NETWORK else ""
