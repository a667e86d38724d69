"""Where durable state may live: on a disk of this machine.

Nothing here knows what is stored. Journals and leases ask before they create a file.
"""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.errors import JournalError

_NETWORK = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
    "ocfs2", "orangefs", "prl_fs", "smb3", "smbfs", "vboxsf", "fuse.ceph-fuse", "fuse.curlftpfs", "fuse.davfs",
    "fuse.gcsfuse", "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse",
})  # fmt: skip


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

    `mountinfo` is the text of `/proc/self/mountinfo`. The deepest mount wins, then the latest one.
    """
    deepest, found = -1, ""
    for line in mountinfo.splitlines():
        mount, _, source = line.partition(" - ")
        point = Path(_unescaped(mount.split(" ")[4]))
        if path.is_relative_to(point) and len(point.parts) >= deepest:
            deepest, found = len(point.parts), source.split(" ")[0]
    return found if found in _NETWORK else ""


def _unescaped(field: str) -> str:
    """Undo the octal escapes (`\\040` for a space) that the kernel writes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
