"""`abandon`: a run is given up, and its work stays."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli, is_alive
from tests.support.runs import Fifo

RUN = "01-try-it"


def test_abandon_asks_and_keeps_everything(blocked: Cli) -> None:
    """C9: no without a terminal; yes gives the run up, and a second time says so."""
    assert blocked("abandon").code == 3
    assert blocked.run_status() == "blocked"
    assert blocked("abandon", "--yes").code == 0
    assert blocked.run_status() == "abandoned"
    assert blocked.project.git("branch", "--list", "holdfast/*") != ""
    assert "nothing to abandon" in blocked("abandon", "--yes").out


def test_abandon_stops_a_live_runner_first(tmp_path: Path) -> None:
    """C9: its agents end, their work is kept."""
    at_work = Fifo(tmp_path / "at-work")
    script = f"echo half > half.txt; {at_work.give}; sleep 60"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    runner = cli.start("run", "--yes")
    agent = int(at_work.wait())
    done = cli("abandon", "--yes")
    assert done.code == 0, done.err
    assert not is_alive(agent)
    runner.wait()
    assert cli.run_status() == "abandoned"
    assert cli.project.git("show", f"refs/holdfast/{RUN}/wip/a:half.txt") == "half"
