"""`watch` without what it needs."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli, writes


def test_without_a_terminal_watch_says_what_to_use_instead(tmp_path: Path) -> None:
    """Bad input, exit 2."""
    done = Cli.of(tmp_path / "p", writes("a"))("watch")
    assert done.code == 2
    assert "watch needs a terminal" in done.err
    assert "holdfast status -f" in done.err
