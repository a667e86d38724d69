"""What a SpecFlow state says that cannot all be true, and what it leaves open."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.formats import loose
from holdfast.formats.loose import Node
from holdfast.formats.model import SETTLED, Claim, Finding, Standing
from holdfast.formats.specflow.document import Group
from holdfast.formats.words import standing_of, unknown_words


def doubts(document: Node, groups: list[Group], claims: list[Claim]) -> Iterator[Finding]:
    """Yield what to tell of each group, of each wave, and of the run; claims are those of the groups, in order."""
    yield from unknown_words(claims)
    for group, claim in zip(groups, claims, strict=True):
        yield from _of_group(group, claim)
    yield from _of_waves(groups, claims)
    overall, _ = standing_of(loose.text(document.get("status")))
    open_now = [claim.task for claim in claims if claim.standing not in SETTLED]
    if overall is Standing.DONE and open_now:
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
        is_complete = standing_of(group.wave.said)[0] is Standing.DONE and bool(group.wave.said)
        if is_complete and claim.standing not in SETTLED:
            open_in.setdefault(group.wave.name, []).append(claim.task)
    for wave, tasks in open_in.items():
        said = f"{wave} is called complete, but {', '.join(tasks)} is not."
        yield Finding(kind="done-with-unfinished-parts", sentence=said)
