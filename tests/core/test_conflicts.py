"""The mechanical look at a conflict's resolution: no side may be gone altogether."""

from __future__ import annotations

import pytest

from holdfast.core.conflicts import ConflictedFile, has_markers, judge_resolution

BASE = "one\ntwo\n"
OURS = "one\ntwo\nlanded\n"
THEIRS = "one\ntwo\nwritten\n"


def _judge(result: str | None, ours: str | None = OURS, theirs: str | None = THEIRS) -> str:
    return judge_resolution(ConflictedFile(path="f.py", base=BASE, ours=ours, theirs=theirs, result=result))


def test_a_resolution_with_both_sides_is_accepted() -> None:
    """In whatever order."""
    assert _judge("one\ntwo\nwritten\nlanded\n") == ""


def test_a_resolution_without_what_landed_is_refused() -> None:
    """The sentence names the file and the side that is missing."""
    assert (
        _judge(THEIRS) == "f.py lost every line of the work already landed; both sides' changes must survive"
    )


def test_a_resolution_without_the_tasks_own_work_is_refused() -> None:
    """Giving in is no resolution either."""
    assert _judge(OURS) == "f.py lost every line of the work of this task; both sides' changes must survive"


def test_a_rewrite_that_keeps_neither_side_is_left_to_the_checks() -> None:
    """Both sides merged into something new may well be right."""
    assert _judge("one\ntwo\nlanded and written\n") == ""


def test_indentation_alone_loses_nothing() -> None:
    """A side that moved into a block is still there."""
    assert _judge("one\ntwo\n    landed\n    written\n") == ""


def test_sides_that_say_the_same_cannot_lose_each_other() -> None:
    """What both wrote is nobody's own."""
    assert _judge(OURS, theirs=OURS) == ""


@pytest.mark.parametrize("marker", ["<<<<<<< ours", ">>>>>>> theirs", "||||||| base"])
def test_markers_left_in_a_file_are_refused(marker: str) -> None:
    """No agent may hand a conflict on."""
    assert _judge(f"one\n{marker}\nlanded\nwritten\n") == "f.py still has conflict markers"


def test_a_line_of_equals_signs_is_no_marker() -> None:
    """Headings of text files look like that."""
    assert not has_markers("Title\n=======\n")


def test_a_deletion_that_drops_the_other_side_is_refused() -> None:
    """One side deleted the file and the other changed it: the change must not vanish silently."""
    assert "already landed" in _judge(None, theirs=None)
