"""What the files around a SpecFlow state say: a lock, a pause, a specification or a table that knows better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.formats import loose, markdown
from holdfast.formats.drafts import Assembly
from holdfast.formats.model import SETTLED, Finding, Standing
from holdfast.formats.specflow import layout
from holdfast.formats.specflow.spec import Spec
from holdfast.formats.words import standing_of


def around(
    main: str, name: str, made: Assembly, spec: Spec | None, documents: Mapping[str, bytes]
) -> Iterator[Finding]:
    """Tell what the files around the state say: a lock, a pause, a specification that knows better."""
    here = layout.prefix_of(main)
    if lock := documents.get(here + layout.LOCK):
        holder = markdown.decoded(lock).strip()[:40] or "unknown"
        said = f"{layout.LOCK} is there (process {holder}): see that SpecFlow is not at work on it any more."
        yield Finding(kind="locked", sentence=said)
    yield from _paused(name, made, documents.get(here + layout.CONTINUE))
    standings = {claim.standing for claim in made.claims}
    if spec and standing_of(spec.status)[0] is Standing.DONE and not standings <= set(SETTLED):
        said = f"The specification is marked {spec.status}, but its state is not: the state may be stale."
        yield Finding(kind="copies-differ", sentence=said)
    yield from _status_row(name, documents.get(here + layout.STATE_MD), is_done=standings <= set(SETTLED))


def _paused(name: str, made: Assembly, data: bytes | None) -> Iterator[Finding]:
    """Tell where `.continue-here` says that the run was paused, if it is about this run."""
    if data is None:
        return
    try:
        pause = loose.parse_object(layout.CONTINUE, data)
    except loose.BrokenFileError as error:
        yield Finding(kind="unreadable", sentence=error.message)
        return
    if loose.text(pause.get("spec_id")) not in ("", name):
        return
    at = loose.node(pause.get("paused_at"))
    group, wave = loose.text(at.get("group")), loose.text(at.get("wave"))
    place = f"wave {wave or '?'}, group {group or '?'}"
    yield Finding(kind="paused", sentence=f"The run was paused on purpose at {place}.")
    if group and group not in made.ids:
        yield Finding(kind="unknown-task", sentence=f"It was paused at group {group}, which is in no wave.")
    known = {commit for claim in made.claims for commit in claim.commits}
    extra = [commit for commit in loose.commits(pause.get("commits_completed")) if commit not in known]
    if extra:
        said = f"{layout.CONTINUE} names commits that no group has: {', '.join(extra)}."
        yield Finding(kind="copies-differ", sentence=said)


def _status_row(name: str, data: bytes | None, *, is_done: bool) -> Iterator[Finding]:
    """Tell where the execution table of STATE.md says otherwise."""
    for table in markdown.tables(markdown.decoded(data or b"")):
        place, progress = table.column("spec id", "spec"), table.column("progress")
        for row in table.rows:
            if min(place, progress) < 0 or len(row.cells) <= max(place, progress) or row.cells[place] != name:
                continue
            if (row.cells[progress].casefold() == "complete") is not is_done:
                said = f"STATE.md says `{row.cells[progress]}` of {name}, its state says otherwise."
                yield Finding(kind="copies-differ", sentence=said)
