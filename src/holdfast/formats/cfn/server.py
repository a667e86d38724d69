"""The records of CFN Loop in a server, read: sorted by epic, each as the dump of keys that `record_reader.py` reads.

How they are written is in `server_records.py`. Neither speaks to a server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.formats.cfn.layout import RecordKind, is_of_kind, parse_key
from holdfast.formats.cfn.server_records import owner_of, server_records
from holdfast.formats.cfn.sprint import SPRINT_ID
from holdfast.formats.lenient_json import Key, Node, node, nodes, object_in, parse_time, text, to_json
from holdfast.formats.model import ServerFormat

_EPIC_ID = Key("epicId", "epic_id")
_SPRINT = Key("sprintId", "sprint_id")
_HEARTBEAT = Key("lastHeartbeat", "last_heartbeat")
_NAMELESS = RecordKind.EPIC.key("epic")
_OF_SPRINTS = (RecordKind.SPRINT, RecordKind.FILES, RecordKind.INTERFACE)
_NAME_MAX = 200


def split_by_epic(records: Mapping[str, str]) -> dict[str, bytes]:
    """Return a dump of each epic's records under the epic's key, of each swarm's, and of the waves of each task."""
    parsed = {key: object_in(key, value.encode()) or value for key, value in records.items()}
    epics = _Epics(parsed)
    runs: dict[str, Node] = {key: {key: parsed[key]} for key in epics.keys.values()}
    for key, value in parsed.items():
        kind, owner = parse_key(key) or (None, "")
        if kind is RecordKind.SWARM:
            runs[key] = {key: value}
        elif kind is RecordKind.WAVE:
            task = owner.rpartition(":")[0]
            runs.setdefault(RecordKind.WAVE.key(task), {})[key] = value
        elif kind is not None and kind is not RecordKind.EPIC:
            runs.setdefault(epics.key_of(kind, owner), {})[key] = value
    return {_file_name(name): to_json(dump) for name, dump in runs.items()}


class _Epics:
    """Finds the epic of a record: the one that it names, or that names its sprint; else the only one."""

    def __init__(self, parsed: Mapping[str, Node | str]) -> None:
        self._records = {key: node(value) for key, value in parsed.items()}
        names = [owner for key in parsed for kind, owner in _parsed_keys(key) if kind is RecordKind.EPIC]
        self.keys = {_plain(name): RecordKind.EPIC.key(name) for name in names}
        self._of_sprint = {
            SPRINT_ID.text(sprint): key
            for key in self.keys.values()
            for sprint in nodes(self._records[key].get("sprints"))
        }

    def key_of(self, kind: RecordKind, owner: str) -> str:
        """Return the key of the epic to which a record belongs, whether that exists or not."""
        own = self._records[kind.key(owner)]
        if kind in _OF_SPRINTS:
            return self._named(own) or self._of(owner)
        agent = self._records.get(RecordKind.AGENT.key(owner), {})
        sprint = _SPRINT.text(own) or _SPRINT.text(agent)
        return self._named(own) or self._named(agent) or self._of(sprint)

    def _named(self, record: Node) -> str:
        name = _EPIC_ID.text(record)
        return self.keys.get(_plain(name), RecordKind.EPIC.key(name)) if name else ""

    def _of(self, sprint: str) -> str:
        said = self._named(self._records.get(RecordKind.SPRINT.key(sprint), {}))
        only = next(iter(self.keys.values())) if len(self.keys) == 1 else _NAMELESS
        return said or self._of_sprint.get(sprint, only)


def _parsed_keys(key: str) -> Iterator[tuple[RecordKind, str]]:
    if found := parse_key(key):
        yield found


def _plain(name: str) -> str:
    return name.removeprefix("epic-")


def _file_name(key: str) -> str:
    """Return a key as a name of a document: it is the name of no file of the project."""
    return "".join(sign if sign.isprintable() and sign != "/" else "-" for sign in key)[:_NAME_MAX]


def last_heartbeat(dump: bytes) -> float:
    """Return when an agent of an epic last gave a sign, in seconds since 1970; 0 if none did."""
    agents = (
        node(value) for key, value in object_in("dump", dump).items() if is_of_kind(key, RecordKind.AGENT)
    )
    return max((parse_time(text(_HEARTBEAT.raw(agent))) for agent in agents), default=0.0)


SERVER = ServerFormat(
    patterns=tuple(kind.key("*") for kind in RecordKind),
    split=split_by_epic,
    heartbeat=last_heartbeat,
    write=server_records,
    owner=owner_of,
)
