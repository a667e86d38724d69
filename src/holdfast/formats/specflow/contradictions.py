"""What a SpecFlow state says that cannot all be true, and what it leaves open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.formats import lenient_json, markdown
from holdfast.formats.contradictions import unknown_words
from holdfast.formats.lenient_json import Node
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, Finding
from holdfast.formats.plan_assembly import Assembly
from holdfast.formats.specflow import layout
from holdfast.formats.specflow.specification import Spec
from holdfast.formats.specflow.waves import Group
from holdfast.formats.status_words import claimed_status


def state_contradictions(document: Node, groups: list[Group], claims: list[Claim]) -> Iterator[Finding]:
    """Yield what to tell of each group, of each wave, and of the run; claims are those of the groups, in order."""
    yield from unknown_words(claims)
    for group, claim in zip(groups, claims, strict=True):
        yield from _of_group(group, claim)
    yield from _of_waves(groups, claims)
    overall = claimed_status(lenient_json.text(document.get("status")))
    open_now = [claim.task for claim in claims if claim.standing not in SETTLED]
    if overall is ClaimedStatus.DONE and open_now:
        said = f"The state says that the run is complete, but `{open_now[0]}` is not."
        yield Finding(kind="done-with-unfinished-parts", sentence=said)
    if not document.get("waves") and document.get("mode") != "single":
        said = "The state has no waves; what it is about was taken from its specification, or counts as one group."
        yield Finding(kind="drifted", sentence=said)


def _of_group(group: Group, claim: Claim) -> Iterator[Finding]:
    task = claim.task
    if not group.listed:
        said = f"`{task}` is in the specification but in no wave of the state; it counts as not begun."
        yield Finding(kind="missing-group", task=task, sentence=said)
    if claim.said == "partial":
        said = f"`{task}` was done in part; it is gone on with."
        yield Finding(kind="partial", task=task, sentence=said)


def _of_waves(groups: list[Group], claims: list[Claim]) -> Iterator[Finding]:
    """Tell of waves that are called complete although a group in them is not."""
    open_in: dict[str, list[str]] = {}
    for group, claim in zip(groups, claims, strict=True):
        is_complete = claimed_status(group.wave.said) is ClaimedStatus.DONE and bool(group.wave.said)
        if is_complete and claim.standing not in SETTLED:
            open_in.setdefault(group.wave.name, []).append(claim.task)
    for wave, tasks in open_in.items():
        said = f"{wave} is called complete, but {', '.join(tasks)} is not."
        yield Finding(kind="done-with-unfinished-parts", sentence=said)


def companion_contradictions(
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
    if spec and claimed_status(spec.status) is ClaimedStatus.DONE and not standings <= set(SETTLED):
        said = f"The specification is marked {spec.status}, but its state is not: the state may be stale."
        yield Finding(kind="copies-differ", sentence=said)
    yield from _status_row(name, documents.get(here + layout.STATE_MD), is_done=standings <= set(SETTLED))


def _paused(name: str, made: Assembly, data: bytes | None) -> Iterator[Finding]:
    """Tell where `.continue-here` says that the run was paused, if it is about this run."""
    if data is None:
        return
    try:
        pause = lenient_json.parse_object(layout.CONTINUE, data)
    except lenient_json.BrokenFileError as error:
        yield Finding(kind="unreadable", sentence=error.message)
        return
    if lenient_json.text(pause.get("spec_id")) not in ("", name):
        return
    at = lenient_json.node(pause.get("paused_at"))
    group, wave = lenient_json.text(at.get("group")), lenient_json.text(at.get("wave"))
    place = f"wave {wave or '?'}, group {group or '?'}"
    yield Finding(kind="paused", sentence=f"The run was paused on purpose at {place}.")
    if group and group not in made.ids:
        yield Finding(kind="unknown-task", sentence=f"It was paused at group {group}, which is in no wave.")
    known = {commit for claim in made.claims for commit in claim.commits}
    extra = [commit for commit in lenient_json.commits(pause.get("commits_completed")) if commit not in known]
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
