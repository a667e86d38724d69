"""Where a SpecFlow state contradicts itself or the files around it, and what it leaves open. Told to the user only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.formats import markdown
from holdfast.formats.contradictions import done_with_unfinished_parts, unknown_words, unreadable
from holdfast.formats.lenient_json import BrokenFileError, Node, commits, node, parse_object, text
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, Finding
from holdfast.formats.plan_assembly import Assembly
from holdfast.formats.specflow import layout
from holdfast.formats.specflow.specification import Spec
from holdfast.formats.specflow.state import Group
from holdfast.formats.status_words import claimed_status


def in_state(document: Node, groups: list[Group], claims: list[Claim]) -> Iterator[Finding]:
    """Yield what to tell of each group, of each wave, and of the run. The claims are those of the groups, in order."""
    yield from unknown_words(claims)
    unfinished: dict[str, list[str]] = {}
    for group, claim in zip(groups, claims, strict=True):
        yield from _in_group(group, claim)
        if claim.standing not in SETTLED:
            unfinished.setdefault(group.wave.name, []).append(claim.task)
    for wave in {group.wave.name: group.wave for group in groups}.values():
        yield from done_with_unfinished_parts(wave.name, wave.said, unfinished.get(wave.name, ()))
    open_groups = [task for tasks in unfinished.values() for task in tasks]
    yield from done_with_unfinished_parts("The run", text(document.get("status")), open_groups)
    if not document.get("waves") and document.get("mode") != "single":
        said = "The state has no waves. Its groups come from the specification, or it counts as one group."
        yield Finding("drifted", said)


def _in_group(group: Group, claim: Claim) -> Iterator[Finding]:
    task = claim.task
    if not group.listed:
        said = f"`{task}` is in the specification but in no wave of the state; it counts as not begun."
        yield Finding("missing-group", said, task)
    if claim.said == "partial":
        said = f"`{task}` was done in part; the run continues it."
        yield Finding("partial", said, task)


def with_other_files(
    main: str, name: str, made: Assembly, spec: Spec | None, documents: Mapping[str, bytes]
) -> Iterator[Finding]:
    """Yield what the files around the state say: a lock, a pause, a specification that knows better."""
    here = layout.prefix_of(main)
    if lock := documents.get(here + layout.LOCK):
        holder = markdown.decoded(lock).strip()[:40] or "unknown"
        said = f"{layout.LOCK} is there (process {holder}): check that SpecFlow is not at work any more."
        yield Finding("locked", said)
    yield from _pause(name, made, documents.get(here + layout.CONTINUE))
    is_done = all(claim.standing in SETTLED for claim in made.claims)
    if spec and claimed_status(spec.status) is ClaimedStatus.DONE and not is_done:
        said = f"The specification is marked {spec.status}, but its state is not: the state may be stale."
        yield Finding("copies-differ", said)
    yield from _status_row(name, documents.get(here + layout.STATE_MD), is_done=is_done)


def _pause(name: str, made: Assembly, data: bytes | None) -> Iterator[Finding]:
    """Tell where `.continue-here` says that the run was paused, if it is about this run."""
    if data is None:
        return
    try:
        pause = parse_object(layout.CONTINUE, data)
    except BrokenFileError as error:
        yield unreadable(error)
        return
    if text(pause.get("spec_id")) not in ("", name):
        return
    at = node(pause.get("paused_at"))
    group, wave = text(at.get("group")), text(at.get("wave"))
    said = f"The run was paused on purpose at wave {wave or '?'}, group {group or '?'}."
    yield Finding("paused", said)
    if group and group not in made.ids:
        yield Finding("unknown-task", f"It was paused at group {group}, which is in no wave.")
    known = {commit for claim in made.claims for commit in claim.commits}
    extra = [commit for commit in commits(pause.get("commits_completed")) if commit not in known]
    if extra:
        said = f"{layout.CONTINUE} names commits that no group has: {', '.join(extra)}."
        yield Finding("copies-differ", said)


def _status_row(name: str, data: bytes | None, *, is_done: bool) -> Iterator[Finding]:
    """Tell where the execution table of STATE.md says otherwise."""
    for table in markdown.tables(markdown.decoded(data or b"")):
        for spec, progress in table.select(("spec id", "spec"), ("progress",)):
            if spec == name and progress and (progress.casefold() == "complete") is not is_done:
                said = f"STATE.md says `{progress}` of {name}, but its state says otherwise."
                yield Finding("copies-differ", said)
