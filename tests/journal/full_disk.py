"""Run inside a mount namespace, on a small disk of its own: what the journal does when there is no room.

Usage: `python -m tests.journal.full_disk SCENE FOLDER`. Each scene asserts its promise; exit status 0 is a pass.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import repeat
from pathlib import Path

import pytest

from holdfast.core import events as ev
from holdfast.errors import JournalError
from holdfast.journal.sqlite import SqliteJournal
from tests.contract.journals import RUN, begin, run_row, write_for_ever


def leave_a_log_behind(path: Path) -> int:
    """Let a writer be killed in mid-run, its log not folded in; return its last event's number."""
    journal = SqliteJournal.open(path)
    begin(journal)
    journal.close()
    if (child := os.fork()) == 0:
        list(write_for_ever(SqliteJournal.open(path), batches=10))
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    assert path.with_name("journal.db-wal").stat().st_size > 0
    return 1 + sum(batch * 7 % 5 + 1 for batch in range(10))


def fill(folder: Path) -> None:
    """Leave not one free byte."""
    with (folder / "ballast").open("wb", buffering=0) as file:
        for size in (4096, 1):
            block = b"x" * size
            with pytest.raises(OSError, match="No space left"):
                file.writelines(repeat(block))


def check_unchanged_by_looking(path: Path, last: int) -> None:
    """Look, see everything, and leave every file as it was."""
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    reader = SqliteJournal.open_read_only(path)
    assert reader.load(RUN).last_seq == last
    assert len(list(reader.events(RUN))) == last
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def append_on_a_full_disk(path: Path) -> None:
    """A refused append records nothing, says why, and works again once there is room."""
    journal = SqliteJournal.open(path)
    epoch, last = begin(journal), 1
    fill(path.parent)
    big = [ev.StageOpened(stage="s" * 9000) for _ in range(30)]
    with pytest.raises(JournalError, match="disk is full") as caught:
        journal.append(RUN, epoch, big, run_row(tip="big"), [], 2.0)
    assert "holdfast resume" in caught.value.hint
    assert journal.load(RUN).last_seq == last
    (path.parent / "ballast").unlink()
    assert journal.append(RUN, epoch, big, run_row(tip="big"), [], 2.0) == last + 30
    journal.close()


def look_on_a_full_disk(path: Path) -> None:
    """What a killed writer left is readable where no file can be made."""
    last = leave_a_log_behind(path)
    fill(path.parent)
    check_unchanged_by_looking(path, last)


def look_on_a_full_disk_without_index(path: Path) -> None:
    """The same when the log's index is gone, so that SQLite by itself would have to make one."""
    last = leave_a_log_behind(path)
    path.with_name("journal.db-shm").unlink()
    fill(path.parent)
    check_unchanged_by_looking(path, last)


def look_on_a_read_only_disk(path: Path) -> None:
    """What a killed writer left is readable where nothing can be written."""
    last = leave_a_log_behind(path)
    subprocess.run(["mount", "-o", "remount,ro", str(path.parent)], check=True)
    check_unchanged_by_looking(path, last)


SCENES: tuple[Callable[[Path], None], ...] = (
    append_on_a_full_disk,
    look_on_a_full_disk,
    look_on_a_full_disk_without_index,
    look_on_a_read_only_disk,
)

if __name__ == "__main__":
    {scene.__name__: scene for scene in SCENES}[sys.argv[1]](Path(sys.argv[2]) / "journal.db")
