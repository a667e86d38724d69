"""Files are removed whatever an agent made of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.repo.files import open_up, read_regular, remove


@pytest.mark.parametrize(("name", "depth"), [("n" * 100, 60), ("d", 1500)])
def test_a_chain_of_folders_of_any_depth_is_removed(tmp_path: Path, name: str, depth: int) -> None:
    """Deeper than any path may be, and than a recursion can go."""
    top = tmp_path / "top"
    top.mkdir()
    folder = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=folder)
        below = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(os.open("file", os.O_CREAT, dir_fd=folder))
    os.close(folder)
    open_up(top)
    remove(top)
    assert not top.exists()


def test_a_pipe_in_the_place_of_a_file_is_read_as_nothing(tmp_path: Path) -> None:
    """A plain read would wait for ever."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"content")
    assert [read_regular(tmp_path / name) for name in ("pipe", "file", "absent")] == [b"", b"content", b""]
