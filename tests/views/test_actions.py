"""What the views offer to do first."""

from __future__ import annotations

from pathlib import Path

from holdfast.views.actions import next_action
from holdfast.views.current_status import current_status
from holdfast.views.read_only_repo import open_read_only
from tests.support.command import killed_cli


def test_a_run_that_was_cut_short_is_resumed_before_anything_else(tmp_path: Path) -> None:
    """Its agents wait for a runner, whatever one of them asks."""
    cli, _ = killed_cli(tmp_path)
    opened = open_read_only(cli.here)
    run = opened.runs()[0].row.run
    first = next_action(opened.require_journal().load(run).state(), current_status(opened, run))
    assert first is not None
    assert (first.name, first.primary) == ("resume", True)
    cli("stop")
