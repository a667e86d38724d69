"""`move`: runs go to another store and back, whole, or stay where they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.journal.address import password_of
from tests.support.command import Cli, cli_at_work, fails, writes
from tests.support.servers import PROTOCOLS, url_of

DONE, FAILED, BAD_INPUT, HELD = 0, 1, 2, 4


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_runs_are_moved_to_a_server_continued_there_and_moved_back(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked or done again; the repository uses the store that its runs are in. It keeps no password."""
    monkeypatch.setenv("HOLDFAST_STORE_PASSWORD", password_of(url_of(kind)))
    cli = Cli.of(
        tmp_path / "p",
        writes("a"),
        {"id": "b", "run": ["sh", "-c", f"test -e {tmp_path}/yes"], "needs": ["a"]},
        limits={"attempts": 1},
    )
    assert cli("run", "--yes").code == FAILED
    before = cli.json("inspect", "1")
    moved = cli.json("move", "--to", url_of(kind))
    assert [one["run"] for one in moved["moved"]] == ["01-try-it"]
    assert cli.json("inspect", "1") == before
    (tmp_path / "yes").touch()
    assert cli("retry", "b").code == DONE
    assert cli("resume").code == DONE
    back = cli("move", "--to", "sqlite", HOLDFAST_STORE=url_of(kind))
    assert (back.code, "HOLDFAST_STORE still names" in back.err) == (DONE, True), back
    assert not (cli.here / ".holdfast/store.json").exists()
    assert [(run["id"], run["status"]) for run in cli.json("list")] == [("01-try-it", "completed")]
    assert cli("doctor").code == DONE


def test_a_run_that_is_executed_is_not_moved(tmp_path: Path) -> None:
    """Its runner writes where it began."""
    cli, runner, _ = cli_at_work(tmp_path)
    refused = cli("move", "--to", url_of("redis"))
    assert refused.code == HELD
    assert cli("stop").code == DONE
    runner.wait()


def test_runs_are_not_moved_to_where_they_are(tmp_path: Path) -> None:
    """It is said, and nothing happens."""
    cli = Cli.of(tmp_path / "p", fails("a"), limits={"attempts": 1})
    cli("run", "--yes")
    assert cli("move", "--to", "sqlite").code == BAD_INPUT
    assert len(cli.json("list")) == 1
