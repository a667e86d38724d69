"""What an adopted run began with, as git keeps it: the events, and the other system's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core import events as ev
from holdfast.core.event_codec import decode_events, encode_events
from holdfast.repo.repository import Repository
from holdfast.repo.run_record import keep_origin, read_origin


def keep_inheritance(
    repo: Repository, run: str, events: Sequence[ev.Event], documents: Mapping[str, bytes]
) -> None:
    """Keep what a run begins with in git, so that it can be rebuilt and written back. Repeated, it is the same."""
    keep_origin(repo, run, msgspec.json.format(encode_events(list(events)), indent=1), documents)


def inheritance_of(repo: Repository, run: str) -> list[ev.Event]:
    """Return the events an adopted run began with; none if it was not adopted, or not to the end."""
    kept = read_origin(repo, run)
    return [] if kept is None else decode_events(kept.record)


def originals_of(repo: Repository, run: str) -> dict[str, bytes]:
    """Return the files that a run was adopted from, as they were then; none if it was not adopted."""
    kept = read_origin(repo, run)
    return {} if kept is None else kept.documents
