"""Turns the tasks of another system into a plan that the core accepts, with one claim for each task.

Readers fill in drafts with native names. This module makes valid ids, needs that can be met, and an order of
stages. Nothing is lost silently: each dropped need and each moved task is a finding.
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
"""The dropped needs, as (name, need)."""


def acyclic(edges: Mapping[str, tuple[str, ...]]) -> tuple[Edges, Dropped]:
    """Return the edges without those that close a cycle, and the dropped ones.

    The choice is deterministic.
    """
    kept: Edges = {name: tuple(dict.fromkeys(needs)) for name, needs in edges.items()}
    dropped: Dropped = []
    while circle := find_cycle(kept):
        who, what = circle[-2], circle[-1]
        kept[who] = tuple(need for need in kept[who] if need != what)
        dropped.append((who, what))
    return kept, dropped


def in_order(edges: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the names sorted so that each follows its needs, else in their old order.

    There must be no cycle.
    """
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
    """Return unique names: a missing one is `fallback` and its position, a repeated one gets a number."""
    taken: dict[str, None] = {}
    for place, native in enumerate(natives, 1):
        name = base = native or f"{fallback}-{place}"
        number = 2
        while name in taken:
            name, number = f"{base} ({number})", number + 1
        taken[name] = None
    return list(taken)


def _plain(native: str) -> str:
    """Return the name if it is a valid id, else its valid characters."""
    if is_valid_id(native):
        return native
    return re.sub(r"[^A-Za-z0-9._-]+", "-", native).strip("._-")[:_ID_CHARS_MAX]


def _free(name: str, taken: set[str]) -> str:
    """Return the name, numbered if taken.

    Some file systems do not tell ids apart that differ only in case.
    """
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


class StageDraft(msgspec.Struct, kw_only=True):
    """A layer, phase or wave by its native name. `needs` names others; None means the previous one."""

    native: str
    title: str = ""
    needs: tuple[str, ...] | None = None


class TaskDraft(msgspec.Struct, kw_only=True):
    """A task by its native name, and what is claimed about it.

    `task.needs` holds native names; ids are empty. `names` are other names that needs may use for it.
    """

    native: str
    stage: str
    task: Task
    claim: Claim
    names: tuple[str, ...] = ()


class Assembly(msgspec.Struct, frozen=True, kw_only=True):
    """The plan made from the drafts. `ids` are the tasks' ids in draft order; `stages` maps native names."""

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
        """Return the run of these claims. It is finished if all are settled, unless `said` says otherwise."""
        is_settled = all(claim.standing in SETTLED for claim in self.claims)
        return ForeignRun(
            system=system,
            name=name,
            plan=self.plan,
            findings=(*findings, *self.findings),
            main=main,
            documents=dict(documents),
            **{"claims": self.claims, "finished": is_settled, **said},
        )


@lru_cache(maxsize=8192)
def plain_name(name: str) -> str:
    """Return a name without what varies in spelling: case, signs, a leading `sprint` or `task`."""
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
    """Return the plan and the claims. Stages without tasks are left out."""
    draft_plan = _DraftPlan(stages, drafts)
    tasks: dict[str, list[Task]] = {}
    for task, home in draft_plan.homes().items():
        tasks.setdefault(home, []).append(draft_plan.task(task))
    order = [native for native in draft_plan.stage_order if native in tasks]
    stage_ids = dict(zip(order, task_ids(order, "stage"), strict=True))
    made = tuple(
        Stage(
            id=stage_ids[native],
            title=draft_plan.stages[native].title,
            needs=tuple(stage_ids[need] for need in draft_plan.stage_needs[native] if need in stage_ids),
            tasks=tuple(tasks[native]),
        )
        for native in order
    )
    plan = Plan(goal=goal.strip() or "Carry on", limits=limits or Limits(), slots=slots or {}, stages=made)
    return Assembly(
        plan=plan,
        claims=tuple(draft_plan.claim(task.id) for _, task in plan.tasks()),
        findings=tuple(draft_plan.findings),
        ids=tuple(draft_plan.drafts),
        stages=stage_ids,
    )


