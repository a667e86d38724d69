"""Launches whose records were copied along with a repository: their processes work for the original, not for us.

Whoever copies a repository while agents work has their records twice, each with the same token. The copy must not signal
them. Once the original was deleted, nobody else would: then they are the copy's to end.

Moving is not copying: a moved record is still the file that its supervisor locked and wrote about.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from holdfast.paths import STATE_DIR
from holdfast.process import procfs
from holdfast.process.launch_order import file_identity

_WORKSPACES = f"/{STATE_DIR}/work/"


def is_copied(record: str, identity: str) -> bool:
    """Tell whether a supervisor's record says that it is another file. Records of earlier versions do not say which they are."""
    try:
        return bool(identity) and file_identity(os.stat(record)) != identity  # noqa: PTH116 - asked per launch
    except FileNotFoundError:
        return False


def at_work_for_original(workspaces: Mapping[str, str], state: Path) -> frozenset[str]:
    """Return the tokens whose processes work for the repository that was copied, which is still somewhere.

    `workspaces` says where the processes of each token began, as its record does; `state` is our own state folder. A process
    in a workspace that exists tells. One that went elsewhere tells nothing: then it counts whether the original is where it was.
    """
    folders: dict[str, list[tuple[str, bool]]] = {}
    for token, path, is_deleted in procfs.folders_of_carriers(workspaces) if workspaces else ():
        folders.setdefault(token, []).append((path, is_deleted))
    return frozenset(
        token for token, found in folders.items() if _is_original(found, workspaces[token], state)
    )


def _is_original(folders: list[tuple[str, bool]], workspace: str, state: Path) -> bool:
    if any(_WORKSPACES in path and not is_deleted for path, is_deleted in folders):
        return True
    is_ours = Path(workspace).is_relative_to(state)
    return not is_ours and Path(workspace).is_dir() and not any(is_deleted for _, is_deleted in folders)
