"""Status words, theirs and ours: one table for all five systems, and a rule for words nobody has seen before."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from holdfast.formats.model import Claim, ClaimedStatus, Finding

_S = ClaimedStatus
_WORDS: dict[str, ClaimedStatus] = {
    **dict.fromkeys(
        ("pending", "notstarted", "todo", "queued", "queue", "backlog", "planned", "planning", "ready", "new",
         "open", "waiting", "initializing", "approved", "creating", "draft"), _S.PENDING),
    **dict.fromkeys(
        ("inprogress", "running", "active", "started", "starting", "implementing", "coding", "executing", "testing",
         "validating", "verifying", "verified", "merging", "review", "aireview", "humanreview", "partial",
         "paused", "recovering", "stopped", "interrupted"), _S.RUNNING),
    **dict.fromkeys(
        ("failed", "fail", "error", "failure", "stuck", "rejected", "reject", "needswork", "belowthreshold"), _S.FAILED),
    **dict.fromkeys(("blocked", "onhold", "deferred"), _S.BLOCKED),
    **dict.fromkeys(
        ("completed", "complete", "done", "pass", "passed", "warn", "merged", "success", "succeeded", "finished",
         "qaapproved", "readyformerge", "prcreated", "closed", "cleaned", "ok"), _S.DONE),
    **dict.fromkeys(("skipped", "skip", "notneeded", "na"), _S.SKIPPED),
    **dict.fromkeys(("abandoned", "cancelled", "canceled", "aborted", "wontdo"), _S.ABANDONED),
}  # fmt: skip
_BEGINNINGS = (
    ("complet", _S.DONE),
    ("finish", _S.DONE),
    ("fail", _S.FAILED),
    ("error", _S.FAILED),
    ("block", _S.BLOCKED),
    ("skip", _S.SKIPPED),
    ("abandon", _S.ABANDONED),
    ("cancel", _S.ABANDONED),
)


def standing_of(word: str) -> tuple[ClaimedStatus, bool]:
    """Return what a status word means, and whether it was known. What nobody knows counts as not begun.

    Case, spaces, dashes and signs such as a tick make no difference.
    """
    bare = re.sub(r"[^a-z]", "", word.casefold())
    if bare in _WORDS or not bare:
        return _WORDS.get(bare, ClaimedStatus.PENDING), True
    guess = next((to for beginning, to in _BEGINNINGS if bare.startswith(beginning)), ClaimedStatus.PENDING)
    return guess, False


def unknown_words(claims: Iterable[Claim]) -> Iterator[Finding]:
    """Yield a finding for each status that nobody has seen before, with what it was taken for."""
    for claim in claims:
        if not standing_of(claim.said)[1]:
            sentence = (
                f"{claim.task} is marked {claim.said!r}, which nobody knows; it counts as {claim.standing}."
            )
            yield Finding(kind="unknown-status", sentence=sentence, task=claim.task)


def kept_word(said: str, word: str) -> str:
    """Return the word that was there as long as it means the same, else ours."""
    return said if said and standing_of(said)[0] is standing_of(word)[0] else word
