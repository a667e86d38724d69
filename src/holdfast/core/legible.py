"""Text that every store can hold: file names need not be Unicode, what the journal keeps must be."""

from __future__ import annotations

import msgspec

from holdfast.core.events import AnyEvent, decode_event, encode_event


def legible(event: AnyEvent) -> AnyEvent:
    """Return the event with what is no Unicode spelled out (`\\udcff`); nearly always that is the event itself.

    It must be done before the event is applied, or the state would differ from the fold of what is stored.
    """
    try:
        encode_event(event)
    except UnicodeEncodeError:
        return decode_event(msgspec.json.encode(_spelled_out(msgspec.to_builtins(event))))
    return event


def _spelled_out(value: object) -> object:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {key: _spelled_out(item) for key, item in value.items()}
        case list() | tuple():
            return [_spelled_out(item) for item in value]
        case _:
            return value
