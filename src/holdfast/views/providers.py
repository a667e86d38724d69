"""The providers through which nothing starts now, for `status` and the live view: why, since when, and when one is tried again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from holdfast.core.projection import Parked
from holdfast.core.provider_limits import probe_of
from holdfast.core.state import RunState
from holdfast.core.status import ParkReason
from holdfast.views.text import one_line, time_of_day, timestamp

_ERROR_CHARS = 160
_MINUTE_S = 60.0


class ProviderView(msgspec.Struct, frozen=True, kw_only=True):
    """One provider, or one agent of it, that nothing starts through. `probe` is the task whose agent finds out just now.

    `refused` are keys, credit and models: `words` say what to do. The others end by themselves; the next try is at `next_try`.
    """

    provider: str
    reason: Literal["limit", "outage", "refused"]
    words: str
    since: str | None = None
    minutes: int | None = None
    next_try: str | None = None
    tries: int = 0
    error: str | None = None
    probe: str | None = None


def providers_in_trouble(state: RunState, now: float) -> tuple[ProviderView, ...]:
    """Return what keeps agents of a run from starting at a wall time."""
    row = state.row
    shut = [
        (name, one) for name, one in {**row.parked, **row.shut_agents}.items() if one.shut_in == row.epoch
    ]
    waits = [(name, one) for name, one in row.parked.items() if one.shut_in < 0]
    return (
        *(ProviderView(provider=name, reason="refused", words=one.words) for name, one in shut),
        *(_waited_for(state, name, one, now) for name, one in waits if _is_in_the_way(one, now)),
    )


def _is_in_the_way(parked: Parked, now: float) -> bool:
    return parked.until > now or parked.probe


def _waited_for(state: RunState, name: str, parked: Parked, now: float) -> ProviderView:
    outage = parked.reason is ParkReason.OUTAGE
    return ProviderView(
        provider=name,
        reason="outage" if outage else "limit",
        words=outage_words(name, parked, now, probe_of(state, name)) if outage else parked.words,
        since=timestamp(parked.since) if outage else None,
        minutes=int((now - parked.since) / _MINUTE_S) if outage else None,
        next_try=timestamp(parked.until),
        tries=parked.hits,
        error=parked.error or None,
        probe=probe_of(state, name) or None,
    )


def outages(state: RunState) -> Iterator[tuple[str, Parked, str]]:
    """Yield the providers that are out of reach, each with the task whose agent finds out just now, if any."""
    for name, parked in state.row.parked.items():
        if parked.reason is ParkReason.OUTAGE and not parked.answered:
            yield name, parked, probe_of(state, name)


def outage_words(provider: str, parked: Parked, now: float, probe: str) -> str:
    """Return an outage in words: `anthropic unreachable since 14:03 (12 min), next try at 14:16:20: API Error: 503`."""
    minutes = max(0, int((now - parked.since) / _MINUTE_S))
    lasted = f"{minutes} min" if minutes else "less than a minute"
    then = f"next try at {time_of_day(parked.until)}" if parked.until > now else "the next try is due"
    if probe:
        then = f"{probe} tries it now"
    error = f": {one_line(parked.error, _ERROR_CHARS)}" if parked.error else ""
    return f"{provider} unreachable since {time_of_day(parked.since)[:5]} ({lasted}), {then}{error}"
