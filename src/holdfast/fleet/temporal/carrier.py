"""What a fleet of many machines asks of the one who takes workspaces to the hosts and back. It knows nothing of git itself."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Protocol


class SentWorkspace(NamedTuple):
    """Where a launch finds its workspace: a commit at the git server, or a host that has it. `before` is the tree it had there."""

    start: str
    host: str = ""
    before: str = ""


class TakenState(NamedTuple):
    """What a state brought along besides the files of the workspace: pieces of the output, and of the reports."""

    output: Iterable[tuple[int, bytes]]
    reports: Iterable[tuple[int, bytes]]


class WorkspaceCarrier(Protocol):
    """Takes workspaces to the git server and back. The fleet knows nothing of git. Errors are HoldfastErrors."""

    @property
    def clone(self) -> str:
        """The permanent name of this clone of the repository."""
        ...

    def send(self, workspace: Path) -> SentWorkspace:
        """Put the state of a workspace where a host finds it."""
        ...

    def take(self, workspace: Path, ref: str, commit: str, host: str) -> TakenState:
        """Bring a workspace to the state that a host saved as this commit. Idempotent."""
        ...

    def drop(self, *refs: str) -> None:
        """Remove what is no longer needed from the git server."""
        ...
