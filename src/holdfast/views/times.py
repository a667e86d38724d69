"""How times are written, for people and for programs: the one place."""

from __future__ import annotations

from datetime import UTC, datetime

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def timestamp(at: float) -> str:
    """Return a wall-clock time for programs: UTC, to the millisecond, with a Z."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_of_day(at: float) -> str:
    """Return the time of day for people, in their own time zone."""
    return f"{datetime.fromtimestamp(at).astimezone():%H:%M:%S}"


def duration(seconds: float) -> str:
    """Return a length of time in its two largest units: `0.4s`, `12s`, `3m 05s`, `2h 10m`, `3d 4h`."""
    if seconds < 0.95:
        return f"{max(seconds, 0.0):.1f}s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d {whole % _DAY // _HOUR}h"
