"""`list`: every run in one line."""

from __future__ import annotations

from tests.support.command import Cli


def test_list_shows_every_run(ended: Cli) -> None:
    """Status, last stage, time and whether it can be resumed."""
    (line,) = ended.json("list")
    assert (line["id"], line["status"], line["stage"], line["resumable"]) == (
        "01-try-it",
        "blocked",
        "main",
        True,
    )
    assert "01-try-it" in ended("list").out
