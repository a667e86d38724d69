"""The rule that no side of a conflict may be lost: a mechanical look at what a resolution kept.

The checks decide whether a resolution is right; this only notices when a whole side is missing.
"""

from __future__ import annotations

from dataclasses import dataclass

_MARKERS = ("<<<<<<< ", ">>>>>>> ", "||||||| ")


@dataclass(frozen=True, slots=True)
class ConflictedFile:
    """One conflicted path in four versions; None where the path does not exist."""

    path: str
    base: str | None
    ours: str | None
    theirs: str | None
    result: str | None


def judge_resolution(file: ConflictedFile) -> str:
    """Return what is wrong with a resolution, as a sentence for the next agent; empty when nothing is."""
    if file.result is not None and has_markers(file.result):
        return f"{file.path} still has conflict markers"
    ours, theirs = _contribution(file.base, file.ours), _contribution(file.base, file.theirs)
    kept = _lines(file.result)
    for side, other, name in ((ours, theirs, "already landed"), (theirs, ours, "of this task")):
        own = side - other
        others = other - side
        if own and not own & kept and others <= kept:
            return f"{file.path} lost every line of the work {name}; both sides' changes must survive"
    return ""


def has_markers(text: str) -> bool:
    """Tell whether conflict markers are left in a file."""
    return any(line.startswith(_MARKERS) for line in text.splitlines())


def _contribution(base: str | None, side: str | None) -> set[str]:
    """Return the lines that a side added or changed, blank ones aside."""
    return _lines(side) - _lines(base)


def _lines(text: str | None) -> set[str]:
    return {line.strip() for line in (text or "").splitlines() if line.strip()}
