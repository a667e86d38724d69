"""Contradictions in the files of a spec. They are reported to the user; nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.formats.auto_claude.documents import AutoClaudeDocuments
from holdfast.formats.auto_claude.layout import AutoClaudeFile, worktree_of
from holdfast.formats.auto_claude.memory import Memory
from holdfast.formats.auto_claude.phases import PlanPhase, Subtask, phases_of
from holdfast.formats.contradictions import done_with_unfinished_parts, some_of, unknown_word, unknown_words
from holdfast.formats.lenient_json import Key, Node, count, node, text
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, Finding
from holdfast.formats.status_words import claimed_status

_ISSUES = Key("issues_found", "issues")
_ISSUE_TITLE = Key("title", "description")
_COUNTED = Key("subtasks", "chunks")
_ISSUES_NAMED = 5


def contradictions(
    documents: AutoClaudeDocuments, phases: list[PlanPhase], memory: Memory, claims: tuple[Claim, ...]
) -> Iterator[Finding]:
    """Yield a finding for each contradiction and each guess."""
    plan = documents.plan
    yield from _copies(documents)
    yield from _done_in_name(plan, phases, claims)
    yield from unknown_words(claims)
    for key in ("status", "planStatus"):
        yield from unknown_word(f"The plan's {key}", text(plan.get(key)))
    yield from _memory_differs(phases, memory, claims)
    yield from _reviews(documents)
    if documents.plan_path:
        yield from _status_file(documents.node(AutoClaudeFile.STATUS), claims)


def _copies(documents: AutoClaudeDocuments) -> Iterator[Finding]:
    """Compare the chosen copy with the others, subtask by subtask."""
    believed = _statuses(documents.plan)
    for path, other in documents.other_plans:
        said = _statuses(other)
        names = dict.fromkeys((*believed, *said))
        if differing := [name for name in names if believed.get(name) != said.get(name)]:
            newer = f"{_owner(documents.plan_path)} is newer than {_owner(path)} and is believed"
            sentence = f"Two copies of the plan differ in {some_of(differing)}; {newer}."
            yield Finding("copies-differ", sentence)


def _owner(path: str) -> str:
    worktree = worktree_of(path)
    return f"that of {worktree}" if worktree else f"the project's ({path})"


def _statuses(plan: Node) -> dict[str, str]:
    return {one.id: text(one.entry.get("status")) for phase in phases_of(plan) for one in phase.subtasks}


def _done_in_name(plan: Node, phases: list[PlanPhase], claims: tuple[Claim, ...]) -> Iterator[Finding]:
    """Report a plan or a phase that is marked done while some of its subtasks are not."""
    open_tasks = {claim.task for claim in claims if claim.standing not in SETTLED}
    unfinished = {phase.id: [one.id for one in phase.subtasks if one.id in open_tasks] for phase in phases}
    everything = [task for tasks in unfinished.values() for task in tasks]
    yield from done_with_unfinished_parts("The plan", text(plan.get("status")), everything)
    for phase in phases:
        if phase.entry is not plan:
            said = text(phase.entry.get("status"))
            yield from done_with_unfinished_parts(f"Phase {phase.id}", said, unfinished[phase.id])


def _memory_differs(phases: list[PlanPhase], memory: Memory, claims: tuple[Claim, ...]) -> Iterator[Finding]:
    """Report subtasks on which plan and memory disagree, and those that were handed to people."""
    said = {claim.task: claim.said for claim in claims}
    subtasks = [subtask for phase in phases for subtask in phase.subtasks]
    for subtask in subtasks:
        yield from _one_differs(subtask, memory, said[subtask.id])
    planned = {subtask.native for subtask in subtasks}
    for name in memory.names():
        if name not in planned:
            sentence = f"The memory speaks of {name!r}, which is not in the plan; it is left out."
            yield Finding("unknown-task", sentence)


def _one_differs(subtask: Subtask, memory: Memory, said: str) -> Iterator[Finding]:
    entry = memory.entry(subtask.native)
    remembered = text(entry.get("status"))
    is_done, was_done = (claimed_status(word) is ClaimedStatus.DONE for word in (said, remembered))
    if memory.is_stuck(subtask.native):
        reason = memory.stuck.get(subtask.native) or "no reason was recorded"
        sentence = (
            f"{subtask.id} was abandoned as stuck ({reason}); `holdfast retry` gives it another chance."
        )
        yield Finding("stuck", sentence, subtask.id)
    elif entry and said and was_done != is_done:
        sentence = f"The plan has {subtask.id} as {said}, the attempt history as {remembered or 'nothing'}."
        yield Finding("memory-differs", sentence, subtask.id)


def _reviews(documents: AutoClaudeDocuments) -> Iterator[Finding]:
    if documents.node(AutoClaudeFile.REVIEW).get("approved") is False:
        yield Finding("not-approved", "The plan had not been approved for building (review_state.json).")
    signoff = node(documents.plan.get("qa_signoff"))
    if text(signoff.get("status")) in ("rejected", "failed"):
        issues = filter(None, map(_ISSUE_TITLE.text, _ISSUES.nodes(signoff)[:_ISSUES_NAMED]))
        yield Finding("qa-rejected", f"QA rejected the work: {'; '.join(issues) or 'see qa_report.md'}")


def _status_file(status: Node, claims: tuple[Claim, ...]) -> Iterator[Finding]:
    """Report where the counts of the status file differ from the plan's."""
    counted = _COUNTED.node(status)
    said = (count(counted.get("completed")), count(counted.get("total")))
    done = (sum(claim.standing is ClaimedStatus.DONE for claim in claims), len(claims))
    if counted and said != done:
        sentence = (
            f"The status file counts {said[0]} of {said[1]} subtasks done, the plan {done[0]} of {done[1]}."
        )
        yield Finding("counts-differ", sentence)
