"""What lies in a spec folder and its copies: which plan is the one to believe, and what else there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from posixpath import basename

from holdfast.formats.auto_claude import layout
from holdfast.formats.auto_claude.layout import AutoClaudeFile
from holdfast.formats.lenient_json import (
    BrokenFileError,
    Node,
    node,
    parse_object,
    parse_time,
    text,
    truncated_object,
    walk,
)
from holdfast.formats.model import Finding

_STAMPS = ("updated_at", "last_updated", "last_update", "created_at")


@dataclass(slots=True)
class AutoClaudeDocuments:
    """The files of one spec. `plan` is the copy to believe, `others` those that were passed over."""

    plan: Node | None = None
    plan_path: str = ""
    others: list[tuple[str, Node]] = field(default_factory=list)
    nodes: dict[AutoClaudeFile, Node] = field(default_factory=dict)
    texts: dict[AutoClaudeFile, str] = field(default_factory=dict)
    broken: list[tuple[str, BrokenFileError]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def sort_documents(main: str, documents: Mapping[str, bytes]) -> AutoClaudeDocuments:
    """Return what the documents are. Of several copies the newest that can be read is taken."""
    papers = AutoClaudeDocuments()
    found: dict[AutoClaudeFile, list[tuple[str, Node]]] = {}
    for path, data in documents.items():
        kind = layout.kind_by_name(path)
        if kind in (AutoClaudeFile.SPEC, AutoClaudeFile.PROGRESS, AutoClaudeFile.QA):
            papers.texts.setdefault(kind, data.decode("utf-8", "replace").strip())
            continue
        try:
            content = parse_object(path, data)
        except BrokenFileError as error:
            papers.broken.append((path, error))
            continue
        if kind := layout.kind_by_content(content) or kind:
            found.setdefault(kind, []).append((path, content))
    _choose_plan(papers, found.pop(AutoClaudeFile.PLAN, []))
    papers.nodes = {kind: max(copies, key=lambda copy: _age(copy[1]))[1] for kind, copies in found.items()}
    _drop_foreign_status(papers, main)
    _mend(papers, main, documents)
    return papers


def _drop_foreign_status(papers: AutoClaudeDocuments, main: str) -> None:
    """Forget the project's one status file if it is about another spec than this."""
    name = layout.spec_name(papers.plan_path or main)
    if name and text(papers.nodes.get(AutoClaudeFile.STATUS, {}).get("spec")) != name:
        papers.nodes.pop(AutoClaudeFile.STATUS, None)


def _choose_plan(papers: AutoClaudeDocuments, copies: list[tuple[str, Node]]) -> None:
    """Believe the newest copy. One without parts was written before planning and never stands above one with."""
    ranked = sorted(copies, key=lambda copy: (_has_parts(copy[1]), _age(copy[1])), reverse=True)
    if ranked:
        (papers.plan_path, papers.plan), *papers.others = ranked


def _has_parts(plan: Node) -> bool:
    return any(isinstance(part, dict) and "status" in part for part in walk([*_groups(plan)]))


def _groups(plan: Node) -> Iterator[object]:
    yield plan.get("phases")
    yield from (plan.get(key) for key in layout.ITEM_KEYS)


def _age(content: Node) -> float:
    """Return when a document was last written, by the latest time it names; without any it is the oldest."""
    at = [
        parse_time(text(node(part).get(key)))
        for part in walk(content)
        if isinstance(part, dict)
        for key in _STAMPS
    ]
    return max(at, default=0.0)


def _mend(papers: AutoClaudeDocuments, main: str, documents: Mapping[str, bytes]) -> None:
    """Say what could not be read, and where a plan breaks off, take what was written of it."""
    for path, error in papers.broken:
        papers.findings.append(
            Finding(kind="unreadable", sentence=f"{error}. It is left as it is; what else there is was used.")
        )
        is_plan = basename(path) == layout.PLAN or path == main
        if papers.plan is None and is_plan and (mended := _whole_part(documents[path])):
            papers.plan, papers.plan_path = mended, path
            papers.findings.append(
                Finding(
                    kind="salvaged",
                    sentence=f"{path} breaks off; its parts up to there were taken, later ones are lost.",
                )
            )


def _whole_part(data: bytes) -> Node | None:
    """Return the plan that a broken file holds up to where it breaks off, if it holds parts at all."""
    found = truncated_object(data)
    is_plan = layout.kind_by_content(found) is AutoClaudeFile.PLAN
    return found if is_plan and _has_parts(found) else None
