"""A CFN Loop epic as a plan and claims, from any of its documents, or from several that belong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.formats import notes
from holdfast.formats.cfn.doubts import doubts
from holdfast.formats.cfn.dump import overlay, read_dump, read_export, read_record, sort_records
from holdfast.formats.cfn.epic import epic_name, read_epic
from holdfast.formats.cfn.layout import FOLDER, Kind, kind_of
from holdfast.formats.cfn.reports import overlay_report, read_epic_report, read_sprint_report
from holdfast.formats.cfn.sheet import Sheet, with_levels
from holdfast.formats.cfn.sprint import TEST_SLOT
from holdfast.formats.cfn.swarm import read_swarm, read_wave
from holdfast.formats.drafts import Assembly, assemble
from holdfast.formats.loose import BrokenFileError, Node, node, object_in, parse_object
from holdfast.formats.model import Finding, ForeignRun, Standing, System
from holdfast.formats.words import standing_of

_READERS: dict[Kind, Callable[[Node], Sheet]] = {
    Kind.EXPORT: read_export,
    Kind.DUMP: lambda root: read_dump(root, {}),
    Kind.RECORD: read_record,
    Kind.EPIC: read_epic,
    Kind.EPIC_REPORT: read_epic_report,
    Kind.SPRINT_REPORT: read_sprint_report,
    Kind.SWARM: read_swarm,
    Kind.WAVE: read_wave,
}


def recognises(path: str, data: bytes) -> bool:
    """Tell whether a file is one of CFN Loop's. A schema of its state is, too: `read` says what it is."""
    try:
        return kind_of(parse_object(path, data)) is not None
    except BrokenFileError:
        return path.startswith(f"{FOLDER}/")


def read(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return the epic that the documents tell of. Raises BrokenFileError if they name no work."""
    findings: list[Finding] = []
    main, root = _root(main, documents, findings)
    sheet = lay_out(root)
    for path, data in documents.items():
        if path != main:
            _lay_over(sheet, path, data, findings)
    if not sheet.drafts:
        raise BrokenFileError(f"{main}: no sprint is named here", "Point adopt at the epic's file or export.")
    made = put_together(sheet)
    return ForeignRun(
        system=System.CFN,
        name=sheet.name,
        plan=made.plan,
        claims=made.claims,
        finished=standing_of(sheet.status)[0] is Standing.DONE,
        findings=(*findings, *sheet.findings, *made.findings, *doubts(sheet, root, made.claims)),
        main=main,
        documents=dict(documents),
    )


def _root(main: str, documents: Mapping[str, bytes], findings: list[Finding]) -> tuple[str, Node]:
    """Return the document to begin with: the main one, or if it is broken another one that names an epic."""
    try:
        root = parse_object(main, documents.get(main, b""))
    except BrokenFileError as error:
        for path, data in documents.items():
            other = object_in(path, data)
            if kind_of(other) in (Kind.EPIC, Kind.EXPORT):
                findings.append(
                    Finding(kind="unreadable", sentence=f"{error.message}. {path} is used instead.")
                )
                return path, other
        raise
    _refuse_what_is_no_state(main, kind_of(root))
    return main, root


def _refuse_what_is_no_state(main: str, kind: Kind | None) -> None:
    way_out = "Point adopt at an epic's file, at its reports, or at an export of its records."
    if kind is Kind.SCHEMA:
        what = "this is a JSON Schema; it says what CFN Loop's state looks like, and holds none"
        raise BrokenFileError(f"{main}: {what}", way_out)
    if kind is None:
        raise BrokenFileError(f"{main}: this is no document of CFN Loop", way_out)


def lay_out(root: Node) -> Sheet:
    """Return the sheet of one document."""
    kind = kind_of(root)
    return _READERS[kind](root) if kind in _READERS else Sheet(name=epic_name(root))


def _lay_over(sheet: Sheet, path: str, data: bytes, findings: list[Finding]) -> None:
    """Use what another document knows of the same epic: records, or reports."""
    other = object_in(path, data)
    kind = kind_of(other)
    if kind is Kind.SPRINT_REPORT:
        overlay_report(sheet, other)
    elif kind in (Kind.EXPORT, Kind.DUMP) and lay_out(other).name == sheet.name:
        records = node(other.get("records")) or other
        overlay(sheet, sort_records(records, findings), own=True)


def put_together(sheet: Sheet) -> Assembly:
    """Return the plan and the claims. The writer asks for the same, to find its sprints again."""
    with_levels(sheet)
    tested = any(draft.task.slot == TEST_SLOT for draft in sheet.drafts)
    made = assemble(
        sheet.title or sheet.name,
        sheet.stages,
        sheet.drafts,
        limits=sheet.limits,
        slots={TEST_SLOT: 1} if tested else {},
    )
    return notes.plan(made, sheet.note, sheet.stage_notes)