class _DraftPlan:
    """Drafts by their ids, with needs that can be met. Every dropped need and every move is a finding."""

    def __init__(self, stages: Sequence[StageDraft], drafts: Sequence[TaskDraft]) -> None:
        self.findings: list[Finding] = []
        self.stages: dict[str, StageDraft] = {}
        for stage in stages:
            self.stages.setdefault(stage.native, stage)
        self.drafts = dict(zip(task_ids(draft.native for draft in drafts), drafts, strict=True))
        self.stage_needs = self._without_cycles(self._stage_edges())
        self.stage_order = in_order(self.stage_needs)
        self._landings: Edges = {}
        self._interfaces: Edges = {}
        names = self._task_names()
        for task, draft in self.drafts.items():
            self._landings[task] = self._resolve(task, draft.task.needs, names)
            self._interfaces[task] = self._resolve(task, draft.task.needs_interface, names)
        self._edges = self._without_cycles(
            {task: needs + self._interfaces[task] for task, needs in self._landings.items()}
        )

    def _without_cycles(self, edges: Edges) -> Edges:
        kept, dropped = acyclic(edges)
        for who, what in dropped:
            sentence = (
                f"{who} and {what} need each other, perhaps through others; {who} no longer waits for {what}."
            )
            self.findings.append(Finding("cycle", sentence, who if who in self.drafts else ""))
        return kept

    def _stage_edges(self) -> Edges:
        """Return what each stage waits for: the stages it names, else the previous one."""
        plain = {plain_name(name): name for name in self.stages}
        edges: Edges = {}
        before: tuple[str, ...] = ()
        for native, stage in self.stages.items():
            named: list[str] = []
            for need in dict.fromkeys(stage.needs or ()):
                name = need if need in self.stages else plain.get(plain_name(need))
                if name is None:
                    sentence = f"{native} waits for {need}, which is nowhere described."
                    self.findings.append(Finding("unknown-stage", sentence))
                elif name != native:
                    named.append(name)
            edges[native] = before if stage.needs is None else tuple(named)
            before = (native,)
        return edges

    def _task_names(self) -> dict[str, str]:
        """Map every name to its id: exact names first, then other names, then other spellings."""
        names: dict[str, str] = {}
        for spellings in (
            lambda draft: (draft.native,),
            lambda draft: draft.names,
            lambda draft: map(plain_name, (draft.native, *draft.names)),
        ):
            for task, draft in self.drafts.items():
                for name in filter(None, spellings(draft)):
                    names.setdefault(name, task)
        return names

    def _resolve(self, task: str, wanted: Iterable[str], names: Mapping[str, str]) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for need in dict.fromkeys(wanted):
            name = names.get(need) or names.get(plain_name(need))
            if name is None:
                sentence = (
                    f"{task} waits for {need}, which is nowhere described; it no longer waits for that."
                )
                self.findings.append(Finding("unknown-need", sentence, task))
            elif name == task:
                self.findings.append(Finding("cycle", f"{task} waits for itself; that is left out.", task))
            else:
                found[name] = None
        return tuple(found)

    def homes(self) -> dict[str, str]:
        """Return each task's stage: its own, or a later one if one of its needs is in that."""
        places = {native: place for place, native in enumerate(self.stage_order)}
        own = {task: places[draft.stage] for task, draft in self.drafts.items()}
        for task in in_order(self._edges):
            later = max((own[need] for need in self._edges[task]), default=0)
            if later > own[task]:
                said, to = self.stage_order[own[task]], self.stage_order[later]
                sentence = f"{task} is listed in {said} but needs work of {to}; it runs with {to}."
                self.findings.append(Finding("moved", sentence, task))
                own[task] = later
        return {task: self.stage_order[place] for task, place in own.items()}

    def task(self, task: str) -> Task:
        """Return a task under its id. An empty prompt is replaced by the names."""
        draft = self.drafts[task]
        title = " ".join((draft.task.title or (draft.native if draft.native != task else "")).split())
        landings = tuple(need for need in self._landings[task] if need in self._edges[task])
        return msgspec.structs.replace(
            draft.task,
            id=task,
            title=title,
            prompt=draft.task.prompt.strip() or ("" if draft.task.run else title or task),
            needs=landings,
            needs_interface=tuple(
                need for need in self._interfaces[task] if need in self._edges[task] and need not in landings
            ),
        )

    def claim(self, task: str) -> Claim:
        """Return what is claimed about a task, under its id."""
        draft = self.drafts[task]
        return msgspec.structs.replace(draft.claim, task=task, native=draft.native)
