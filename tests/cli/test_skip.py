"""`skip`: a task is declared unnecessary."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli, fails, writes


def test_a_skipped_task_lets_those_that_need_it_start(tmp_path: Path) -> None:
    """The user's word stands in for the work."""
    cli = Cli.of(tmp_path / "p", fails("a"), writes("b", needs=["a"]), limits={"attempts": 1})
    cli("run", "--yes")
    cli("skip", "a")
    assert cli("resume").code == 0
    assert cli.task("b")["status"] == "completed"


def test_what_has_landed_cannot_be_skipped(blocked: Cli) -> None:
    """A decision that contradicts the facts is refused."""
    assert blocked("skip", "a").code == 2
