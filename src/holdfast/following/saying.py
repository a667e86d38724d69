"""What an agent says about its task, checked and named as the report channel stores it."""

from __future__ import annotations

from holdfast.channel import checked_number

_STORED = {"cost": "cost_usd"}


def said_about(**parts: str | float | None) -> dict[str, str | float]:
    """Return a report line without what was left out. Raises HoldfastError for a number that makes no sense."""
    words = {name: part for name, part in parts.items() if isinstance(part, str) and part}
    numbers = {
        _STORED.get(name, name): checked_number(name, part)
        for name, part in parts.items()
        if part is not None and not isinstance(part, str)
    }
    return {**numbers, **words}
