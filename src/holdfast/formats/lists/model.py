"""The common model of all task lists, and how their entries become a plan."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from holdfast.core.ids import slug
from holdfast.core.plan import Plan, Task
from holdfast.formats.lenient_json import BrokenFileError
from holdfast.formats.model import Claim, ClaimedStatus, Finding
from holdfast.formats.plan_assembly import StageDraft, TaskDraft, assemble, task_ids
from holdfast.formats.status_words import claimed_status

_TITLE_CHARS = 80
_OVER = (ClaimedStatus.DONE, ClaimedStatus.SKIPPED, ClaimedStatus.ABANDONED)


class ImportOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the user asks of an import. `tag` selects the list if a file holds several."""

    keep_done: bool = False
    parallel: bool = False
    tag: str = ""


class ListEntry(msgspec.Struct, kw_only=True):
    """One task of a list by its native name. `needs` are native names; `said` is its status word.

    `points` are what it ticks in the list when it is done.
    """

    native: str
    stage: str
    title: str
    prompt: str
    needs: tuple[str, ...] = ()
    acceptance: tuple[str, ...] = ()
    status: ClaimedStatus = ClaimedStatus.PENDING
    said: str = ""
    points: tuple[str, ...] = ()


def listed_status(said: str) -> ClaimedStatus:
    """Return what a list's status word means for a plan: the task is over, or still open."""
    status = claimed_status(said)
    return status if status in _OVER else ClaimedStatus.PENDING


class LeftOut(msgspec.Struct, frozen=True):
    """An entry of the list that is not in the plan, and why."""

    what: str
    why: str


class ImportedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan made from a list; its `agent` is not chosen yet. `tag` is the list of a file with several."""

    plan: Plan
    tag: str = ""
    left_out: tuple[LeftOut, ...] = ()
    findings: tuple[Finding, ...] = ()


def into_plan(
    name: str,
    goal: str,
    stages: Sequence[StageDraft],
    entries: Sequence[ListEntry],
    options: ImportOptions,
    left_out: Sequence[LeftOut] = (),
) -> ImportedPlan:
    """Return the plan of the open tasks. No task waits for an entry that was left out."""
    over = () if options.keep_done else _OVER
    gone = [entry for entry in entries if entry.status in over]
    kept = [entry for entry in entries if entry.status not in over]
    if not kept:
        why = "all of its tasks are done" if entries else "no task was found in it"
        raise BrokenFileError(
            f"{name}: {why}", "--all imports also what is marked as done." if entries else ""
        )
    absent = {entry.native for entry in gone}
    natives = [stage.native for stage in stages]
    # A heading without a Latin letter or digit is named by its number.
    plain = [words(native) or f"stage-{place}" for place, native in enumerate(natives, 1)]
    short = dict(zip(natives, task_ids(plain), strict=True))
    for stage in stages:
        needs = None if stage.needs is None else tuple(short[need] for need in stage.needs)
        stage.native, stage.needs = short[stage.native], needs
    for entry in kept:
        entry.stage = short[entry.stage]
    made = assemble(clean(goal), stages, [_draft(entry, absent) for entry in kept])
    named = [LeftOut(entry.native, entry.said or entry.status.value) for entry in gone]
    return ImportedPlan(plan=made.plan, left_out=(*named, *left_out), findings=made.findings)


def words(text: str) -> str:
    """Return the readable part of an id for a text; empty if it has no Latin letter or digit."""
    return slug(text) if re.search(r"[A-Za-z0-9]", text) else ""


def _draft(entry: ListEntry, absent: set[str]) -> TaskDraft:
    task = Task(
        id="",
        title=clean(entry.title)[:_TITLE_CHARS],
        prompt=clean(entry.prompt),
        needs=tuple(need for need in entry.needs if need not in absent),
        acceptance=tuple(filter(None, map(clean, entry.acceptance))),
        points=entry.points,
    )
    claim = Claim(task="", standing=entry.status)
    return TaskDraft(native=clean(entry.native), stage=entry.stage, task=task, claim=claim)


def clean(text: str) -> str:
    """Return a text that a plan file can hold: unprintable characters become spaces."""
    kept = "".join(sign if sign.isprintable() or sign in "\n\t" else " " for sign in text)
    return kept.strip()
