"""From tasks as another system names them to a plan that the core accepts, with one claim for each task.

Readers fill in drafts with native names. Here the names become valid ids, needs that can be met, and an order of
stages. Nothing is lost in silence: each need that is dropped and each task that moves is a finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.core.ids import is_valid_id
from holdfast.core.plan import Limits, Plan, Stage, Task, find_cycle
from holdfast.formats.model import SETTLED, Claim, Finding, ForeignRun
from holdfast.formats.registry import System

Edges = dict[str, tuple[str, ...]]
Dropped = list[tuple[str, str]]
"""The needs that were given up, as (who needed, what)."""


def acyclic(edges: Mapping[str, tuple[str, ...]]) -> tuple[Edges, Dropped]:
    """Return the edges without those that close a circle, and those. Which one goes is the same every time."""
    kept: Edges = {name: tuple(dict.fromkeys(needs)) for name, needs in edges.items()}
    dropped: Dropped = []
    while circle := find_cycle(kept):
        who, what = circle[-2], circle[-1]
        kept[who] = tuple(need for need in kept[who] if need != what)
        dropped.append((who, what))
    return kept, dropped


def in_order(edges: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the names so that each comes after what it needs, and otherwise as they were. There is no circle."""
    placed: dict[str, None] = {}
    for name in edges:
        waiting = [name]
        while waiting:
            missing = [need for need in edges[waiting[-1]] if need in edges and need not in placed]
            if missing:
                waiting.append(missing[0])
            else:
                placed.setdefault(waiting.pop())
    return list(placed)


