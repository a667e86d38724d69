"""`review`: what a run produced."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli, writes


def test_review_shows_each_task_with_its_files(tmp_path: Path) -> None:
    """What landed, by which attempt, and the whole against the base."""
    cli = Cli.of(tmp_path / "p", writes("a"), writes("b"))
    cli("run", "--yes")
    said = cli("review").out
    assert "Land a" in said
    assert "b.txt | 1 +" in said
    assert "2 files changed" in said
