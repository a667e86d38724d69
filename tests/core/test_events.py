"""The stored spelling of events: a journal of any earlier version is still read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.core.event_codec import EVENT_KINDS, decode_event, encode_event

STORED = (Path(__file__).parent / "stored_events.jsonl").read_text().splitlines()
"""One event of each kind as the first journals hold it, each field filled. Lines are added, never changed."""


@pytest.mark.parametrize("line", STORED, ids=lambda line: str(json.loads(line)["kind"]))
def test_an_event_keeps_its_stored_spelling(line: str) -> None:
    """No renamed class or field makes an old journal unreadable."""
    assert json.loads(encode_event(decode_event(line.encode()))) == json.loads(line)


def test_every_kind_of_event_has_a_stored_example() -> None:
    """A new event gets its line when it is added."""
    assert {json.loads(line)["kind"] for line in STORED} == {
        kind.__struct_config__.tag for kind in EVENT_KINDS
    }
