"""Whoever leaves a run can leave it, whatever the system said about a file of an agent's."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.repo.uncollected_work import UncollectedError, WayOut, capture_or_move_aside, capture_safely
from holdfast.repo.workspace import WorkspaceGoneError
from tests.support.repositories import PreparedWorkspace

_WAY_OUT = WayOut("Try again.", "Leave it.")


def _capture(prepared: PreparedWorkspace, number: int, *path: str) -> Callable[[], None]:
    """Return a capture that the system refuses as long as the workspace is there."""

    def capture() -> None:
        prepared.workspace.require_present()
        raise OSError(number, os.strerror(number), *path)

    return capture


@pytest.mark.parametrize("path", [(), ("refs",)])
def test_an_error_that_names_no_place_keeps_nobody_in_a_run(tmp_path: Path, path: tuple[str, ...]) -> None:
    """A read names no file, and what is opened relative to a folder no folder. The files stay, moved aside."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    with pytest.raises(WorkspaceGoneError):
        capture_or_move_aside(prepared.pool, "0", _capture(prepared, errno.EIO, *path), _WAY_OUT)
    (kept,) = prepared.pool.uncommitted()
    assert (kept / "a.txt").is_file()


def test_a_full_disk_is_for_the_user_to_change(tmp_path: Path) -> None:
    """The work stays where it is and is committed then."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    with pytest.raises(UncollectedError):
        capture_or_move_aside(prepared.pool, "0", _capture(prepared, errno.ENOSPC), _WAY_OUT)
    assert prepared.pool.uncommitted() == []


@pytest.mark.parametrize(("number", "leaves"), [(errno.EIO, True), (errno.ENOSPC, False)])
def test_only_what_is_in_the_workspace_can_be_left(tmp_path: Path, number: int, leaves: bool) -> None:
    """On a full disk nothing can be moved aside, so nobody is told to."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    with pytest.raises(UncollectedError) as raised:
        capture_safely(prepared.workspace.path, _capture(prepared, number), _WAY_OUT)
    assert "Try again." in raised.value.hint
    assert ("Leave it." in raised.value.hint) is leaves