def levels(needs: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the level of each name: 1 if it needs nothing, else one more than the highest that it needs."""
    known = {name: tuple(need for need in wanted if need in needs) for name, wanted in needs.items()}
    edges, _ = acyclic(known)
    found: dict[str, int] = {}
    for name in in_order(edges):
        found[name] = max((found[need] for need in edges[name]), default=0) + 1
    return found


_ID_CHARS_MAX = 64


def task_ids(natives: Iterable[str], fallback: str = "task") -> list[str]:
    """Return one id for each native name, in order. A missing name becomes `fallback` and its number."""
    taken: set[str] = set()
    return [_free(_plain(native) or f"{fallback}-{place}", taken) for place, native in enumerate(natives, 1)]


def distinct(natives: Iterable[str], fallback: str) -> list[str]:
    """Return the names as they are, each once: a missing one is `fallback` and its place, a second one is numbered."""
    taken: dict[str, None] = {}
    for place, native in enumerate(natives, 1):
        name = base = native or f"{fallback}-{place}"
        number = 2
        while name in taken:
            name, number = f"{base} ({number})", number + 1
        taken[name] = None
    return list(taken)


def _plain(native: str) -> str:
    """Return the name itself where it may be an id, else what of it may be part of one."""
    if is_valid_id(native):
        return native
    return re.sub(r"[^A-Za-z0-9._-]+", "-", native).strip("._-")[:_ID_CHARS_MAX]


def _free(name: str, taken: set[str]) -> str:
    """Return the name, numbered if it is taken; ids that differ only in case are the same to some file systems."""
    candidate, number = name, 2
    while candidate.casefold() in taken:
        ending = f"-{number}"
        candidate = name[: _ID_CHARS_MAX - len(ending)] + ending
        number += 1
    taken.add(candidate.casefold())
    return candidate


_LINE_CHARS_MAX = 500
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w -]*>|\{[A-Za-z_]\w*\}|\.\.\.|…")
_PROGRAM = re.compile(r"\.{0,2}/?[A-Za-z0-9_][\w./+-]*(=\S*)?")
_PATH = re.compile(r"[\w@.()\[\]+-][\w@.()\[\]+/ -]*")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,12}$")


def is_command(line: str) -> bool:
    """Tell whether a line is a plain command: one line that begins with a program and leaves nothing to fill in."""
    line = line.strip()
    if not line or len(line) > _LINE_CHARS_MAX or not line.isprintable() or _PLACEHOLDER.search(line):
        return False
    return _PROGRAM.fullmatch(line.split()[0]) is not None


def is_path(name: str) -> bool:
    """Tell whether a text is a path below the project: no sentence, no pattern, nothing absolute or above it."""
    name = name.strip()
    if not _PATH.fullmatch(name) or name.startswith("-") or ".." in name.split("/"):
        return False
    last = name.rstrip("/").rsplit("/", 1)[-1]
    return " " not in name and ("/" in name or _ENDING.search(last) is not None or last.startswith("."))


def quoted(line: str) -> tuple[str, ...]:
    """Return what stands between backticks in a line."""
    return tuple(found.strip() for found in re.findall(r"`([^`\n]+)`", line))


class StageDraft(msgspec.Struct, kw_only=True):
    """A layer, phase or wave by its native name. `needs` names others; None stands for the one before."""

    native: str
    title: str = ""
    needs: tuple[str, ...] | None = None


class TaskDraft(msgspec.Struct, kw_only=True):
    """A task by its native name, and what is claimed of it. `task.needs` holds native names; ids are empty.

    `names` are other names that needs may call it by.
    """

    native: str
    stage: str
    task: Task
    claim: Claim
    names: tuple[str, ...] = ()


class Assembly(msgspec.Struct, frozen=True, kw_only=True):
    """What the drafts amount to. `ids` are the tasks' ids in the order of the drafts; `stages` maps native names."""

    plan: Plan
    claims: tuple[Claim, ...]
    findings: tuple[Finding, ...]
    ids: tuple[str, ...]
    stages: dict[str, str]

    def as_run(
        self,
        system: System,
        name: str,
        main: str,
        documents: Mapping[str, bytes],
        findings: Iterable[Finding] = (),
        **said: Any,
    ) -> ForeignRun:
        """Return the run of these claims. It is finished if all are settled, unless `said` tells otherwise."""
        run = ForeignRun(
            system=system,
            name=name,
            plan=self.plan,
            claims=self.claims,
            finished=all(claim.standing in SETTLED for claim in self.claims),
            findings=(*findings, *self.findings),
            main=main,
            documents=dict(documents),
        )
        return msgspec.structs.replace(run, **said)


@lru_cache(maxsize=8192)
def plain_name(name: str) -> str:
    """Return a name without what people write differently each time: case, signs, a leading `sprint` or `task`."""
    bare = re.sub(r"[^\w.]+", "-", name.casefold()).strip("-._")
    return re.sub(r"^(sprint|task|phase|layer)[-_ ]?(?=\w)", "", bare)


def assemble(
    goal: str,
    stages: Sequence[StageDraft],
    drafts: Sequence[TaskDraft],
    *,
    limits: Limits | None = None,
    slots: dict[str, int] | None = None,
) -> Assembly:
    """Return the plan and the claims. Stages that hold no task are left out."""
    findings: list[Finding] = []
    ids = task_ids([draft.native for draft in drafts])
    order, stage_needs = _stages_in_order(stages, findings)
    needs = _needs(drafts, ids, findings)
    homes = _homes(drafts, ids, needs, order, findings)
    used = set(homes.values())
    order = [stage for stage in order if stage.native in used]
    names = _stage_ids(order)
    tasks: dict[str, list[Task]] = {native: [] for native in names}
    for draft, name in zip(drafts, ids, strict=True):
        tasks[homes[name]].append(_task(draft, name, needs))
    made = tuple(_stage(stage, names, stage_needs[stage.native], tasks[stage.native]) for stage in order)
    plan = Plan(goal=goal.strip() or "Carry on", limits=limits or Limits(), slots=slots or {}, stages=made)
    return Assembly(
        plan=plan,
        claims=_claims(plan, drafts, ids),
        findings=tuple(findings),
        ids=tuple(ids),
        stages=names,
    )


def _stages_in_order(
    stages: Sequence[StageDraft], findings: list[Finding]
) -> tuple[list[StageDraft], dict[str, tuple[str, ...]]]:
    """Return the stages so that each comes after those it needs, and what each needs."""
    known: dict[str, StageDraft] = {}
    for stage in stages:
        known.setdefault(stage.native, stage)
    plain = {plain_name(name): name for name in known}
    wanted: dict[str, tuple[str, ...]] = {}
    before: tuple[str, ...] = ()
    for name, stage in known.items():
        wanted[name] = before if stage.needs is None else _known_stages(stage, known, plain, findings)
        before = (name,)
    kept, dropped = acyclic(wanted)
    for who, what in dropped:
        findings.append(
            Finding(kind="cycle", sentence=f"{who} and {what} wait for each other; {who} no longer waits.")
        )
    return [known[name] for name in in_order(kept)], kept


def _known_stages(
    stage: StageDraft, known: dict[str, StageDraft], plain: dict[str, str], findings: list[Finding]
) -> tuple[str, ...]:
    found: list[str] = []
    for need in stage.needs or ():
        name = need if need in known else plain.get(plain_name(need), "")
        if name and name != stage.native:
            found.append(name)
        elif not name:
            findings.append(
                Finding(
                    kind="unknown-stage",
                    sentence=f"{stage.native} waits for {need}, which is nowhere described.",
                )
            )
    return tuple(found)


class _Needs(msgspec.Struct, kw_only=True):
    """What each task waits for, by ids: landings, and interfaces."""

    landed: dict[str, tuple[str, ...]]
    interface: dict[str, tuple[str, ...]]


def _needs(drafts: Sequence[TaskDraft], ids: Sequence[str], findings: list[Finding]) -> _Needs:
    lookup = _lookup(drafts, ids)
    landed: dict[str, tuple[str, ...]] = {}
    interface: dict[str, tuple[str, ...]] = {}
    for draft, name in zip(drafts, ids, strict=True):
        landed[name] = _resolved(draft.task.needs, name, lookup, findings)
        waits = _resolved(draft.task.needs_interface, name, lookup, findings)
        interface[name] = tuple(need for need in waits if need not in landed[name])
    kept, dropped = acyclic({name: landed[name] + interface[name] for name in ids})
    for who, what in dropped:
        sentence = (
            f"{who} and {what} need each other, directly or through others; {who} no longer waits for {what}."
        )
        findings.append(Finding(kind="cycle", sentence=sentence, task=who))
    return _Needs(
        landed={name: tuple(need for need in landed[name] if need in kept[name]) for name in ids},
        interface={name: tuple(need for need in interface[name] if need in kept[name]) for name in ids},
    )


def _lookup(drafts: Sequence[TaskDraft], ids: Sequence[str]) -> dict[str, str]:
    """Map every name to the id it means: exact names first, then other names, then names written differently."""
    lookup: dict[str, str] = {}
    for names in (
        [(draft.native,) for draft in drafts],
        [draft.names for draft in drafts],
        [(plain_name(draft.native), *map(plain_name, draft.names)) for draft in drafts],
    ):
        for given, name in zip(names, ids, strict=True):
            for each in given:
                if each:
                    lookup.setdefault(each, name)
    return lookup


def _resolved(
    wanted: Iterable[str], who: str, lookup: dict[str, str], findings: list[Finding]
) -> tuple[str, ...]:
    found: list[str] = []
    for need in dict.fromkeys(wanted):
        name = lookup.get(need) or lookup.get(plain_name(need))
        if name is None:
            sentence = f"{who} waits for {need}, which is nowhere described; it no longer waits for that."
            findings.append(Finding(kind="unknown-need", sentence=sentence, task=who))
        elif name == who:
            findings.append(
                Finding(kind="cycle", sentence=f"{who} waits for itself; that is left out.", task=who)
            )
        elif name not in found:
            found.append(name)
    return tuple(found)


def _homes(
    drafts: Sequence[TaskDraft],
    ids: Sequence[str],
    needs: _Needs,
    order: Sequence[StageDraft],
    findings: list[Finding],
) -> dict[str, str]:
    """Return each task's stage: its own, or a later one if something it needs is only there."""
    place = {stage.native: number for number, stage in enumerate(order)}
    own = {name: place[draft.stage] for draft, name in zip(drafts, ids, strict=True)}
    edges = {name: needs.landed[name] + needs.interface[name] for name in ids}
    homes: dict[str, str] = {}
    for name in in_order(edges):
        later = max((own[need] for need in edges[name]), default=0)
        if later > own[name]:
            said, to = order[own[name]].native, order[later].native
            sentence = f"{name} is listed in {said} but needs work of {to}; it runs with {to}."
            findings.append(Finding(kind="moved", sentence=sentence, task=name))
            own[name] = later
        homes[name] = order[own[name]].native
    return homes


def _stage_ids(order: Sequence[StageDraft]) -> dict[str, str]:
    natives = [stage.native for stage in order]
    return dict(zip(natives, task_ids(natives, "stage"), strict=True))


def _stage(stage: StageDraft, names: dict[str, str], wanted: Sequence[str], tasks: Sequence[Task]) -> Stage:
    """Return the stage under its id. Nobody waits for a stage that holds no task."""
    needs = tuple(names[need] for need in wanted if need in names)
    return Stage(id=names[stage.native], title=stage.title, needs=needs, tasks=tuple(tasks))


def _task(draft: TaskDraft, name: str, needs: _Needs) -> Task:
    """Return the task under its id. Nobody can work on an empty prompt: its names are the least there is to say."""
    spec = draft.task
    title = " ".join((spec.title or (draft.native if draft.native != name else "")).split())
    prompt = spec.prompt.strip() or ("" if spec.run else title or name)
    return msgspec.structs.replace(
        spec,
        id=name,
        title=title,
        prompt=prompt,
        needs=needs.landed[name],
        needs_interface=needs.interface[name],
    )


def _claims(plan: Plan, drafts: Sequence[TaskDraft], ids: Sequence[str]) -> tuple[Claim, ...]:
    """Return one claim per task, in the order of the plan."""
    by_id = dict(zip(ids, drafts, strict=True))
    return tuple(
        msgspec.structs.replace(by_id[task.id].claim, task=task.id, native=by_id[task.id].native)
        for _, task in plan.tasks()
    )
