"""`pause`: nothing new starts; what is under way lands, or is saved at once."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import Cli, eventually, is_alive, writes
from tests.support.runs import Fifo


def test_pause_lets_what_is_under_way_land_and_starts_nothing_new(tmp_path: Path) -> None:
    """The command that ran it ends with 130: the work is incomplete, and a script must not take it for done."""
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    script = f"{at_work.give}; {go_on.take}; echo x > a.txt"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]}, writes("b", needs=["a"]))
    runner = cli.start("run", "--yes")
    at_work.wait()
    assert "pauses when" in cli("pause", "--wait", "0").out
    eventually(lambda: "pausing" in cli.json("status")["run"]["detail"], "the request is taken")
    go_on.release()
    assert runner.wait() == 130
    assert (cli.task("a")["status"], cli.task("b")["status"]) == ("completed", "pending")
    assert cli.run_status() == "paused"


def test_a_pause_at_once_says_where_its_note_is(tmp_path: Path) -> None:
    """S7: agents end with their work saved, and the run is paused, not stopped."""
    at_work = Fifo(tmp_path / "at-work")
    script = f"echo half > half.txt; {at_work.give}; sleep 60"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    runner = cli.start("run", "--yes")
    agent = int(at_work.wait())
    done = cli("pause", "--now")
    assert (done.code, "01-try-it is paused" in done.out) == (0, True), done.err
    assert "continue-here.md" in done.out
    assert (runner.wait(), is_alive(agent)) == (130, False)
