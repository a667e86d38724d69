"""The files of one Execute run: where they are, how they are told apart, and their parsed content.

Each name is spelled once, here. A file that cannot be read is a finding, and the others are used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from posixpath import basename, dirname, join

from holdfast.formats.contradictions import truncated, unreadable
from holdfast.formats.lenient_json import (
    BrokenFileError,
    Key,
    Node,
    node,
    object_in,
    parse_object,
    text,
    truncated_object,
)
from holdfast.formats.markdown import decoded
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

TASK_REFERENCE = Key("task_id", "id", "task")
"""The keys under which an entry names its task."""
_SLUG = Key("prd_slug", "slug")
_STATE_SLUG = Key("prd_slug", "slug", "project_slug", "name")
_PRD_SLUG = Key("slug", "name")
_MANIFEST_SLUG = Key("prd_slug", "slug", "prd")


def recognises(path: str, data: bytes) -> bool:
    """Tell whether a file is a state, plan or ledger of Execute. Task files alone say too little."""
    return not _TASK_FILE.fullmatch(basename(path)) and bool(_kind_of(path, data))


def _kind_of(path: str, data: bytes) -> str:
    """Return the kind of a file, as the usual name of such files; empty if it is not Execute's."""
    name = basename(path)
    if name in (STATE, LAYER_PLAN):
        return name
    if name.endswith(".jsonl"):
        return LEDGER if name == LEDGER or b'"task_id"' in data[:2000] else ""
    # Keys that only these files have identify a file under any name.
    found = object_in(path, data)
    if "task_inventory" in found:
        return MANIFEST
    if found.keys() & {"merge_queue", "current_layer", "worktree_dir", "derived_from"}:
        return STATE
    if "layers" in found and ("dependency_graph" in found or _has_planned_tasks(found["layers"])):
        return LAYER_PLAN
    return STATE if "prd_slug" in found and {"tasks", "layers", "completed"} & found.keys() else ""


def _has_planned_tasks(layers: object) -> bool:
    """Tell whether layers list their tasks as objects, as a plan does; a state only counts them."""
    each = layers if isinstance(layers, list) else list(node(layers).values())
    return any(isinstance(node(layer).get("tasks"), list) and node(layer)["tasks"] for layer in each)


def companions(main: str) -> tuple[str, ...]:
    """Return glob patterns of the files that belong to `main`: its folder, and the ledger under its slug."""
    folder = dirname(main)
    if basename(main) == LEDGER:
        folder = join(TASKS_ROOT, _folder_name(main))
    names = (STATE, LAYER_PLAN, MANIFEST, "L[0-9]*.xml", "L[0-9]*.md", "*/L[0-9]*.xml", "*/L[0-9]*.md")
    return (*(join(folder, name) for name in names), new_ledger_path(basename(folder) or "*"))


def _folder_name(path: str) -> str:
    """Return the run that a file belongs to: the name of its folder."""
    return basename(dirname(path))


def new_state_path(slug: str) -> str:
    """Return where a run that Execute never saw keeps its state."""
    return f"{TASKS_ROOT}/{slug}/{STATE}"


def new_ledger_path(slug: str) -> str:
    """Return where version 3 records what was merged."""
    return f"{_LEDGER_ROOT}/{slug}/{LEDGER}"


@dataclass(slots=True)
class ExecuteDocuments:
    """The files of one run. `task_files` are the texts of task files, by task."""

    state: Node = field(default_factory=dict)
    state_path: str = ""
    layer_plan: Node = field(default_factory=dict)
    manifest: Node = field(default_factory=dict)
    ledger: list[Node] = field(default_factory=list)
    ledger_path: str = ""
    task_files: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def slug(self) -> str:
        """The name of the run: from the files, else from their folder."""
        said = (
            _STATE_SLUG.text(self.state)
            or _PRD_SLUG.text(node(self.manifest.get("prd")))
            or _MANIFEST_SLUG.text(self.manifest)
            or _SLUG.text(self.layer_plan)
        )
        return said or _folder_name(self.state_path or self.ledger_path)

    @property
    def has_ledger(self) -> bool:
        """Whether this is version 3, whose state is derived from a ledger."""
        return text(self.state.get("schema_version")).startswith("3") or bool(self.ledger)

    @property
    def is_empty(self) -> bool:
        """Whether no document is Execute's."""
        return not (self.state or self.layer_plan or self.manifest or self.ledger or self.task_files)

    def add(self, path: str, data: bytes) -> None:
        """Add a file by its kind. Raises BrokenFileError if it should be Execute's and cannot be read."""
        if task := _TASK_FILE.fullmatch(basename(path)):
            self.task_files.setdefault(task[1].upper(), decoded(data).strip())
            return
        kind = _kind_of(path, data)
        if kind == LEDGER:
            self._add_ledger(path, data)
        elif kind == STATE:
            self._add_state(path, self._parse_state(path, data))
        elif kind == LAYER_PLAN and not self.layer_plan:
            self.layer_plan = parse_object(path, data)
        elif kind == MANIFEST and not self.manifest:
            self.manifest = parse_object(path, data)
        elif not kind and basename(path) == MANIFEST:
            # It is not recognised as Execute's. If it does not even parse, that is a finding.
            parse_object(path, data)

    def _parse_state(self, path: str, data: bytes) -> Node:
        """Return a state; of a truncated one, the complete part.

        Raises BrokenFileError if no task is left.
        """
        try:
            return parse_object(path, data)
        except BrokenFileError as error:
            state = truncated_object(data)
            if not node(state.get("tasks")):
                raise
            self.findings.append(truncated(error))
            return state

    def _add_state(self, path: str, state: Node) -> None:
        """Use the first state. A second copy, as some runs left at the project's root, is only compared."""
        if not self.state_path:
            self.state, self.state_path = state, path
        elif state != self.state:
            self.findings.append(
                Finding("copies-differ", f"{path} differs from {self.state_path}, which is used.")
            )

    def _add_ledger(self, path: str, data: bytes) -> None:
        """Use the readable lines: a kill may have cut off the last one. One slug has one ledger."""
        slug = _SLUG.text(self.state)
        if self.ledger or (slug and basename(path) == LEDGER and _folder_name(path) not in (slug, "")):
            return
        self.ledger_path = path
        lines = [line for line in data.decode("utf-8", errors="replace").splitlines() if line.strip()]
        for number, line in enumerate(lines, 1):
            try:
                self.ledger.append(parse_object(path, line.encode()))
            except BrokenFileError:
                sentence = f"{path}: line {number} of {len(lines)} cannot be read and is left out."
                self.findings.append(Finding("unreadable", sentence))


def parse_documents(main: str, documents: Mapping[str, bytes]) -> ExecuteDocuments:
    """Return the documents.

    Raises BrokenFileError if `main` is unreadable and no other document names the work.
    """
    parsed = ExecuteDocuments()
    broken: BrokenFileError | None = None
    for path in sorted(documents, key=lambda path: path != main):
        try:
            parsed.add(path, documents[path])
        except BrokenFileError as error:
            broken = broken or error
            parsed.findings.append(unreadable(error))
    if parsed.is_empty:
        raise broken or BrokenFileError(
            f"{main}: nothing here is a state or a plan of Execute",
            f"Point adopt at {STATE} or at the folder that holds it.",
        )
    return parsed
