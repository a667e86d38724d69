"""All journals are opened in one place: `open_journal` and `open_reader` by address."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import JournalError
from holdfast.journal import open_journal, open_reader
from tests.contract.journals import RUN, begin


def test_a_path_and_an_address_open_the_same_file(tmp_path: Path) -> None:
    """A plain path is the embedded journal."""
    journal = open_journal(tmp_path / "journal.db")
    begin(journal)
    assert open_reader(f"sqlite://{tmp_path}/journal.db").load(RUN).row.run == RUN
    journal.close()


def test_an_unknown_kind_of_journal_is_refused_with_the_known_ones() -> None:
    """The way out is in the error."""
    with pytest.raises(JournalError, match="no journal of kind floppy") as caught:
        open_journal("floppy://a")
    assert "sqlite, memory" in caught.value.hint


def test_a_journal_in_memory_can_be_opened_by_address() -> None:
    """Two of them share nothing."""
    begin(open_journal("memory://"))
    assert open_reader("memory://").runs() == []
