"""What a finished phase leaves for people: one Markdown file, from what git and the journal know of it."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.formats.model import Claim, NativeFile, RunView
from holdfast.formats.stamps import stamp


def output_of(view: RunView, path: str, name: str, claims: tuple[Claim, ...]) -> NativeFile:
    """Return the output file of a finished phase: result, summary, files, commits."""
    ended = [times.ended for claim in claims if (times := view.task_times.get(claim.task)) and times.ended]
    head = [f"# Phase: {name}", f"# Task: {view.name}", "# Status: PASS"]
    if ended:
        head.insert(2, f"# Timestamp: {stamp(max(ended))}")
    return NativeFile(path=path, content="\n".join([*head, "", *_body(claims)]).encode())


def _body(claims: tuple[Claim, ...]) -> Iterator[str]:
    summaries = [claim.summary for claim in claims if claim.summary]
    yield from ("## Summary", "", "\n\n".join(summaries) or "The phase's work landed.", "")
    files = sorted({path for claim in claims for path in claim.files})
    if files:
        yield from ("## Files changed", "", *(f"- {path}" for path in files), "")
    commits = [commit for claim in claims for commit in claim.commits]
    if commits:
        yield from ("## Commits", "", *(f"- {commit}" for commit in commits), "")
