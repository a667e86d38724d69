"""`adopt` as data and as text: what the files of a foreign run say, what git proves, and the findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from holdfast.core.adoption import FINISHED, UNPROVEN, Claim, Finding, Verdict, attempts_of
from holdfast.runner.adoption.assessment import Assessment
from holdfast.views.text import count, one_line, table, when


class AdoptedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task: what the files say about it, the verdict and why, and where its unfinished work is."""

    id: str
    native: str
    said: str
    verdict: Verdict
    evidence: str | None
    why: str
    attempts: int
    spent: int
    work: str | None
    work_files: int


class AdoptionView(msgspec.Struct, frozen=True, kw_only=True):
    """A foreign run as it was, or would be, adopted; `run` is null until it is."""

    run: str | None
    system: str
    name: str
    main: str
    goal: str
    base: str
    base_name: str
    finished: int
    tasks: tuple[AdoptedTask, ...]
    findings: tuple[Finding, ...]


class SourceLine(msgspec.Struct, frozen=True, kw_only=True):
    """One run of another system, as `adopt --list` shows it. `done` is what its files say, not what git proves.

    `updated_at` is the state's own word about its last change; if it has none, the time of the file. `updated_by` says which.
    """

    system: str
    name: str = "?"
    main: str
    tasks: int = 0
    done: int = 0
    stage: str = ""
    updated_at: str
    updated_by: Literal["state", "file"] = "file"
    resumable: bool = False
    error: str | None = None


def adoption_view(assessment: Assessment, run: str | None = None) -> AdoptionView:
    """Return what `adopt` shows about a foreign run."""
    foreign = assessment.foreign
    return AdoptionView(
        run=run,
        system=foreign.system,
        name=foreign.name,
        main=foreign.main,
        goal=foreign.plan.goal,
        base=assessment.base,
        base_name=assessment.base_name,
        finished=len(assessment.finished),
        tasks=tuple(_task(assessment, claim) for claim in foreign.claims),
        findings=assessment.findings,
    )


def adoption_text(view: AdoptionView) -> str:
    """Return a foreign run as text."""
    lines = [
        f"{view.system} {one_line(view.name)}  ({one_line(view.main)})",
        f"  {one_line(view.goal)}",
        f"  continues from {view.base_name} {view.base[:12]}; {view.finished} of {count(len(view.tasks), 'task')} done",
        "",
        *_tasks(view.tasks),
        *_findings(view.findings),
        *_choices(view),
    ]
    return "\n".join(lines)


def sources_text(lines: Sequence[SourceLine]) -> str:
    """Return the runs that were found, one line each."""
    rows = [("SYSTEM", "NAME", "DONE", "AT", "UPDATED", "RESUMABLE", "FILE")]
    rows += [
        (
            line.system,
            one_line(line.name, 40),
            "unreadable" if line.error else f"{line.done}/{line.tasks}",
            line.stage or "-",
            when(line.updated_at) + ("" if line.updated_by == "state" else " (file)"),
            "yes" if line.resumable else "no",
            line.main,
        )
        for line in lines
    ]
    errors = [f"  {one_line(line.error, 200)}" for line in lines if line.error]
    return "\n".join([*table(rows, indent=""), *errors])


def _task(assessment: Assessment, claim: Claim) -> AdoptedTask:
    judged, work = assessment.judged[claim.task], assessment.unfinished.get(claim.task)
    return AdoptedTask(
        id=claim.task,
        native=claim.native or claim.task,
        said=claim.said or str(claim.standing),
        verdict=judged.verdict,
        evidence=judged.evidence or None,
        why=judged.why,
        attempts=attempts_of(claim),
        spent=claim.spent,
        work=work.place if work else None,
        work_files=work.files if work else 0,
    )


def _tasks(tasks: Sequence[AdoptedTask]) -> Iterator[str]:
    rows = [("TASK", "THEY SAY", "VERDICT", "WHY", "ATTEMPTS", "UNFINISHED WORK")]
    for task in tasks:
        files = f" ({count(task.work_files, 'file')})" if task.work_files else ""
        work = f"{one_line(task.work, 60)}{files}" if task.work else ""
        why = one_line(task.why, 60)
        rows.append((task.id, one_line(task.said, 20), task.verdict, why, str(task.attempts), work))
    yield from table(rows)


def _findings(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the findings that the table does not show already."""
    others = [finding for finding in findings if finding.kind not in UNPROVEN.values()]
    if others:
        yield ""
        yield from (f"  - {one_line(finding.sentence, 240)}" for finding in others)


def _choices(view: AdoptionView) -> Iterator[str]:
    if view.run is None and (look := second_look(view)):
        yield ""
        yield f"  {count(_unproven(view), 'task')} called done without proof. {look.capitalize()}, unless"
        yield "  --accept-named accepts commits that name a task, or --trust-claims accepts what the files say."


def second_look(view: AdoptionView) -> str:
    """Say what happens to tasks that the files call done and git does not prove; empty if there are none."""
    them = "it" if _unproven(view) == 1 else "them"
    return f"an agent looks at {them} again" if _unproven(view) else ""


def _unproven(view: AdoptionView) -> int:
    return sum(task.verdict in UNPROVEN for task in view.tasks)


def left_to_do(view: AdoptionView) -> int:
    """Return how many tasks are neither done nor skipped."""
    return sum(task.verdict not in FINISHED and task.verdict is not Verdict.SKIPPED for task in view.tasks)
