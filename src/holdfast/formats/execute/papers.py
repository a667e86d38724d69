"""All files of one Execute run, sorted and parsed. What cannot be read is told, and the rest is used."""

from __future__ import annotations

from collections.abc import Mapping
from posixpath import basename

import msgspec

from holdfast.formats.execute.layout import (
    LEDGER,
    MANIFEST,
    STATE,
    Kind,
    kind_of,
    slug_of,
    task_of_file,
)
from holdfast.formats.loose import BrokenFileError, Node, first, node, parse_object, text
from holdfast.formats.mending import whole_part
from holdfast.formats.model import Finding


class Papers(msgspec.Struct, kw_only=True):
    """What lies on the table. `state_at` is the state's path; `tasks` are the texts of task files, by task."""

    state: Node = {}
    state_at: str = ""
    layer_plan: Node = {}
    manifest: Node = {}
    ledger: list[Node] = []
    ledger_at: str = ""
    tasks: dict[str, str] = {}
    findings: list[Finding] = []

    @property
    def slug(self) -> str:
        """The name of the run: what the files say, else the folder they are in."""
        said = (
            text(first(self.state, "prd_slug", "slug", "project_slug", "name"))
            or text(first(node(self.manifest.get("prd")), "slug", "name"))
            or text(first(self.manifest, "prd_slug", "slug", "prd"))
            or text(first(self.layer_plan, "prd_slug", "slug"))
        )
        return said or slug_of(self.state_at or self.ledger_at)


def sort_papers(main: str, documents: Mapping[str, bytes]) -> Papers:
    """Return the papers. Raises BrokenFileError if `main` cannot be read and nothing else says what to do."""
    papers = Papers(findings=[])
    broken: BrokenFileError | None = None
    for path in (main, *(other for other in documents if other != main)):
        if path not in documents:
            continue
        try:
            _take(papers, path, documents[path])
        except BrokenFileError as error:
            broken = broken or error
            papers.findings.append(Finding(kind="unreadable", sentence=f"{error.message}. The rest is used."))
    if not (papers.state or papers.layer_plan or papers.manifest or papers.ledger or papers.tasks):
        raise broken or BrokenFileError(
            f"{main}: nothing here is a state or a plan of Execute",
            f"Point adopt at {STATE} or at the folder that holds it.",
        )
    return papers


def _take(papers: Papers, path: str, data: bytes) -> None:
    kind = kind_of(path, data)
    if kind is Kind.TASK:
        papers.tasks.setdefault(task_of_file(path), data.decode("utf-8-sig", errors="replace").strip())
    elif kind is Kind.LEDGER:
        _take_ledger(papers, path, data)
    elif kind is Kind.STATE:
        _take_state(papers, path, _state_in(papers, path, data))
    elif kind is Kind.LAYER_PLAN and not papers.layer_plan:
        papers.layer_plan = parse_object(path, data)
    elif kind is Kind.MANIFEST and not papers.manifest:
        papers.manifest = parse_object(path, data)
    elif kind is None and basename(path) == MANIFEST:
        # It is none of ours as it is; if it does not even parse, the user hears of it.
        parse_object(path, data)


def _state_in(papers: Papers, path: str, data: bytes) -> Node:
    """Return a state; of one that breaks off, what was written whole. Raises BrokenFileError if no task is left."""
    try:
        return parse_object(path, data)
    except BrokenFileError as error:
        state = whole_part(data)
        if not node(state.get("tasks")):
            raise
        sentence = f"{error.message}. What stands before that is used."
        papers.findings.append(Finding(kind="salvaged", sentence=sentence))
        return state


def _take_state(papers: Papers, path: str, state: Node) -> None:
    """Take the first state there is. A second copy, as some runs left at the project's root, is only compared."""
    if not papers.state_at:
        papers.state, papers.state_at = state, path
    elif state != papers.state:
        sentence = f"{path} differs from {papers.state_at}, which is used."
        papers.findings.append(Finding(kind="copies-differ", sentence=sentence))


def _take_ledger(papers: Papers, path: str, data: bytes) -> None:
    """Read the lines that can be read: a kill may have cut off the last one. One slug has one ledger."""
    slug = text(first(papers.state, "prd_slug", "slug"))
    if papers.ledger or (slug and basename(path) == LEDGER and slug_of(path) not in (slug, "")):
        return
    papers.ledger_at = path
    lines = [line for line in data.decode("utf-8", errors="replace").splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            papers.ledger.append(parse_object(path, line.encode()))
        except BrokenFileError:
            sentence = f"{path}: line {number} of {len(lines)} cannot be read and is left out."
            papers.findings.append(Finding(kind="unreadable", sentence=sentence))
