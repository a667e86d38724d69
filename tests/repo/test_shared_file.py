"""A file that people edit at the same time: changed whole or not at all, and nobody's words are lost."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from holdfast.repo.files import abandoned_drafts
from holdfast.repo.shared_file import SharedFileError, change_file

ROUNDS = 300
# A person's editor that saves a new line again and again, each time as a whole, as editors do. A version without its last line
# may be seen for a moment; if that line does not come back, it is lost.
EDITOR = """
import os, sys, time
path, rounds = sys.argv[1], int(sys.argv[2])
def shown(last):
    given_up = time.monotonic() + 60
    while last not in (text := open(path).read()):
        if time.monotonic() > given_up:
            sys.exit(f"lost: {last}")
    return text
last = ""
for number in range(rounds):
    while True:
        text = shown(last)
        draft = path + ".editor"
        open(draft, "w").write(text + f"line {number}\\n")
        # An editor that looks before it saves: what changed meanwhile is loaded first.
        if open(path).read() == text:
            os.rename(draft, path)
            last = f"line {number}\\n"
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


# Is killed at the exchange of a number: 0 is before the first. Somebody saves the file right before the first one.
KILLED = """
import os, signal, sys
from pathlib import Path
from holdfast.repo import shared_file
root, drafts, killed_at, saved = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
exchange, done = shared_file._exchange, []
def watched(one, other):
    if not done and saved:
        (root / "list.md").write_text(saved)
    if len(done) < killed_at:
        exchange(one, other)
        done.append(one)
    if len(done) == killed_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return True
shared_file._exchange = watched
shared_file.change_file(root, "list.md", drafts, lambda data: data.replace(b"[ ] a", b"[x] a"))
"""


def _killed(tmp_path: Path, killed_at: int, saved: str) -> tuple[Path, Path]:
    """Leave what a kill leaves of the change of a file with the point `a` that is ticked."""
    root, drafts = _folder(tmp_path)
    (root / "list.md").write_text("- [ ] a\n")
    argv = [sys.executable, "-c", KILLED, str(root), str(drafts), str(killed_at), saved]
    assert subprocess.run(argv, check=False).returncode == -signal.SIGKILL
    assert len(list(drafts.iterdir())) == 1
    return root, drafts


def _tick_a(root: Path, drafts: Path) -> None:
    change_file(root, "list.md", drafts, lambda data: data.replace(b"[ ] a", b"[x] a"))


@pytest.mark.parametrize("killed_at", [0, 1, 2])
def test_what_somebody_saved_survives_a_kill_at_each_exchange(tmp_path: Path, killed_at: int) -> None:
    """Between the two exchanges it is only in the draft. The next change puts it back, and is made to it."""
    root, drafts = _killed(tmp_path, killed_at, "- [ ] a\n- [ ] new\n")
    assert abandoned_drafts(drafts) == []  # others delete those
    _tick_a(root, drafts)
    assert (root / "list.md").read_text() == "- [x] a\n- [ ] new\n"
    assert list(drafts.iterdir()) == []


@pytest.mark.parametrize("killed_at", [0, 1])
def test_a_kill_while_nobody_saves_leaves_no_draft_for_long(tmp_path: Path, killed_at: int) -> None:
    """What is in it is ours, or what we replaced on purpose."""
    root, drafts = _killed(tmp_path, killed_at, "")
    _tick_a(root, drafts)
    assert (root / "list.md").read_text() == "- [x] a\n"
    assert list(drafts.iterdir()) == []


def test_a_version_that_cannot_go_back_is_kept_and_named(tmp_path: Path) -> None:
    """The file was written since the kill: neither version is lost, and the change is made the next time."""
    root, drafts = _killed(tmp_path, 1, "- [ ] a\n- [ ] new\n")
    (root / "list.md").write_text("- [ ] a\nlater\n")
    with pytest.raises(SharedFileError, match=re.escape(f"is kept in {drafts / 'list.md.kept-1'}")):
        _tick_a(root, drafts)
    assert (root / "list.md").read_text() == "- [ ] a\nlater\n"
    _tick_a(root, drafts)
    assert (root / "list.md").read_text() == "- [x] a\nlater\n"
    assert [path.name for path in drafts.iterdir()] == ["list.md.kept-1"]
    assert (drafts / "list.md.kept-1").read_text() == "- [ ] a\n- [ ] new\n"
