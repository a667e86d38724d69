"""The files in a spec folder and its copies: which copy of the plan to use, and the other files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from posixpath import basename

from holdfast.formats.auto_claude import layout
from holdfast.formats.auto_claude.layout import AutoClaudeFile
from holdfast.formats.contradictions import truncated, unreadable
from holdfast.formats.lenient_json import (
    BrokenFileError,
    Node,
    parse_object,
    parse_time,
    text,
    truncated_object,
    walk,
)
from holdfast.formats.model import Finding

_TIMES = ("updated_at", "last_updated", "last_update", "created_at")
_TEXTS = (AutoClaudeFile.SPEC, AutoClaudeFile.PROGRESS, AutoClaudeFile.QA)

_Copies = list[tuple[str, Node]]


@dataclass(slots=True)
class AutoClaudeDocuments:
    """The files of one spec.

    `plan` is the copy to use, `other_plans` are older ones. No path means no plan.
    """

    plan: Node = field(default_factory=dict)
    plan_path: str = ""
    other_plans: _Copies = field(default_factory=list)
    nodes: dict[AutoClaudeFile, Node] = field(default_factory=dict)
    texts: dict[AutoClaudeFile, str] = field(default_factory=dict)
    broken: dict[str, BrokenFileError] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def node(self, file: AutoClaudeFile) -> Node:
        """Return the content of a JSON file, or an empty object."""
        return self.nodes.get(file, {})

    def text(self, file: AutoClaudeFile) -> str:
        """Return the content of a text file, or an empty text."""
        return self.texts.get(file, "")


def parse_documents(main: str, documents: Mapping[str, bytes]) -> AutoClaudeDocuments:
    """Sort the documents by what they are. Of several copies, the newest readable one is used."""
    parsed = AutoClaudeDocuments()
    copies: dict[AutoClaudeFile, _Copies] = {}
    for path, data in documents.items():
        kind = layout.kind_by_name(path)
        if kind in _TEXTS:
            parsed.texts.setdefault(kind, data.decode("utf-8", "replace").strip())
            continue
        try:
            content = parse_object(path, data)
        except BrokenFileError as error:
            parsed.broken[path] = error
            continue
        if kind := layout.kind_by_content(content) or kind:
            copies.setdefault(kind, []).append((path, content))
    _choose_plan(parsed, copies.pop(AutoClaudeFile.PLAN, []))
    parsed.nodes = {kind: max(found, key=lambda copy: _age(copy[1]))[1] for kind, found in copies.items()}
    name = layout.spec_name(parsed.plan_path or main)
    if name and text(parsed.node(AutoClaudeFile.STATUS).get("spec")) != name:
        parsed.nodes.pop(AutoClaudeFile.STATUS, None)  # The project's one status file is about another spec.
    _use_truncated(parsed, main, documents)
    return parsed


def _choose_plan(parsed: AutoClaudeDocuments, copies: _Copies) -> None:
    """Use the newest copy. A copy without subtasks predates planning, so one with subtasks always wins."""
    ranked = sorted(copies, key=lambda copy: (_has_subtasks(copy[1]), _age(copy[1])), reverse=True)
    if ranked:
        (parsed.plan_path, parsed.plan), *parsed.other_plans = ranked


def _has_subtasks(plan: Node) -> bool:
    groups = [plan.get(key) for key in ("phases", *layout.ITEM_KEYS)]
    return any("status" in part for part in _objects(groups))


def _age(content: Node) -> float:
    """Return when a document was last written: the latest time in it. One without times is the oldest."""
    return max((parse_time(text(part.get(key))) for part in _objects(content) for key in _TIMES), default=0.0)


def _objects(value: object) -> Iterator[Node]:
    return (part for part in walk(value) if isinstance(part, dict))


def _use_truncated(parsed: AutoClaudeDocuments, main: str, documents: Mapping[str, bytes]) -> None:
    """Report what could not be read. Of a truncated plan, use the complete part."""
    for path, error in parsed.broken.items():
        parsed.findings.append(unreadable(error))
        is_plan = basename(path) == AutoClaudeFile.PLAN or path == main
        found = truncated_object(documents[path]) if is_plan and not parsed.plan_path else {}
        if layout.kind_by_content(found) is AutoClaudeFile.PLAN and _has_subtasks(found):
            parsed.plan, parsed.plan_path = found, path
            parsed.findings.append(truncated(error))
