"""Where Execute keeps its files, and what tells them apart: each name is spelled once, here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from posixpath import basename, dirname, join

import msgspec

from holdfast.formats.lenient_json import (
    BrokenFileError,
    Node,
    first,
    node,
    object_in,
    parse_object,
    text,
    truncated_object,
)
from holdfast.formats.model import Finding

STATE = "execute-state.json"
LAYER_PLAN = "layer_plan.json"
MANIFEST = "manifest.json"
LEDGER = "ledger.jsonl"
TASKS_ROOT = "docs/tasks"
_LEDGER_ROOT = ".execute"
PLACES = (f"{_LEDGER_ROOT}/*/{LEDGER}", f"**/{STATE}")
TRACES = (f"/{_LEDGER_ROOT}/", "/.worktrees/", STATE)
_TASK_FILE = re.compile(r"(L\d+-\d+[A-Za-z]?)(?:[-_. ].*)?\.(?:xml|md)", re.IGNORECASE)


class ExecuteFile(StrEnum):
    """What a file of Execute is."""

    STATE = "state"
    LAYER_PLAN = "layer plan"
    MANIFEST = "manifest"
    LEDGER = "ledger"
    TASK = "task"


_BY_NAME = {STATE: ExecuteFile.STATE, LAYER_PLAN: ExecuteFile.LAYER_PLAN}


def kind_of(path: str, data: bytes) -> ExecuteFile | None:
    """Return what a file is, by its content first and by its name second; None if it is none of Execute's."""
    name = basename(path)
    if _TASK_FILE.fullmatch(name):
        return ExecuteFile.TASK
    if name.endswith(".jsonl"):
        return ExecuteFile.LEDGER if name == LEDGER or b'"task_id"' in data[:2000] else None
    return _BY_NAME.get(name) or _kind_of_object(object_in(path, data))


def _kind_of_object(found: Node) -> ExecuteFile | None:
    """Tell by the keys that only these files have."""
    if "task_inventory" in found:
        return ExecuteFile.MANIFEST
    if found.keys() & {"merge_queue", "current_layer", "worktree_dir", "derived_from"}:
        return ExecuteFile.STATE
    if "layers" in found and ("dependency_graph" in found or _has_planned_tasks(found["layers"])):
        return ExecuteFile.LAYER_PLAN
    return (
        ExecuteFile.STATE if "prd_slug" in found and {"tasks", "layers", "completed"} & found.keys() else None
    )


def _has_planned_tasks(layers: object) -> bool:
    """Tell whether layers list their tasks as objects, as a plan does; a state only counts them."""
    each = layers if isinstance(layers, list) else list(node(layers).values())
    return any(isinstance(node(layer).get("tasks"), list) and node(layer)["tasks"] for layer in each)


def task_of_file(path: str) -> str:
    """Return the task that a task file is about, by its name."""
    found = _TASK_FILE.fullmatch(basename(path))
    return found[1].upper() if found else ""


def slug_of(path: str) -> str:
    """Return the run that a file belongs to by its place: the name of its folder."""
    return basename(dirname(path))


def companions(main: str) -> tuple[str, ...]:
    """Return glob patterns of the files that belong to `main`: its folder, and the ledger under its slug."""
    folder = dirname(main)
    if basename(main) == LEDGER:
        folder = join(TASKS_ROOT, slug_of(main))
    names = (STATE, LAYER_PLAN, MANIFEST, "L[0-9]*.xml", "L[0-9]*.md", "*/L[0-9]*.xml", "*/L[0-9]*.md")
    ledger = f"{_LEDGER_ROOT}/{basename(folder) or '*'}/{LEDGER}"
    return (*(join(folder, name) for name in names), ledger)


def state_path(slug: str) -> str:
    """Return where a run that Execute never saw keeps its state."""
    return f"{TASKS_ROOT}/{slug}/{STATE}"


def ledger_path(slug: str) -> str:
    """Return where version 3 records what was merged."""
    return f"{_LEDGER_ROOT}/{slug}/{LEDGER}"


class ExecuteDocuments(msgspec.Struct, kw_only=True):
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


def sort_documents(main: str, documents: Mapping[str, bytes]) -> ExecuteDocuments:
    """Return the papers. Raises BrokenFileError if `main` cannot be read and nothing else says what to do."""
    papers = ExecuteDocuments(findings=[])
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


def _take(papers: ExecuteDocuments, path: str, data: bytes) -> None:
    kind = kind_of(path, data)
    if kind is ExecuteFile.TASK:
        papers.tasks.setdefault(task_of_file(path), data.decode("utf-8-sig", errors="replace").strip())
    elif kind is ExecuteFile.LEDGER:
        _take_ledger(papers, path, data)
    elif kind is ExecuteFile.STATE:
        _take_state(papers, path, _state_in(papers, path, data))
    elif kind is ExecuteFile.LAYER_PLAN and not papers.layer_plan:
        papers.layer_plan = parse_object(path, data)
    elif kind is ExecuteFile.MANIFEST and not papers.manifest:
        papers.manifest = parse_object(path, data)
    elif kind is None and basename(path) == MANIFEST:
        # It is none of ours as it is; if it does not even parse, the user hears of it.
        parse_object(path, data)


def _state_in(papers: ExecuteDocuments, path: str, data: bytes) -> Node:
    """Return a state; of one that breaks off, what was written whole. Raises BrokenFileError if no task is left."""
    try:
        return parse_object(path, data)
    except BrokenFileError as error:
        state = truncated_object(data)
        if not node(state.get("tasks")):
            raise
        sentence = f"{error.message}. What stands before that is used."
        papers.findings.append(Finding(kind="salvaged", sentence=sentence))
        return state


def _take_state(papers: ExecuteDocuments, path: str, state: Node) -> None:
    """Take the first state there is. A second copy, as some runs left at the project's root, is only compared."""
    if not papers.state_at:
        papers.state, papers.state_at = state, path
    elif state != papers.state:
        sentence = f"{path} differs from {papers.state_at}, which is used."
        papers.findings.append(Finding(kind="copies-differ", sentence=sentence))


def _take_ledger(papers: ExecuteDocuments, path: str, data: bytes) -> None:
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
