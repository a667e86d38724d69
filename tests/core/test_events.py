"""The stored spelling of events: a journal of any earlier version is still read."""

from __future__ import annotations

import json

import pytest

from holdfast.core.event_codec import EVENT_KINDS, decode_event, encode_event
from tests.core.stored_events import example, new_lines, stored_lines


@pytest.mark.parametrize(
    "line", [*stored_lines(), *new_lines()], ids=lambda line: str(json.loads(line)["kind"])
)
def test_an_event_keeps_its_stored_spelling(line: str) -> None:
    """No renamed class or field makes an old journal unreadable."""
    assert json.loads(encode_event(decode_event(line.encode()))) == json.loads(line)


@pytest.mark.parametrize("kind", EVENT_KINDS, ids=lambda kind: str(kind.__name__))
def test_every_field_of_an_event_is_stored(kind: type) -> None:
    """What an event says is there after a crash, each field of it."""
    line = example(kind)
    assert json.loads(encode_event(decode_event(line.encode()))) == json.loads(line)
