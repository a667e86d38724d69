"""When a usage limit ends, read from an agent's message. Times without a zone are local.

A time of day alone means the next one after the message was written, or one that has only just passed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_JUST_PASSED = timedelta(minutes=2)
_EPOCH_MIN = 1_600_000_000
_EPOCH_MAX = 4_000_000_000
_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_ISO = re.compile(
    r"\b(\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?)\s?(Z|UTC|[+-]\d\d:?\d\d)?", re.IGNORECASE
)
_EPOCH = re.compile(r"(?:\||resets?_?at\W{1,4}|reset\W{1,4})(\d{10})(\d{3})?\b", re.IGNORECASE)
_IN = re.compile(
    r"(?:try again in|retry(?:ing)?(?: again)?(?: |-)(?:in|after)|retry-?after:?|resets? in|retryDelay\W{1,5}|wait)\s*"
    r"((?:about )?[\d.]+\s*(?:days?|d|hours?|hrs?|h|minutes?|mins?|ms|m|seconds?|secs?|s)\b"
    r"(?:[\s,]*(?:and )?[\d.]+\s*(?:days?|d|hours?|hrs?|h|minutes?|mins?|ms|m|seconds?|secs?|s)\b)*)",
    re.IGNORECASE,
)
_PART = re.compile(r"([\d.]+)\s*(ms|[dhms])", re.IGNORECASE)
_AT = re.compile(
    r"(?:try again|resets?|available|again)\s+(?:at\s+|on\s+)?"
    r"(?:(?P<month>[A-Z][a-z]{2,8})\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,?\s+(?P<year>\d{4}))?,?\s+(?:at\s+)?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s*(?P<half>[ap]\.?m\.?)?(?:\s*\(?(?P<zone>[A-Z][\w+-]*/[\w+/-]+|UTC|GMT)\)?)?",
    re.IGNORECASE,
)


def reset_time(message: str, written_at: float, zone: tzinfo | None = None) -> float | None:
    """Return the wall time that a limit's message names, or None. `written_at` is when the message was written."""
    # Without a zone the time is local, with the right summer time.
    now = datetime.fromtimestamp(written_at, zone)
    readers: tuple[Callable[[str, datetime], float | None], ...] = (_epoch, _iso, _in, _at)
    return next((found for read in readers if (found := read(message, now)) is not None), None)


def _epoch(message: str, _now: datetime) -> float | None:
    found = _EPOCH.search(message)
    seconds = int(found[1]) if found else 0
    return float(seconds) if _EPOCH_MIN <= seconds <= _EPOCH_MAX else None


def _iso(message: str, now: datetime) -> float | None:
    found = _ISO.search(message)
    if found is None:
        return None
    zone = (found[2] or "").upper().replace("UTC", "+00:00").replace("Z", "+00:00")
    try:
        at = datetime.fromisoformat(f"{found[1]}{zone}")
    except ValueError:
        return None
    return (at if at.tzinfo else at.replace(tzinfo=now.tzinfo)).timestamp()


def _in(message: str, now: datetime) -> float | None:
    found = _IN.search(message)
    if found is None:
        return None
    try:
        seconds = sum(float(part) * _UNITS[unit.lower()] for part, unit in _PART.findall(found[1]))
    except ValueError:
        return None
    return now.timestamp() + seconds


def _at(message: str, now: datetime) -> float | None:
    found = _AT.search(message)
    if found is None or not (found["half"] or found["minute"]):
        return None
    hour = int(found["hour"])
    if found["half"]:
        hour = hour % 12 + (12 if found["half"][0] in "pP" else 0)
    try:
        zone = _zone(found["zone"])
        here = now if zone is None else now.astimezone(zone)
        at = here.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
        return (_on_day(at, found) if found["month"] else _next(at, here)).timestamp()
    except (ValueError, OverflowError):
        return None


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    try:
        return UTC if name.upper() in ("UTC", "GMT") else ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError):
        return None


def _next(at: datetime, now: datetime) -> datetime:
    return at if at > now - _JUST_PASSED else at + timedelta(days=1)


def _on_day(at: datetime, found: re.Match[str]) -> datetime:
    """Return a time on a named day. Without a year, the day is the next one of that date."""
    month = _MONTHS.index(found["month"][:3].lower()) + 1
    year = int(found["year"]) if found["year"] else at.year
    day = at.replace(year=year, month=month, day=int(found["day"]))
    return day if found["year"] or day > at - timedelta(days=180) else day.replace(year=year + 1)
