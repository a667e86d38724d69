"""How values and suggestions are worded in error messages. Nothing here knows what a plan is."""

from __future__ import annotations

import json
from collections.abc import Collection

_SHOWN_MAX = 60
# Longer words are not typing mistakes, and comparing them costs the square of their length.
_SUGGEST_MAX = 100


def shown(text: str) -> str:
    """Quote a text of the user's for a message: one line, bounded, control characters escaped."""
    cut = text if len(text) <= _SHOWN_MAX else text[:_SHOWN_MAX] + "…"
    quoted = json.dumps(cut, ensure_ascii=False)
    return quoted if quoted.isprintable() else json.dumps(cut)


def nearest(word: str, known: Collection[str]) -> str:
    """Return the known word that was most likely meant, or an empty string."""
    if len(word) > _SUGGEST_MAX:
        return ""
    # Imported here because only mistakes need it, and every command would pay for it.
    import difflib

    folded = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower(), folded, n=1)
    return folded[found[0]] if found else ""


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return the end of a message that offers the nearest known word, or else lists the known ones."""
    if guess := nearest(word, known):
        return f"; did you mean {shown(guess)}?"
    listed = ", ".join(sorted(known)[:12])
    return f"; known: {listed}{', …' if len(known) > 12 else ''}" if listed else ""
