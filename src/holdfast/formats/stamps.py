"""Times as other systems write them: seconds since 1970 on our side, ISO 8601 in UTC on theirs."""

from __future__ import annotations

from datetime import UTC, datetime


def stamp(seconds: float | None) -> str | None:
    """Return a time as `2025-01-11T10:00:00Z`, or None where it is not known."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
