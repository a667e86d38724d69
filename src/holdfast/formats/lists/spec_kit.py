"""spec-kit's `tasks.md`: phases, `- [ ] T001 [P] [US1] …`, and what it says about dependencies.

`[P]` tasks may run in parallel. A task without it waits for all earlier tasks of its phase; later ones wait
for it. User stories need the phases before the first story, not each other, unless the file says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from posixpath import dirname, join

from holdfast.formats.lists.checklist import CheckBox, boxes, first_heading
from holdfast.formats.lists.model import ImportedPlan, ImportOptions, LeftOut, ListEntry, into_plan
from holdfast.formats.markdown import decoded, paragraphs, section, value
from holdfast.formats.plan_assembly import StageDraft

_FORWARD = re.compile(r"\bblocks\b|\bbefore\b|-+>|→|⇒|=>", re.IGNORECASE)
_BACKWARD = re.compile(r"\bdepends?\s+on\b|\brequires?\b|\bneeds?\b|\bafter\b|依赖|依賴", re.IGNORECASE)
_TASKS = re.compile(r"T(\d{1,9})([a-z]?)(?:\s*(?:-|\u2013|to|\.\.)\s*T(\d{1,9}))?")
_PHASE = re.compile(r"phase\s+([\w.]+)", re.IGNORECASE)
_STORY = re.compile(r"(?:user\s+story|\bUS)\s*-?(\d+)", re.IGNORECASE)
_RANGE_MAX = 200
# Text after a dash or a `but` is a separate statement: "after Phase 2 - may integrate with US1" needs no US1.
_CLAUSE = re.compile(r"\n|;|\.\s|\s[-\u2013\u2014]\s|\sbut\s", re.IGNORECASE)
_TASK = re.compile(r"\**(T\d+[a-z]?|TX+)\**[:.]?\s+(.*)", re.DOTALL)
_MARK = re.compile(r"\s*\[([^\]\s]{1,12})\]")
_DEPENDENCIES = ("Dependencies & Execution Order", "Dependencies", "Dependencies and Execution Order")


def is_spec_kit(text: str) -> bool:
    """Tell whether a text lists tasks as spec-kit does."""
    return any(_TASK.match(box.text) for box in boxes(text))


def read(path: str, documents: Mapping[str, bytes], options: ImportOptions) -> ImportedPlan:
    """Return the plan of a `tasks.md`."""
    text = decoded(documents.get(path, b""))
    listed = boxes(text)
    found = [(box, task) for box in listed if (task := _TASK.match(box.text))]
    title = re.sub(r"^tasks\s*[:-]\s*", "", first_heading(text), flags=re.IGNORECASE) or path
    said = next((part for name in _DEPENDENCIES if (part := section(text, name))), "")
    phases = dict.fromkeys(_stage_of(box) for box, _ in found)
    context = {phase: _context(section(text, phase)) for phase in phases}
    entries = [_entry(path, title, context, box, task) for box, task in found]
    _wait_in_order(found, entries)
    needs = _relations(said, _tasks_in)
    for entry in entries:  # An explicit dependency wins over one that only the order implies.
        implied = (need for need in entry.needs if entry.native not in needs.get(need, ()))
        entry.needs = tuple(dict.fromkeys((*implied, *needs.get(entry.native, ()))))
    others = [LeftOut(box.text, "not a task of spec-kit") for box in listed if not _TASK.match(box.text)]
    stages = _stages(entries, _relations(said, _phases_in), _relations(said, _STORY.findall))
    return into_plan(path, title, stages, entries, options, others)


def _entry(path: str, title: str, context: dict[str, str], box: CheckBox, task: re.Match[str]) -> ListEntry:
    said = task[2]
    while mark := _MARK.match(said):
        said = said[mark.end() :]
    phase = _stage_of(box)
    folder = dirname(path)
    return ListEntry(
        native=task[1],
        stage=phase,
        title=said.strip(),
        prompt=paragraphs(
            said.strip(),
            "\n".join(box.below),
            f"This is task {task[1]} of “{title}”, in {phase}.",
            context[phase],
            f"What it is part of is described in {join(folder, 'spec.md')} and {join(folder, 'plan.md')}, if they exist.",
        ),
        needs=tuple(_after(said)),
        status=box.status,
        said=box.said,
        points=(box.point,) if box.point else (),
    )


def _context(purpose: str) -> str:
    keys = ("Purpose", "Goal", "Independent Test")
    return "\n".join(f"{key}: {said}" for key in keys if (said := value(purpose, key)))


def _stage_of(box: CheckBox) -> str:
    """Return the phase of a task: the nearest heading named so, else the nearest below the title."""
    phases = [title for title in box.headings if _PHASE.match(title)]
    if phases:
        return phases[-1]
    return (*box.headings[1:], *box.headings, "Tasks")[0]


def _after(said: str) -> Iterator[str]:
    """Yield the dependencies that the task itself names."""
    for clause in re.findall(
        r"(?:depends on|requires|after)\s+((?:[\s,&]|and|T\d+[a-z]?)+)", said, re.IGNORECASE
    ):
        yield from re.findall(r"T\d+[a-z]?", clause)


def _wait_in_order(found: Sequence[tuple[CheckBox, re.Match[str]]], entries: Sequence[ListEntry]) -> None:
    """Let a task without `[P]` wait for all since the last such task, and the others for that one."""
    last: dict[str, str] = {}
    since: dict[str, list[str]] = {}
    for (_, task), entry in zip(found, entries, strict=True):
        before, beside = last.get(entry.stage), since.setdefault(entry.stage, [])
        is_parallel = re.match(r"(\s*\[[^\]\s]*\])*?\s*\[P\]", task[2]) is not None
        implied = [before] if before else []
        if not is_parallel:
            implied = beside or implied
            last[entry.stage], since[entry.stage] = entry.native, []
        else:
            beside.append(entry.native)
        entry.needs = (*entry.needs, *implied)


def _stages(
    entries: Sequence[ListEntry], phases: dict[str, tuple[str, ...]], stories: dict[str, tuple[str, ...]]
) -> list[StageDraft]:
    """Return the phases. Those of user stories run in parallel, between the other phases around them."""
    names = list(dict.fromkeys(entry.stage for entry in entries))
    by_phase = {found[1]: name for name in names if (found := _PHASE.match(name))}
    last: list[str] = []
    beside: list[str] = []
    of_story: dict[str, list[str]] = {}
    stages: list[StageDraft] = []
    for name in names:
        phase, story = _PHASE.match(name), _STORY.search(name)
        needs = [by_phase.get(need, "") for need in phases.get(phase[1] if phase else "", ())]
        if story:
            before = [story[1], *stories.get(story[1], ())]
            needs += [*last, *(part for need in before for part in of_story.get(need, ()))]
            of_story.setdefault(story[1], []).append(name)
            beside.append(name)
        else:
            needs += beside or last
            last, beside = [name], []
        stages.append(
            StageDraft(
                native=name,
                title=name,
                needs=tuple(need for need in dict.fromkeys(needs) if need and need != name),
            )
        )
    return stages


def _relations(text: str, names_in: Callable[[str], list[str]]) -> dict[str, tuple[str, ...]]:
    """Return needs where a text names both sides: `T016 blocks T018`, `Phase 4 depends on Phase 3`."""
    found: dict[str, tuple[str, ...]] = {}
    for clause in _CLAUSE.split(text):
        for before, after in _pairs(clause):
            for name in names_in(after):
                found[name] = (*found.get(name, ()), *names_in(before))
    return found


def _pairs(clause: str) -> Iterator[tuple[str, str]]:
    """Yield (what comes first, what needs it) for each relation of a clause."""
    if _BACKWARD.search(clause):
        after, *before = _BACKWARD.split(clause)
        yield from ((part, after) for part in before)
        return
    yield from pairwise(_FORWARD.split(clause))


def _tasks_in(text: str) -> list[str]:
    """Return the tasks that a text names, including ranges such as `T004-T007`."""
    names: list[str] = []
    for first, letter, last in _TASKS.findall(text):
        if last and int(first) <= int(last) <= int(first) + _RANGE_MAX:
            names += [f"T{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]
        else:
            names += [f"T{first}{letter}", *([f"T{last}"] if last else [])]
    return names


def _phases_in(text: str) -> list[str]:
    return [name.rstrip(".") for name in _PHASE.findall(text)]
