"""Status words of other systems: what each one means, and which word to write.

One table serves all systems. A rule covers the words that are not in it.
"""

from __future__ import annotations

import re

from holdfast.formats.model import UNBEGUN, Claim, ClaimedStatus, spent_of

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


def claimed_status(word: str) -> ClaimedStatus:
    """Return what a status word means. An unknown word counts as not begun.

    Case, spaces, dashes and signs such as a tick make no difference.
    """
    bare = _bare(word)
    guesses = (meaning for beginning, meaning in _BEGINNINGS if bare.startswith(beginning))
    return _WORDS.get(bare) or next(guesses, ClaimedStatus.PENDING)


def is_known(word: str) -> bool:
    """Tell whether a status word is in the table; an empty word is."""
    return not (bare := _bare(word)) or bare in _WORDS


def claim_from(said: str, attempts: int = 0, standing: ClaimedStatus | None = None) -> Claim:
    """Return what a status word claims about a task that has no id yet.

    Begun work took at least one attempt.
    """
    standing = standing or claimed_status(said)
    attempts = max(attempts, int(standing not in UNBEGUN))
    spent = spent_of(standing, attempts)
    return Claim(task="", standing=standing, said=said, attempts=attempts, spent=spent)


def _bare(word: str) -> str:
    return re.sub(r"[^a-z]", "", word.casefold())


def kept_word(said: str, word: str, *, stays_begun: bool = False) -> str:
    """Return the old word if it still means the same, else ours.

    With `stays_begun`, a word for running work also stays if ours says that nothing has begun since.
    """
    was, now = claimed_status(said), claimed_status(word)
    stays = was is now or (stays_begun and was is _S.RUNNING and now is _S.PENDING)
    return said if said and stays else word
