"""Files that an agent may have swapped for anything: no link leads us to the user's own, and nothing of theirs is opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.repo.agent_files import plain_files, read_plain, write_plain
from tests.support.opened_files import OpenedFiles


@pytest.fixture
def users(tmp_path: Path) -> Path:
    """A folder of the user's, with a file and a pipe for which somebody waits."""
    folder = tmp_path / "users"
    folder.mkdir()
    (folder / "file").write_text("mine")
    os.mkfifo(folder / "pipe")
    return folder


@pytest.fixture
def agents(tmp_path: Path, users: Path) -> Path:
    """A folder of an agent's, with ways into the user's."""
    folder = tmp_path / "agents"
    (folder / "real" / "deep").mkdir(parents=True)
    (folder / "real" / "deep" / "file").write_text("content")
    (folder / "folder").symlink_to(users)
    for name in ("file", "pipe"):
        (folder / "real" / name).symlink_to(users / name)
    return folder


def test_a_file_is_read_and_anything_else_is_nothing(agents: Path) -> None:
    """Also one that is larger than it may be, or that is a folder, a pipe or absent."""
    os.mkfifo(agents / "real" / "own")
    names = ("deep", "own", "absent", "deep/file/below", "n" * 300)
    assert read_plain(agents, "real/deep/file", 7) == b"content"
    assert read_plain(agents, "real/deep/file", 6) == b""
    assert [read_plain(agents, f"real/{name}", 100) for name in names] == [b""] * len(names)


def test_nothing_behind_a_link_is_opened(agents: Path, users: Path) -> None:
    """A pipe of the user's that is opened has a reader: whoever waits for one goes on."""
    with OpenedFiles(users) as opened:
        for name in ("folder/file", "folder/pipe", "real/file", "real/pipe"):
            assert read_plain(agents, name, 100) == b""
        assert plain_files(agents, "folder", 100) == []
        assert plain_files(agents, "real", 100) == ["real/deep/file"]
        assert opened.names() == []


def test_a_file_is_written_with_the_folders_above_it(agents: Path) -> None:
    """In the place of a link, too: what that leads to stays as it is."""
    write_plain(agents, "new/folders/file", b"made")
    write_plain(agents, "real/file", b"made")
    assert (agents / "new" / "folders" / "file").read_bytes() == b"made"
    assert (agents / "real" / "file").read_bytes() == b"made"
    assert (agents / "folder" / "file").read_text() == "mine"


def test_nothing_is_written_behind_a_link(agents: Path, users: Path) -> None:
    """Neither a file nor a folder."""
    for name in ("folder/new", "folder/below/new"):
        with pytest.raises(NotADirectoryError):
            write_plain(agents, name, b"made")
    assert sorted(path.name for path in users.iterdir()) == ["file", "pipe"]


def test_no_more_entries_are_read_than_asked_for(tmp_path: Path) -> None:
    """An agent can make as many as it likes."""
    for number in range(20):
        (tmp_path / "root" / f"f{number}").mkdir(parents=True)
        (tmp_path / "root" / f"f{number}" / "file").touch()
    assert len(plain_files(tmp_path, "root", 40)) == 20
    assert len(plain_files(tmp_path, "root", 25)) == 5
