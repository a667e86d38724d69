"""Times as other systems write them: seconds since 1970 on our side, ISO 8601 in UTC on theirs."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_MINUTE = re.compile(r"\s*(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})")


def stamp(seconds: float | None) -> str | None:
    """Return a time as `2025-01-11T10:00:00Z`, or None where it is not known."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def minute(seconds: float) -> str:
    """Return a time as people read it in a table: `2026-01-23 14:45`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def minute_of(written: str) -> str:
    """Return the minute of a time that somebody wrote; what is no time is shown as it is, cut short."""
    found = _MINUTE.match(written)
    return f"{found[1]} {found[2]}" if found else written.strip()[:16]


def moment(written: str) -> float:
    """Return a time that somebody wrote as seconds since 1970; what is no time is long ago."""
    try:
        at = datetime.fromisoformat(written)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0
