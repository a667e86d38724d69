"""What an agent says about its task, checked and named as the report channel stores it."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.channel import checked_number

_STORED = {"cost": "cost_usd"}


def said_about(*, numbers: Mapping[str, float | None], words: Mapping[str, str]) -> dict[str, str | float]:
    """Return a report line without what was left out. Raises HoldfastError for a number that makes no sense."""
    said: dict[str, str | float] = {
        _STORED.get(name, name): checked_number(name, number)
        for name, number in numbers.items()
        if number is not None
    }
    return said | {name: text for name, text in words.items() if text}
