"""A file that people edit at the same time: changed whole or not at all, and nobody's words are lost."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from holdfast.repo.shared_file import SharedFileError, change_file

ROUNDS = 300
# A person's editor that saves a new line again and again, each time as a whole, as editors do.
EDITOR = """
import os, sys
path, rounds = sys.argv[1], int(sys.argv[2])
for number in range(rounds):
    while True:
        text = open(path).read()
        draft = path + ".editor"
        open(draft, "w").write(text + f"line {number}\\n")
        # An editor that looks before it saves: what changed meanwhile is loaded first.
        if open(path).read() == text:
            os.rename(draft, path)
            break
"""


def _ticked(number: int, data: bytes) -> bytes:
    return data.replace(b"- [ ] %d\n" % number, b"- [x] %d\n" % number)


def _folder(tmp_path: Path) -> tuple[Path, Path]:
    root, drafts = tmp_path / "project", tmp_path / "drafts"
    root.mkdir()
    drafts.mkdir()
    return root, drafts


def test_a_change_keeps_the_mode_and_leaves_no_draft(tmp_path: Path) -> None:
    """The file is the same one for everybody else."""
    root, drafts = _folder(tmp_path)
    (root / "list.md").write_text("- [ ] a\n")
    (root / "list.md").chmod(0o664)
    change_file(root, "list.md", drafts, lambda data: data.replace(b"[ ]", b"[x]"))
    assert (root / "list.md").read_text() == "- [x] a\n"
    assert (root / "list.md").stat().st_mode & 0o777 == 0o664
    assert [path.name for path in (*root.iterdir(), *drafts.iterdir())] == ["list.md"]


def test_what_somebody_saves_during_a_change_is_not_lost(tmp_path: Path) -> None:
    """They save after we have read: the change is made again, to what they wrote."""
    root, drafts = _folder(tmp_path)
    path = root / "list.md"
    path.write_text("- [ ] a\n")
    calls: list[bytes] = []

    def change(data: bytes) -> bytes:
        calls.append(data)
        if len(calls) < 4:
            path.write_text(f"- [ ] a\nedit {len(calls)}\n")
        return data.replace(b"[ ]", b"[x]")

    change_file(root, "list.md", drafts, change)
    assert path.read_text() == "- [x] a\nedit 3\n"
    assert len(calls) == 4
    assert list(drafts.iterdir()) == []


def test_an_editor_and_our_ticks_go_on_at_once(tmp_path: Path) -> None:
    """Many saves beside many ticks: no line of theirs is lost to one of ours."""
    root, drafts = _folder(tmp_path)
    path = root / "list.md"
    path.write_text("".join(f"- [ ] {number}\n" for number in range(ROUNDS)))
    editor = subprocess.Popen([sys.executable, "-c", EDITOR, str(path), str(ROUNDS)])
    number = 0
    while editor.poll() is None or number < ROUNDS:
        with suppress(SharedFileError):  # it saves all the time: then we leave it, and come back
            change_file(root, "list.md", drafts, partial(_ticked, number % ROUNDS))
        number += 1
    assert editor.returncode == 0
    lines = path.read_text().splitlines()
    # The editor may save over a tick, having read before it. We never save over the editor.
    assert [line for line in lines if line.startswith("line")] == [
        f"line {number}" for number in range(ROUNDS)
    ]


@pytest.mark.parametrize("kind", ["link", "linked folder", "read-only", "folder", "absent", "pipe"])
def test_what_is_no_plain_file_of_the_project_is_left(tmp_path: Path, kind: str) -> None:
    """A link may lead anywhere, a read-only file says no, and a pipe would block."""
    root, drafts = _folder(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "list.md").write_text("- [ ] a\n")
    path, name = root / "list.md", "list.md"
    if kind == "link":
        path.symlink_to(outside / "list.md")
    elif kind == "linked folder":
        (root / "docs").symlink_to(outside)
        name = "docs/list.md"
    elif kind == "read-only":
        path.write_text("- [ ] a\n")
        path.chmod(0o444)
    elif kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(SharedFileError):
        change_file(root, name, drafts, lambda data: data.replace(b"[ ]", b"[x]"))
    assert (outside / "list.md").read_text() == "- [ ] a\n"
    assert list(drafts.iterdir()) == []
