"""A run as the records that CFN Loop keeps in a server: small, and each with the mark of the run that writes it.

What they say is in `record_writer.py`. A record that would be too large is cut, and says in `truncated` which of its fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.formats import extra_fields
from holdfast.formats.cfn.layout import CfnDocument, RecordKind, is_of_kind, parse_key
from holdfast.formats.cfn.record_writer import ExportedSprint, exported_sprints, records_of
from holdfast.formats.cfn.write import Original, find_original, merged_record
from holdfast.formats.exported_run import ExportedRun, NativeRecord
from holdfast.formats.lenient_json import Node, node, object_in, text

_OWNER = "owner"
_SPRINT_BYTES_MAX = 1_000_000
_SHARES = {
    RecordKind.SPRINT: 0.45,
    RecordKind.FILES: 0.2,
    RecordKind.INTERFACE: 0.2,
    RecordKind.AGENT: 0.05,
    RecordKind.CHECKPOINT: 0.05,
}
"""How much of a sprint's bytes each of its records may have. The rest is for the marks."""


def server_records(view: ExportedRun, originals: Mapping[str, bytes], owner: str) -> list[NativeRecord]:
    """Return the records of a run, the epic's first; those of agents that are gone are to be removed.

    While the run is live, the time of writing is the time of the checkpoint and the agents' heartbeat.
    """
    now = msgspec.structs.replace(view, updated=view.written_at) if view.live else view
    original = find_original(view, originals)
    epic, natives = (view.name, {}) if original is None else (original.epic, original.natives)
    sprints = exported_sprints(now, epic, natives)
    before, found = _records_before(original), records_of(now, epic, sprints)
    written = [
        NativeRecord(
            key=key,
            content=_content(key, _parsed(key, before.get(key)), record, owner),
            continued=key in before,
        )
        for key, record in found.items()
    ]
    return [*written, *(NativeRecord(key=key, gone=True) for key in _agents_gone(sprints, found))]


def owner_of(dump: bytes) -> str:
    """Return the mark of the run that writes the records of a dump. Empty if it is not Holdfast."""
    records = object_in("dump", dump)
    epics = [_parsed(key, value) for key, value in records.items() if is_of_kind(key, RecordKind.EPIC)]
    return next(filter(None, (text(extra_fields.of(epic).get(_OWNER)) for epic in epics)), "")


def _records_before(original: Original | None) -> Node:
    """Return the records that the run was adopted from."""
    if original is None or original.kind not in (CfnDocument.EXPORT, CfnDocument.DUMP):
        return {}
    return original.root if original.kind is CfnDocument.DUMP else node(original.root.get("records"))


def _parsed(key: str, value: object) -> Node:
    return object_in(key, value.encode()) if isinstance(value, str) else node(value)


def _content(key: str, before: Node, record: Node, owner: str) -> bytes:
    kind, _ = parse_key(key) or (None, "")
    whole = merged_record(before, record)
    if kind in _SHARES:
        whole = _cut(whole, round(_SPRINT_BYTES_MAX * _SHARES[kind]))
    return msgspec.json.encode(whole | extra_fields.carried({**extra_fields.of(whole), _OWNER: owner}))


def _cut(record: Node, bytes_max: int) -> Node:
    """Return a record that is not too large: its largest field is halved until that holds."""
    cut: set[str] = set()
    while len(msgspec.json.encode(record)) > bytes_max:
        largest = max(record, key=lambda name: len(msgspec.json.encode(record[name])))
        cut.add(largest)
        record = {**record, largest: _half(record[largest]), "truncated": sorted(cut)}
    return record


def _half(value: Any) -> Any:
    """Return half of a value: the newest of a list, the beginning of a text."""
    if isinstance(value, list):
        return value[len(value) // 2 + len(value) % 2 :]
    return value[: len(value) // 2] if isinstance(value, str) else {}


def _agents_gone(sprints: list[ExportedSprint], found: Mapping[str, Node]) -> Iterator[str]:
    """Yield the keys of agents whose attempts are over."""
    for sprint in sprints:
        for attempt in range(1, sprint.row.attempt + 1):
            for kind in (RecordKind.AGENT, RecordKind.CHECKPOINT):
                if (key := kind.key(sprint.agent_of(attempt))) not in found:
                    yield key
