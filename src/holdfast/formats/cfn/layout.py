"""The keys of CFN Loop's records and the paths of its files. Each is spelled only here."""

from __future__ import annotations

import re
from enum import StrEnum
from posixpath import dirname, join

from holdfast.formats.lenient_json import Node, node

FOLDER = ".cfn/recovery"
"""Where recovery exports are kept, each under the name of its epic."""
PLACES = (".cfn/*.json", ".cfn/*/*.json", "**/*epic*.json")
TRACES = ("/.cfn/",)


class RecordKind(StrEnum):
    """The kinds of records that CFN Loop keeps in Redis, by the pattern of their keys, without the owner."""

    EPIC = "epic:{}:state"
    SPRINT = "sprint:{}:state"
    FILES = "sprint:{}:files"
    AGENT = "agent:{}:state"
    CHECKPOINT = "agent:{}:checkpoint"
    INTERFACE = "interface:{}:ready"
    WAVE = "cfn:wave:checkpoint:{}"
    SWARM = "swarm:state:{}"

    def key(self, owner: str) -> str:
        """Return the key of the record of an epic, a sprint or an agent."""
        return self.value.format(owner)


_OWNERS = {RecordKind.WAVE: "(.+:.+)", RecordKind.SWARM: "(?!manager:)(.+)"}
_KEYS = {kind: re.compile(kind.key(_OWNERS.get(kind, "(.+)"))) for kind in RecordKind}


def parse_key(key: str) -> tuple[RecordKind, str] | None:
    """Return the kind and the owner of a key; None if it is not a CFN Loop key."""
    for kind, pattern in _KEYS.items():
        if found := pattern.fullmatch(key):
            return kind, found[1]
    return None


def is_of_kind(key: str, kind: RecordKind) -> bool:
    """Tell whether a key is that of a record of a kind."""
    return (parse_key(key) or (None, ""))[0] is kind


def companions(main: str) -> tuple[str, ...]:
    """Return glob patterns of the files of `main`: exports, and reports beside it or at the usual place."""
    folder = dirname(main)
    reports = ("*REPORT*.json", "*SPRINT*.json", "*sprint*.json", "*LOOP2*.json", "*epic*.json")
    return (f"{FOLDER}/*.json", *(join(folder, name) for name in reports), "reports/validation/*.json")


class CfnDocument(StrEnum):
    """The kinds of CFN Loop documents."""

    EXPORT = "recovery export"
    DUMP = "dump of its keys"
    RECORD = "one record"
    EPIC = "epic"
    EPIC_REPORT = "epic report"
    SPRINT_REPORT = "sprint report"
    SWARM = "swarm state"
    WAVE = "wave checkpoint"
    SCHEMA = "JSON schema"


_CRASHED = {"crashTime", "crashDuration", "lastCheckpoint"}
_REPORTED = {"status", "confidence", "overall_confidence", "consensus_score", "validator", "agent", "vote", "loop", "decision"}  # fmt: skip
_ABOUT_A_SPRINT = {"sprint", "sprint_id", "sprint_summary"}
_OF_A_SPRINT = {"filesWritten", "filesInProgress", "progress", "lastCheckpoint"}
_OF_AN_AGENT = {"fileBeingEdited", "currentTask", "taskProgress", "lastHeartbeat"}


def kind_of(found: Node) -> CfnDocument | None:
    """Return the kind of a document by keys that only this kind has; None if it is not CFN Loop's."""
    keys = found.keys()
    rules = (
        (CfnDocument.SCHEMA, "$schema" in keys and "properties" in keys and _speaks_of_cfn(found)),
        (CfnDocument.EXPORT, any(map(parse_key, node(found.get("records"))))),
        (CfnDocument.DUMP, any(map(parse_key, keys))),
        (CfnDocument.EXPORT, bool(_CRASHED & node(found.get("epic")).keys()) and "sprints" in keys),
        (CfnDocument.SWARM, "swarmId" in keys and "tasks" in keys),
        (CfnDocument.WAVE, {"wave_number", "container_ids"} <= keys),
        (CfnDocument.EPIC_REPORT, "phase_summary" in keys and bool({"epic", "epic_id", "epicId"} & keys)),
        (CfnDocument.EPIC, _is_epic(found)),
        (CfnDocument.RECORD, "sprintId" in keys and bool(_OF_A_SPRINT & keys)),
        (CfnDocument.RECORD, "agentId" in keys and bool(_OF_AN_AGENT & keys)),
        (
            CfnDocument.SPRINT_REPORT,
            bool(_REPORTED & keys) and (_ABOUT_A_SPRINT & keys or {"phase", "loop"} <= keys),
        ),
    )
    return next((kind for kind, holds in rules if holds), None)


def _is_epic(found: Node) -> bool:
    inner = node(found.get("epic"))
    named = bool({"epicId", "epic_id", "epic_name"} & found.keys()) or bool(inner)
    parts = [*_listed(found.get("sprints")), *_listed(inner.get("sprints"))]
    phases = [*_listed(found.get("phases")), *_listed(inner.get("phases"))]
    parts += [sprint for phase in phases for sprint in _listed(node(phase).get("sprints"))]
    return bool(named and (parts or phases)) or any(
        {"sprintId", "sprint_id"} & node(part).keys() for part in parts
    )


def _listed(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _speaks_of_cfn(found: Node) -> bool:
    said = f"{found.get('title')} {found.get('description')} {' '.join(map(str, node(found['properties'])))}"
    return re.search(r"swarm|epic|sprint|cfn", said, re.IGNORECASE) is not None
