"""What contradicts itself in the files of a spec, told to the user. Nothing is decided here."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.formats.auto_claude.documents import AutoClaudeDocuments
from holdfast.formats.auto_claude.layout import AutoClaudeFile, worktree_of
from holdfast.formats.auto_claude.memory import Memory, is_stuck, unknown_names
from holdfast.formats.auto_claude.phases import PlanPhase, Subtask, phases_of
from holdfast.formats.contradictions import unknown_word, unknown_words
from holdfast.formats.lenient_json import Node, count, first, node, nodes, text
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, Finding
from holdfast.formats.status_words import claimed_status

_NAMED = 5


def contradictions(
    papers: AutoClaudeDocuments, phases: list[PlanPhase], memory: Memory, claims: tuple[Claim, ...]
) -> Iterator[Finding]:
    """Yield a finding for each contradiction and each guess."""
    by_task = {claim.task: claim for claim in claims}
    yield from _copies(papers)
    yield from _done_in_name(papers.plan or {}, phases, by_task)
    yield from _unknown_words(papers.plan or {}, claims)
    for phase in phases:
        for part in phase.parts:
            yield from _memory_differs(part, memory, by_task[part.id])
    for name in unknown_names(phases, memory):
        yield Finding(
            kind="unknown-task",
            sentence=f"The memory speaks of {name!r}, which is not in the plan; it is left out.",
        )
    yield from _reviews(papers)
    if papers.plan is not None:
        yield from _status_line(papers.nodes.get(AutoClaudeFile.STATUS, {}), claims)


def _copies(papers: AutoClaudeDocuments) -> Iterator[Finding]:
    """Compare the copy that is believed with the others, subtask by subtask."""
    believed = _statuses(papers.plan or {})
    for path, other in papers.others:
        told = _statuses(other)
        if told == believed:
            continue
        differing = [
            name for name in dict.fromkeys((*believed, *told)) if believed.get(name) != told.get(name)
        ]
        sentence = (
            f"Two copies of the plan differ in {_some(differing)}; {_owner(papers.plan_path)} is newer "
        )
        yield Finding(kind="copies-differ", sentence=f"{sentence}than {_owner(path)} and is believed.")


def _owner(path: str) -> str:
    worktree = worktree_of(path)
    return f"that of {worktree}" if worktree else f"the project's ({path})"


def _statuses(plan: Node) -> dict[str, str]:
    return {part.id: text(part.node.get("status")) for phase in phases_of(plan) for part in phase.parts}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _done_in_name(plan: Node, phases: list[PlanPhase], claims: dict[str, Claim]) -> Iterator[Finding]:
    """Tell of a plan or a phase that is called done while parts of it are not."""
    groups = [(f"phase {phase.id}", phase.node, [phase]) for phase in phases if phase.node is not plan]
    for what, found, within in [("the plan", plan, phases), *groups]:
        said = text(found.get("status"))
        left = [
            part.id for phase in within for part in phase.parts if claims[part.id].standing not in SETTLED
        ]
        if left and claimed_status(said) is ClaimedStatus.DONE:
            sentence = f"{what} is marked {said}, but {len(left)} of its subtasks are not: {_some(left)}."
            yield Finding(kind="done-with-unfinished-parts", sentence=sentence[:1].upper() + sentence[1:])


def _unknown_words(plan: Node, claims: tuple[Claim, ...]) -> Iterator[Finding]:
    """Tell of status words that are in nobody's list, and what they were taken for."""
    yield from unknown_words(claims)
    for key in ("status", "planStatus"):
        yield from unknown_word(f"The plan's {key}", text(plan.get(key)))


def _memory_differs(part: Subtask, memory: Memory, claim: Claim) -> Iterator[Finding]:
    """Tell of a subtask on which plan and memory disagree, and of one that was handed to people."""
    entry = memory.attempts.get(part.native, {})
    remembered = text(entry.get("status"))
    planned = claimed_status(claim.said)
    was_done = claimed_status(remembered) is ClaimedStatus.DONE
    if is_stuck(part.native, memory):
        reason = memory.stuck.get(part.native) or "no reason was recorded"
        sentence = f"{part.id} was given up as stuck ({reason}); `holdfast retry` gives it another chance."
        yield Finding(kind="stuck", sentence=sentence, task=part.id)
    elif entry and claim.said and was_done != (planned is ClaimedStatus.DONE):
        sentence = (
            f"The plan has {part.id} as {claim.said}, the attempt history as {remembered or 'nothing'}."
        )
        yield Finding(kind="memory-differs", sentence=sentence, task=part.id)


def _reviews(papers: AutoClaudeDocuments) -> Iterator[Finding]:
    review = papers.nodes.get(AutoClaudeFile.REVIEW, {})
    if review.get("approved") is False:
        yield Finding(
            kind="not-approved", sentence="The plan had not been approved for building (review_state.json)."
        )
    signoff = node((papers.plan or {}).get("qa_signoff"))
    if text(signoff.get("status")) in ("rejected", "failed"):
        issues = nodes(first(signoff, "issues_found", "issues"))
        told = [text(first(issue, "title", "description")) for issue in issues]
        said = "; ".join(words for words in told[:_NAMED] if words) or "see qa_report.md"
        yield Finding(kind="qa-rejected", sentence=f"QA rejected the work: {said}")


def _status_line(status: Node, claims: tuple[Claim, ...]) -> Iterator[Finding]:
    """Tell where the status file counts otherwise than the plan does."""
    counted = node(first(status, "subtasks", "chunks"))
    told = (count(counted.get("completed")), count(counted.get("total")))
    done = (sum(claim.standing is ClaimedStatus.DONE for claim in claims), len(claims))
    if counted and told != done:
        sentence = (
            f"The status file counts {told[0]} of {told[1]} subtasks done, the plan {done[0]} of {done[1]}."
        )
        yield Finding(kind="counts-differ", sentence=sentence)
