"""Reports on epics and sprints: what was done, what validators said of it, and what they found fault with."""

from __future__ import annotations

import re

from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.formats.cfn.epic_model import EpicModel, SprintIndex
from holdfast.formats.cfn.sprint import gate_of, issues_of, share_of, sprint_claim, task_of
from holdfast.formats.lenient_json import Node, count, first, items, node, text, texts
from holdfast.formats.model import Claim, ClaimedStatus, Finding, PastFailure
from holdfast.formats.plan_assembly import TaskDraft, plain_name
from holdfast.formats.status_words import claimed_status

_SCORE = (
    "consensus_score",
    "consensusScore",
    "achieved_consensus",
    "average_score",
    "overall_confidence",
    "confidence",
)
_DECIDED = ("decision", "product_owner_decision", "vote", "recommendation")
_DECISIONS = (
    (re.compile(r"proceed|defer|approve|accept|pass", re.IGNORECASE), ClaimedStatus.DONE),
    (re.compile(r"relaunch|reject|retry|fail", re.IGNORECASE), ClaimedStatus.FAILED),
    (re.compile(r"escalate|block", re.IGNORECASE), ClaimedStatus.BLOCKED),
)


def read_sprint_report(root: Node) -> EpicModel:
    """Return the sheet of a report on one sprint, or on several that it sums up."""
    sheet = EpicModel(name=text(first(root, "epic", "epic_id", "epicId")) or "epic", leveled=True)
    for native, title, entry in _reported(root):
        acceptance = tuple(dict.fromkeys([*texts(entry.get("tasks_completed")), *task_of(entry).acceptance]))
        prompt = "\n".join(filter(None, (title or f"Sprint {native}", *_told(entry))))
        task = Task(id="", title=title, prompt=prompt, acceptance=acceptance, gate=gate_of(entry))
        sheet.drafts.append(TaskDraft(native=native, stage="", task=task, claim=report_claim(native, entry)))
        sheet.nodes.append(entry)
    return sheet


def _reported(root: Node) -> list[tuple[str, str, Node]]:
    """Return the sprints of a report as (name, title, what is said)."""
    summed = node(root.get("sprint_summary"))
    if summed:
        return [(plain_name(name) or name, text(first(node(said), "name", "title")), node(said) or {"status": text(said)}) for name, said in summed.items()]  # fmt: skip
    name = text(first(root, "sprint", "sprint_id", "sprintId", "phase")) or "sprint"
    split = re.fullmatch(r"((?:sprint[\s_-]*)?[\d.]+)\s*\W\s+(.+)", name, re.IGNORECASE)
    title = text(first(root, "sprint_name", "title", "name"))
    return [(split[1], title or split[2], root)] if split else [(name, title, root)]


def _told(entry: Node) -> tuple[str, ...]:
    """Return what the report says of the work itself."""
    summary = node(entry.get("summary"))
    return tuple(filter(None, (text(first(summary, "objective", "outcome")), text(entry.get("objective")))))


def report_claim(native: str, entry: Node) -> Claim:
    """Return what a report claims of a sprint: its status, else the decision, else its score against the gate."""
    claim = sprint_claim(native, entry)
    score, gate = share_of(first(entry, *_SCORE)), gate_of(entry)
    standing = claim.standing
    if not claim.said:
        standing = _decided(text(first(entry, *_DECIDED)), score, gate)
    attempts = max(claim.attempts, 1)
    failed = standing is ClaimedStatus.FAILED
    claim = replace(claim, standing=standing, attempts=attempts, spent=attempts if failed else attempts - 1)
    if failed and not claim.failures:
        error = (
            f"the validators gave {score}, and {gate} was asked for"
            if score is not None
            else "the validators said no"
        )
        claim = replace(
            claim, failures=(PastFailure(attempt=claim.attempts, error=error, feedback=issues_of(entry)),)
        )
    return claim


def _decided(word: str, score: float | None, gate: float) -> ClaimedStatus:
    for pattern, standing in _DECISIONS:
        if pattern.match(word):
            return standing
    if score is None:
        return claimed_status(word)
    return ClaimedStatus.DONE if score >= gate else ClaimedStatus.FAILED


def read_epic_report(root: Node) -> EpicModel:
    """Return the sheet of an epic's completion report, which names phases but only counts their sprints."""
    sheet = EpicModel(
        name=text(first(root, "epic_id", "epicId", "epic")) or "epic",
        title=text(root.get("epic")),
        status=_completion(root),
        leveled=True,
    )
    counted = 0
    for place, entry in enumerate(items(root.get("phase_summary")), 1):
        said = node(entry)
        name = text(first(said, "phase", "name", "id")) or text(entry) or f"phase-{place}"
        counted += count(said.get("sprints"))
        points = texts(said.get("key_achievements"))
        prompt = "\n".join((name, *(f"- {line}" for line in points)))
        task = Task(id="", title=name, prompt=prompt, acceptance=points)
        sheet.drafts.append(TaskDraft(native=name, stage="", task=task, claim=sprint_claim(name, said)))
        sheet.nodes.append(said)
    total = count(root.get("total_sprints"))
    sentence = "The report names phases, not their sprints: each phase is one task."
    sheet.findings.append(Finding(kind="guess", sentence=sentence))
    if counted != total:
        sentence = f"The report counts {total} sprints, but its phases add up to {counted}."
        sheet.findings.append(Finding(kind="counters-differ", sentence=sentence))
    return sheet


def _completion(root: Node) -> str:
    """Return the word for the whole: a report without a status says by its counts whether all was done."""
    if said := text(first(root, "status", "epic_status")):
        return said
    total = count(root.get("total_sprints"))
    return "completed" if total and count(root.get("completed_sprints")) >= total else ""


def apply_report(sheet: EpicModel, root: Node) -> None:
    """Lay a report over the sprint it is about, if it is about this epic. Reports are told apart by their epic."""
    about = plain_name(text(first(root, "epic", "epic_id", "epicId")))
    if not about or about not in (plain_name(sheet.name), plain_name(sheet.title)):
        return
    directory = SprintIndex(sheet)
    for native, title, entry in _reported(root):
        draft = directory.find(native) or (directory.find(title) if title else None)
        if draft is None:
            sentence = f"A report is about sprint {native}, which the epic does not list; it is left out."
            sheet.findings.append(Finding(kind="unknown-task", sentence=sentence))
        elif draft.claim.standing is ClaimedStatus.PENDING:
            draft.claim = report_claim(draft.native, entry)
