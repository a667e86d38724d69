"""Reports on epics and sprints: what was done, how validators scored it, and the faults they found."""

from __future__ import annotations

import re

from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.formats.cfn.epic import EpicModel
from holdfast.formats.cfn.sprint import gate_of, issues_of, share_of, sprint_claim, task_of
from holdfast.formats.lenient_json import Key, Node, count, items, node, text, texts
from holdfast.formats.model import Claim, ClaimedStatus, PastFailure
from holdfast.formats.plan_assembly import plain_name
from holdfast.formats.status_words import claimed_status

_EPIC = Key("epic", "epic_id", "epicId")
_EPIC_ID = Key("epic_id", "epicId", "epic")
_EPIC_STATUS = Key("status", "epic_status")
_SPRINT = Key("sprint", "sprint_id", "sprintId", "phase")
_SPRINT_TITLE = Key("sprint_name", "title", "name")
_PHASE = Key("phase", "name", "id")
_SCORE = Key(
    "consensus_score", "consensusScore", "achieved_consensus", "average_score", "overall_confidence", "confidence"
)  # fmt: skip
_DECISION = Key("decision", "product_owner_decision", "vote", "recommendation")
_DECISIONS = (
    (re.compile(r"proceed|defer|approve|accept|pass", re.IGNORECASE), ClaimedStatus.DONE),
    (re.compile(r"relaunch|reject|retry|fail", re.IGNORECASE), ClaimedStatus.FAILED),
    (re.compile(r"escalate|block", re.IGNORECASE), ClaimedStatus.BLOCKED),
)


def read_sprint_report(root: Node) -> EpicModel:
    """Return the model of a report on one sprint, or on several that it sums up."""
    model = EpicModel(name=_EPIC.text(root) or "epic")
    for native, title, entry in _reported(root):
        acceptance = tuple(dict.fromkeys([*texts(entry.get("tasks_completed")), *task_of(entry).acceptance]))
        summary = node(entry.get("summary"))
        about = (text(summary.get("objective")) or text(summary.get("outcome")), text(entry.get("objective")))
        prompt = "\n".join(filter(None, (title or f"Sprint {native}", *about)))
        task = Task(id="", title=title, prompt=prompt, acceptance=acceptance, gate=gate_of(entry))
        model.add(native, task, entry, claim=_report_claim(entry))
    return model


def _reported(root: Node) -> list[tuple[str, str, Node]]:
    """Return the sprints of a report as (name, title, what the report says)."""
    if summed := node(root.get("sprint_summary")):
        entries = {name: node(said) or {"status": text(said)} for name, said in summed.items()}
        return [
            (plain_name(name) or name, text(said.get("name")) or text(said.get("title")), said)
            for name, said in entries.items()
        ]
    name = _SPRINT.text(root) or "sprint"
    title = _SPRINT_TITLE.text(root)
    split = re.fullmatch(r"((?:sprint[\s_-]*)?[\d.]+)\s*\W\s+(.+)", name, re.IGNORECASE)
    return [(split[1], title or split[2], root)] if split else [(name, title, root)]


def _report_claim(entry: Node) -> Claim:
    """Return a report's claim about a sprint: its status, else the decision, else its score and the gate."""
    claim = sprint_claim(entry)
    score, gate = share_of(_SCORE.raw(entry)), gate_of(entry)
    standing = claim.standing if claim.said else _decided(_DECISION.text(entry), score, gate)
    attempts = max(claim.attempts, 1)
    is_failed = standing is ClaimedStatus.FAILED
    claim = replace(claim, standing=standing, attempts=attempts, spent=attempts - (not is_failed))
    if claim.failures or not is_failed:
        return claim
    scored = f"the validators gave {score}, and {gate} was asked for"
    error = "the validators said no" if score is None else scored
    failure = PastFailure(attempt=attempts, error=error, feedback=issues_of(entry))
    return replace(claim, failures=(failure,))


def _decided(word: str, score: float | None, gate: float) -> ClaimedStatus:
    for pattern, standing in _DECISIONS:
        if pattern.match(word):
            return standing
    if score is None:
        return claimed_status(word)
    return ClaimedStatus.DONE if score >= gate else ClaimedStatus.FAILED


def read_epic_report(root: Node) -> EpicModel:
    """Return the model of an epic's completion report, which names phases but only counts their sprints."""
    model = EpicModel(
        name=_EPIC_ID.text(root) or "epic", title=text(root.get("epic")), status=_completion(root)
    )
    counted = 0
    for place, each in enumerate(items(root.get("phase_summary")), 1):
        entry = node(each)
        name = _PHASE.text(entry) or text(each) or f"phase-{place}"
        counted += count(entry.get("sprints"))
        points = texts(entry.get("key_achievements"))
        prompt = "\n".join((name, *(f"- {line}" for line in points)))
        model.add(name, Task(id="", title=name, prompt=prompt, acceptance=points), entry)
    model.report("guess", "The report names phases, not their sprints: each phase is one task.")
    total = count(root.get("total_sprints"))
    if counted != total:
        said = f"The report counts {total} sprints, but its phases add up to {counted}."
        model.report("counters-differ", said)
    return model


def _completion(root: Node) -> str:
    """Return the status of the epic. Without a status in the report, its counts tell whether all was done."""
    if said := _EPIC_STATUS.text(root):
        return said
    total = count(root.get("total_sprints"))
    return "completed" if total and count(root.get("completed_sprints")) >= total else ""


def apply_report(model: EpicModel, root: Node) -> None:
    """Apply a report to its sprint, if its epic is this one."""
    about = plain_name(_EPIC.text(root))
    if not about or about not in (plain_name(model.name), plain_name(model.title)):
        return
    for native, title, entry in _reported(root):
        sprint = model.find(native) or model.find(title)
        if sprint is None:
            said = f"A report is about sprint {native}, which the epic does not list; it is left out."
            model.report("unknown-task", said)
        elif sprint.claim.standing is ClaimedStatus.PENDING:
            sprint.claim = _report_claim(entry)
