"""Whoever leaves a run can leave it, whatever the system said about a file of an agent's."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.repo.uncollected_work import UncollectedError, capture_or_move_aside
from holdfast.repo.workspace import WorkspaceGoneError
from tests.support.repositories import PreparedWorkspace


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
        capture_or_move_aside(prepared.pool, "0", _capture(prepared, errno.EIO, *path))
    (kept,) = prepared.pool.uncommitted()
    assert (kept / "a.txt").is_file()


def test_a_full_disk_is_for_the_user_to_change(tmp_path: Path) -> None:
    """The work stays where it is and is committed then."""
    prepared = PreparedWorkspace.create(tmp_path / "p")
    with pytest.raises(UncollectedError):
        capture_or_move_aside(prepared.pool, "0", _capture(prepared, errno.ENOSPC))
    assert prepared.pool.uncommitted() == []
