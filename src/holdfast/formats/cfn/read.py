"""A CFN Loop epic as a plan and claims, from any of its documents, or from several that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from holdfast.formats import extra_fields
from holdfast.formats.cfn.epic_file import epic_name, read_epic
from holdfast.formats.cfn.epic_model import EpicModel, fill_in_levels
from holdfast.formats.cfn.layout import FOLDER, CfnDocument, kind_of
from holdfast.formats.cfn.record_reader import (
    apply_records,
    read_dump,
    read_export,
    read_record,
    read_swarm,
    read_wave,
    sort_records,
)
from holdfast.formats.cfn.reports import apply_report, read_epic_report, read_sprint_report
from holdfast.formats.cfn.sprint import TEST_SLOT
from holdfast.formats.contradictions import unknown_words
from holdfast.formats.lenient_json import BrokenFileError, Node, count, node, object_in, parse_object
from holdfast.formats.model import SETTLED, Claim, ClaimedStatus, Finding, ForeignRun
from holdfast.formats.plan_assembly import Assembly, assemble
from holdfast.formats.registry import System
from holdfast.formats.status_words import claimed_status


def contradictions(sheet: EpicModel, root: Node, claims: Sequence[Claim]) -> Iterator[Finding]:
    """Yield what does not fit between the epic's status, its counters and its sprints."""
    yield from unknown_words(claims)
    if claimed_status(sheet.status) is ClaimedStatus.DONE:
        unfinished = [claim.native for claim in claims if claim.standing not in SETTLED]
        if unfinished:
            sentence = f"The epic is marked {sheet.status}, but {', '.join(unfinished)} is not."
            yield Finding(kind="done-with-unfinished-parts", sentence=sentence)
    yield from _counters(root, claims)


def _counters(root: Node, claims: Sequence[Claim]) -> Iterator[Finding]:
    places = [
        root,
        *(node(value) for key, value in node(root.get("records")).items() if key.startswith("epic:")),
    ]
    places += [node(value) for key, value in root.items() if key.startswith("epic:")]
    done = sum(claim.standing is ClaimedStatus.DONE for claim in claims)
    for place in places:
        for key, known in (("totalSprints", len(claims)), ("completedSprints", done)):
            if key in place and count(place[key]) != known:
                sentence = f"The epic says {key} {place[key]}, but the sprints add up to {known}."
                yield Finding(kind="counters-differ", sentence=sentence)


_READERS: dict[CfnDocument, Callable[[Node], EpicModel]] = {
    CfnDocument.EXPORT: read_export,
    CfnDocument.DUMP: lambda root: read_dump(root, {}),
    CfnDocument.RECORD: read_record,
    CfnDocument.EPIC: read_epic,
    CfnDocument.EPIC_REPORT: read_epic_report,
    CfnDocument.SPRINT_REPORT: read_sprint_report,
    CfnDocument.SWARM: read_swarm,
    CfnDocument.WAVE: read_wave,
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
    sheet = read_document(root)
    for path, data in documents.items():
        if path != main:
            _apply_document(sheet, path, data, findings)
    if not sheet.drafts:
        raise BrokenFileError(f"{main}: no sprint is named here", "Point adopt at the epic's file or export.")
    made = assemble_epic(sheet)
    return ForeignRun(
        system=System.CFN,
        name=sheet.name,
        plan=made.plan,
        claims=made.claims,
        finished=claimed_status(sheet.status) is ClaimedStatus.DONE,
        findings=(*findings, *sheet.findings, *made.findings, *contradictions(sheet, root, made.claims)),
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
            if kind_of(other) in (CfnDocument.EPIC, CfnDocument.EXPORT):
                findings.append(
                    Finding(kind="unreadable", sentence=f"{error.message}. {path} is used instead.")
                )
                return path, other
        raise
    _refuse_what_is_no_state(main, kind_of(root))
    return main, root


def _refuse_what_is_no_state(main: str, kind: CfnDocument | None) -> None:
    way_out = "Point adopt at an epic's file, at its reports, or at an export of its records."
    if kind is CfnDocument.SCHEMA:
        what = "this is a JSON Schema; it says what CFN Loop's state looks like, and holds none"
        raise BrokenFileError(f"{main}: {what}", way_out)
    if kind is None:
        raise BrokenFileError(f"{main}: this is no document of CFN Loop", way_out)


def read_document(root: Node) -> EpicModel:
    """Return the sheet of one document."""
    kind = kind_of(root)
    return _READERS[kind](root) if kind in _READERS else EpicModel(name=epic_name(root))


def _apply_document(sheet: EpicModel, path: str, data: bytes, findings: list[Finding]) -> None:
    """Use what another document knows of the same epic: records, or reports."""
    other = object_in(path, data)
    kind = kind_of(other)
    if kind is CfnDocument.SPRINT_REPORT:
        apply_report(sheet, other)
    elif kind in (CfnDocument.EXPORT, CfnDocument.DUMP) and read_document(other).name == sheet.name:
        records = node(other.get("records")) or other
        apply_records(sheet, sort_records(records, findings), own=True)


def assemble_epic(sheet: EpicModel) -> Assembly:
    """Return the plan and the claims. The writer asks for the same, to find its sprints again."""
    fill_in_levels(sheet)
    tested = any(draft.task.slot == TEST_SLOT for draft in sheet.drafts)
    made = assemble(
        sheet.title or sheet.name,
        sheet.stages,
        sheet.drafts,
        limits=sheet.limits,
        slots={TEST_SLOT: 1} if tested else {},
    )
    return extra_fields.plan(made, sheet.note, sheet.stage_notes)
