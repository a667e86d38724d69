"""`restore`: a store gets back what a backup has and it lacks, and keeps what it has more of."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Cli, writes
from tests.support.servers import PROTOCOLS, start_server, url_of

DONE, BAD_INPUT = 0, 2


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_an_empty_store_gets_its_runs_back_and_nothing_is_done_again(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what landed after the backup was made: git shows it."""
    url_of(kind)  # skips where there is none
    server = start_server(kind)
    monkeypatch.setenv("HOLDFAST_STORE", server.url)
    cli = Cli.of(tmp_path / "p", writes("a"), writes("b", needs=["a"]))
    assert cli("run", "--yes").code == DONE
    assert cli("backup", str(tmp_path / "saved.db")).code == DONE
    server.kill()
    server.forget()
    server.launch()
    assert cli.json("list") == []
    restored = cli("restore", str(tmp_path / "saved.db"))
    assert (restored.code, "01-try-it" in restored.out) == (DONE, True), restored
    assert [task["attempts"] for task in cli.json("status")["tasks"]] == [1, 1]
    assert cli("doctor").code == DONE
    assert "lacks nothing" in cli("restore", str(tmp_path / "saved.db")).out
    server.stop()


def test_a_file_that_is_no_backup_is_refused(tmp_path: Path) -> None:
    """Nothing is made of it."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    (tmp_path / "text").write_text("no journal\n" * 99)
    for name in ("text", "absent"):
        assert cli("restore", str(tmp_path / name)).code == BAD_INPUT
    assert not (cli.here / ".holdfast/journal.db").exists()
