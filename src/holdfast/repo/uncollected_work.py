"""Work in a workspace that git must take before anything reuses or removes the workspace, and what becomes of it if git cannot.

Who decides what to commit is elsewhere (`workspace_commit.py`, `taken_workspaces.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from holdfast.errors import ExitCode, HoldfastError
from holdfast.repo.git import GitError
from holdfast.repo.workspace import WorkspaceGoneError
from holdfast.repo.workspaces import Workspaces
from holdfast.system_errors import as_holdfast_error, path_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WayOut:
    """What to tell a user whose work could not be committed, as whole sentences: what tries again, and, if something in the
    workspace is to blame, what leaves it."""

    again: str
    leave: str = ""


class UncollectedError(HoldfastError):
    """Work could not be committed. It is still in its workspace, which nothing may reuse."""

    exit_code = ExitCode.NEEDS_DECISION

    def __init__(self, workspace: Path, cause: HoldfastError | OSError, way_out: WayOut) -> None:
        why = as_holdfast_error(cause)
        is_of_workspace = not why.is_lasting and (
            isinstance(cause, GitError) or (isinstance(cause, OSError) and _may_be_in(workspace, cause))
        )
        sentences = (why.hint, way_out.again, way_out.leave if is_of_workspace else "")
        super().__init__(
            f"the work in {workspace} could not be committed: {why.message}",
            " ".join(filter(None, sentences)),
        )
        self.is_of_workspace = is_of_workspace
        """Whether something in the workspace, or what its agent did to git, is the likely cause; not the disk."""


def _may_be_in(workspace: Path, error: OSError) -> bool:
    """Tell whether an error is about a file of a workspace. A read names none, and what is opened below a folder no folder."""
    path = Path(path_of(error))
    return not path.is_absolute() or path.is_relative_to(workspace)


def capture_safely(workspace: Path, capture: Callable[[], T], way_out: WayOut) -> T:
    """Commit a workspace by `capture`, which may be repeated. Raises UncollectedError, with the way out, if it fails twice.

    Work that exists nowhere else must not be lost to a passing disk error.
    """
    with suppress(HoldfastError, OSError):
        return capture()
    try:
        return capture()
    except WorkspaceGoneError:
        raise
    except (HoldfastError, OSError) as error:
        raise UncollectedError(workspace, error, way_out) from error


def capture_or_move_aside(pool: Workspaces, name: str, capture: Callable[[], T], way_out: WayOut) -> T:
    """Commit a workspace by `capture`, for whoever leaves a run: that must be possible, whatever an agent made.

    What cannot be committed stays, moved aside; then `capture` finds that the workspace is gone. On a full disk, say, it
    raises UncollectedError: that is for the user to change.
    """
    try:
        return capture_safely(pool.path(name), capture, way_out)
    except UncollectedError as error:
        if not error.is_of_workspace:
            raise
        pool.move_uncommitted(name)
        return capture()
