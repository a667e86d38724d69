"""A copy of everything that the journal and the refs say, before something is taken away."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from holdfast.core.ids import ALL_RUN_BRANCHES, ALL_RUN_REFS
from holdfast.journal.upkeep import back_up
from holdfast.repo.files import write_atomically
from holdfast.repo.record import list_refs
from holdfast.repo.repository import Repository


def back_up_state(repo: Repository) -> Path:
    """Copy the journal and list the refs under a new name; return the copy. Nothing is ever overwritten."""
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    copy = repo.state.backups / f"{stamp}-journal.db"
    back_up(repo.state.journal, copy)
    refs = list_refs(repo, ALL_RUN_BRANCHES, ALL_RUN_REFS)
    listing = "".join(f"{commit} {ref}\n" for ref, commit in refs.items())
    write_atomically(repo.state.backups / f"{stamp}-refs.txt", listing.encode("utf-8", "surrogateescape"))
    return copy
