"""Events as JSON, for journals and for git. The stored spelling of each event is in `events.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Union

import msgspec

from holdfast.core.events import Event


class Recorded(msgspec.Struct, frozen=True):
    """An event as the journal holds it: its number in the run and the wall-clock time, for people only."""

    seq: int
    at: float
    event: Event


def _kinds(base: type[Event]) -> Iterator[type[Event]]:
    below = base.__subclasses__()
    if not below:
        yield base
    for kind in below:
        yield from _kinds(kind)


EVENT_KINDS = tuple(_kinds(Event))
"""Every class of event that is stored; the bases are not."""
_ANY: Any = Union[EVENT_KINDS]  # noqa: UP007 - the members are only known at run time

encode_event = msgspec.json.Encoder().encode
decode_event: Callable[[bytes], Event] = msgspec.json.Decoder(_ANY).decode
encode_events = encode_event
decode_events: Callable[[bytes], list[Event]] = msgspec.json.Decoder(list[_ANY]).decode


def storable(event: Event) -> Event:
    """Return the event with each character that is not Unicode escaped (`\\udcff`); most often the event itself.

    File names need not be Unicode, but what the journal keeps must be. Do this before the event is applied, or the
    state would differ from the fold of what is stored.
    """
    try:
        encode_event(event)
    except UnicodeEncodeError:
        return decode_event(msgspec.json.encode(_escaped(msgspec.to_builtins(event))))
    return event


def _escaped(value: object) -> object:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {key: _escaped(item) for key, item in value.items()}
        case list() | tuple():
            return [_escaped(item) for item in value]
        case _:
            return value
