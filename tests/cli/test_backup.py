"""`backup`: all runs in one file, which replaces nothing unasked."""

from __future__ import annotations

from pathlib import Path

from holdfast.journal import open_reader
from tests.support.command import Cli, writes

DONE, WAITS = 0, 3


def test_a_backup_holds_every_run_with_its_events(tmp_path: Path) -> None:
    """It can be read like a journal."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert cli("run", "--yes").code == DONE
    saved = cli.json("backup", str(tmp_path / "saved.db"))
    assert saved == {"file": str(tmp_path / "saved.db"), "runs": 1}
    kept, journal = open_reader(tmp_path / "saved.db"), open_reader(cli.here / ".holdfast/journal.db")
    assert list(kept.events("01-try-it")) == list(journal.events("01-try-it"))


def test_a_file_that_exists_is_replaced_only_if_asked_to(tmp_path: Path) -> None:
    """It may be the last good backup."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert cli("run", "--yes").code == DONE
    (tmp_path / "mine").write_text("mine")
    assert cli("backup", str(tmp_path / "mine")).code == WAITS
    assert (tmp_path / "mine").read_text() == "mine"
    assert cli("backup", str(tmp_path / "mine"), "--force").code == DONE
    assert len(open_reader(tmp_path / "mine").runs()) == 1


def test_a_backup_touches_no_other_file_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    """Prompts and outputs are in it; a file beside it may be the user's."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert cli("run", "--yes").code == DONE
    target, beside = tmp_path / "kept" / "saved.db", tmp_path / "kept" / "saved.db.draft"
    target.parent.mkdir()
    beside.write_text("mine")
    assert cli("backup", str(target)).code == DONE
    assert beside.read_text() == "mine"
    assert sorted(path.name for path in target.parent.iterdir()) == ["saved.db", "saved.db.draft"]
    assert target.stat().st_mode & 0o777 == 0o600
