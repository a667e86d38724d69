"""`when:` — flags with `not`, `and`, `or`. `and` binds closer; there are no parentheses, so it reads as a sentence."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from holdfast.core.wording import did_you_mean, shown

_FLAG = re.compile(r"(not\s+)?([A-Za-z0-9][\w.-]*)")
_WORDS = ("and", "or", "not")


def condition_fault(text: str, flags: Collection[str]) -> str:
    """Return what is wrong with a condition, or nothing."""
    for part in re.split(r"\s+(?:and|or)\s+", text.strip()):
        found = _FLAG.fullmatch(part.strip())
        if found is None or found[2] in _WORDS:
            return f"{shown(text)} is not a condition; write flags with `not`, `and`, `or`, such as `tests and not docker`"
        if found[2] not in flags:
            return f"there is no flag {shown(found[2])} under `flags:`{did_you_mean(found[2], flags)}"
    return ""


def holds(text: str, flags: Mapping[str, bool]) -> bool:
    """Tell whether a condition that `condition_fault` accepted holds."""
    return any(
        all(_one(part, flags) for part in re.split(r"\s+and\s+", side))
        for side in re.split(r"\s+or\s+", text.strip())
    )


def _one(text: str, flags: Mapping[str, bool]) -> bool:
    words = text.split()
    return flags[words[-1]] is (len(words) == 1)
