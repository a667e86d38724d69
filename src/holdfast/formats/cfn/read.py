"""Reads a CFN Loop epic as a plan and claims, from one of its documents or several that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from holdfast.formats.cfn.epic import NAMELESS, EpicModel, assemble_epic, read_epic
from holdfast.formats.cfn.layout import FOLDER, CfnDocument, kind_of
from holdfast.formats.cfn.record_reader import (
    apply_records,
    read_export,
    read_record,
    read_records,
    read_swarm,
    read_wave,
    sort_records,
)
from holdfast.formats.cfn.reports import apply_report, read_epic_report, read_sprint_report
from holdfast.formats.contradictions import counters_differ, done_with_unfinished_parts, unknown_words
from holdfast.formats.lenient_json import BrokenFileError, Node, node, object_in, parse_object
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, Finding, ForeignRun
from holdfast.formats.registry import System
from holdfast.formats.status_words import claimed_status

READERS: dict[CfnDocument | None, Callable[[Node], EpicModel]] = {
    CfnDocument.EXPORT: read_export,
    CfnDocument.DUMP: read_records,
    CfnDocument.RECORD: read_record,
    CfnDocument.EPIC: read_epic,
    CfnDocument.EPIC_REPORT: read_epic_report,
    CfnDocument.SPRINT_REPORT: read_sprint_report,
    CfnDocument.SWARM: read_swarm,
    CfnDocument.WAVE: read_wave,
}
_NOT_A_STATE = {
    CfnDocument.SCHEMA: "this is a JSON Schema; it describes CFN Loop's state, and holds none",
    None: "this is no document of CFN Loop",
}


def recognises(path: str, data: bytes) -> bool:
    """Tell whether a file is one of CFN Loop's.

    A schema of its state is one, too: `read` reports what it is.
    """
    try:
        return kind_of(parse_object(path, data)) is not None
    except BrokenFileError:
        return path.startswith(f"{FOLDER}/")


def read(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the epic that the documents describe. Raises BrokenFileError if they name no work."""
    findings: list[Finding] = []
    main, root = _root(main, documents, findings)
    model = READERS[kind_of(root)](root)
    for path, data in documents.items():
        if path != main:
            _apply_document(model, object_in(path, data), findings)
    if not model.sprints:
        raise BrokenFileError(f"{main}: no sprint is named here", "Point adopt at the epic's file or export.")
    made = assemble_epic(model)
    findings += [*model.findings, *_contradictions(model, root, made.claims)]
    finished = claimed_status(model.status) is ClaimedStatus.DONE
    # A file without an id or a title is still known by its own name.
    name = PurePosixPath(main).stem if model.name == NAMELESS else model.name
    return made.as_run(System.CFN, name, main, documents, findings, finished=finished)


def _root(main: str, documents: Mapping[str, bytes], findings: list[Finding]) -> tuple[str, Node]:
    """Return the document to start from: the main one, or if it is broken, another one that names an epic."""
    try:
        root = parse_object(main, documents.get(main, b""))
    except BrokenFileError as error:
        for path, data in documents.items():
            other = object_in(path, data)
            if kind_of(other) in (CfnDocument.EPIC, CfnDocument.EXPORT):
                findings.append(Finding("unreadable", f"{error.message}. {path} is used instead."))
                return path, other
        raise
    if (kind := kind_of(root)) in _NOT_A_STATE:
        hint = "Point adopt at an epic's file, at its reports, or at an export of its records."
        raise BrokenFileError(f"{main}: {_NOT_A_STATE[kind]}", hint)
    return main, root


def _apply_document(model: EpicModel, other: Node, findings: list[Finding]) -> None:
    """Apply another document about the same epic: records, or reports."""
    kind = kind_of(other)
    if kind is CfnDocument.SPRINT_REPORT:
        apply_report(model, other)
    elif kind in (CfnDocument.EXPORT, CfnDocument.DUMP) and READERS[kind](other).name == model.name:
        records = node(other.get("records")) or other
        apply_records(model, sort_records(records, findings), has_all_needs=True)


def _contradictions(model: EpicModel, root: Node, claims: Sequence[Claim]) -> Iterator[Finding]:
    """Yield where the epic's status and counters contradict its sprints. The sprints' own statuses win."""
    yield from unknown_words(claims)
    unfinished = [claim.native for claim in claims if claim.standing not in SETTLED]
    yield from done_with_unfinished_parts("The epic", model.status, unfinished)
    done = sum(claim.standing is ClaimedStatus.DONE for claim in claims)
    records = {**node(root.get("records")), **root}
    epics = (node(record) for key, record in records.items() if key.startswith("epic:"))
    for counters in (root, *epics):
        yield from counters_differ("The epic", counters, ("totalSprints",), len(claims))
        yield from counters_differ("The epic", counters, ("completedSprints",), done)
