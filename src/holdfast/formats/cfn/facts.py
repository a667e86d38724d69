"""What records say of one sprint, as a claim: status, progress, files written and in progress, the last checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.core.report import Report
from holdfast.formats import notes
from holdfast.formats.cfn.judges import share_of
from holdfast.formats.loose import Node, commits, count, first, items, node, nodes, text, texts
from holdfast.formats.model import UNBEGUN, Claim, PastFailure, Standing, spent_of
from holdfast.formats.words import standing_of

_WRITTEN = (
    "filesWritten",
    "files_written",
    "filesCompleted",
    "files_completed",
    "files_created",
    "files_modified",
)
_WRITING = ("filesInProgress", "files_in_progress")
_FILE = ("path", "file", "fileBeingEdited", "name")
_LINE = ("currentLine", "current_line", "line", "lineNumber", "line_number")
_DONE = ("lastCompletedSection", "last_completed_section", "lastSection", "last_section", "function")
_NEXT = ("nextSection", "next_section")
_SURE = ("confidence", "confidenceScore", "confidence_score")


def claim_of(native: str, sprint: Node, agents: Sequence[Node] = ()) -> Claim:
    """Return what a sprint's record, and those of its agents, claim."""
    said = text(first(sprint, "status", "state"))
    standing = standing_of(said)[0]
    failures = tuple(_failures(sprint))
    tried = count(first(sprint, "attempts", "iteration", "iterations", "loop3_iterations"))
    attempts = max(tried, len(failures), int(standing not in UNBEGUN))
    claim = Claim(
        task="",
        native=native,
        standing=standing,
        said=said,
        attempts=attempts,
        spent=spent_of(standing, attempts),
        failures=failures,
        commits=_commits(sprint),
        files=tuple(dict.fromkeys(_written(sprint))),
        branch=text(first(sprint, "wipBranch", "wip_branch", "branch")),
        worktree=text(first(sprint, "worktree", "worktreePath")),
        summary=text(first(sprint, "summary", "outcome")),
        report=_report(sprint, agents, standing),
    )
    return notes.claim(claim, notes.of(sprint))


def _commits(sprint: Node) -> tuple[str, ...]:
    single = first(sprint, "commit", "commitHash", "commit_hash")
    return commits([*items(sprint.get("commits")), single])


def _written(sprint: Node) -> Iterator[str]:
    for key in _WRITTEN:
        for each in items(sprint.get(key)):
            if not isinstance(each, dict):
                yield from texts(each)
            elif each.get("completed") is not False:
                yield from texts(first(each, *_FILE))


def _report(sprint: Node, agents: Sequence[Node], standing: Standing) -> Report | None:
    """Return how far the work is: the file in progress, where in it, and how sure the agent was.

    The sprint's own record comes first; what it leaves open its agents' records may say.
    """
    places = [*_open_files(sprint), node(sprint.get("lastCheckpoint")), *agents]
    found = [place for place in places if first(place, *_FILE, *_LINE, *_DONE, *_NEXT)]
    progress = percent_of(first(sprint, "progress", "completion_percentage", "percentComplete"))
    confidence = next((share for place in [*found, sprint] if (share := _sureness(place)) is not None), None)
    report = Report(
        progress=progress,
        file=_said(found, _FILE),
        line=count(line) if (line := _said(found, _LINE)) else None,
        section_done=_said(found, _DONE) or _last(agents, "subtasksCompleted", -1),
        section_next=_said(found, _NEXT) or _last(agents, "subtasksRemaining", 0),
        confidence=confidence,
    )
    only_progress = report == Report(progress=progress)
    return None if only_progress and (progress is None or standing is not Standing.RUNNING) else report


def _open_files(sprint: Node) -> list[Node]:
    """Return the files that were being written, the one that was being written last first."""
    listed = [
        each if isinstance(each, dict) else {"path": text(each)} for each in items(first(sprint, *_WRITING))
    ]
    return [each for each in reversed(listed) if each.get("completed") is not True]


def _said(places: Sequence[Node], keys: tuple[str, ...]) -> str:
    return next((found for place in places if (found := text(first(place, *keys)))), "")


def _last(agents: Sequence[Node], key: str, at: int) -> str:
    """Return the last finished, or the next open, part of the work that an agent lists."""
    for agent in agents:
        if parts := texts(node(agent.get("taskProgress")).get(key)):
            return parts[at]
    return ""


def _sureness(place: Node) -> float | None:
    said = first(place, *_SURE)
    return share_of(first(said, "loop3", "loop_3", "overall") if isinstance(said, dict) else said)


def percent_of(value: object) -> float | None:
    """Return a progress as a percentage; a broken number up to 1 is a share."""
    if isinstance(value, float) and 0 < value < 1:
        return value * 100
    share = share_of(value)
    if share is None:
        return None
    return share * 100 if isinstance(value, str) or (isinstance(value, int | float) and value > 1) else share


def _failures(sprint: Node) -> Iterator[PastFailure]:
    """Yield the failures on record, each with what the next attempt was told."""
    for place, error in enumerate(items(first(sprint, "errors", "failures", "error")), 1):
        said = node(error)
        message = text(first(said, "message", "error", "description")) or text(error)
        told = text(first(said, "feedback", "recommendation", "details"))
        if message or told:
            yield PastFailure(
                attempt=count(said.get("attempt")) or place, error=message or told, feedback=told
            )


def issues_of(report: Node) -> str:
    """Return what validators found fault with, one per line: the feedback for whoever does the sprint again."""
    keys = (
        "critical_issues",
        "major_issues",
        "issues_found",
        "issues",
        "blockers",
        "minor_issues",
        "scope_issues",
    )
    lines = [line for key in keys for each in items(report.get(key)) if (line := _issue(each))]
    nested = [line for part in nodes(report.get("validation_results")) for line in texts(part.get("issues"))]
    return "\n".join(f"- {line}" for line in dict.fromkeys([*lines, *nested]))


def _issue(entry: object) -> str:
    if not isinstance(entry, dict):
        return text(entry)
    said = (text(first(entry, "description", "title", "issue", "message")), text(entry.get("recommendation")))
    return " → ".join(filter(None, said))
