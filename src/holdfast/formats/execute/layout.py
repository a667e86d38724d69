"""Where Execute keeps its files, and what tells them apart: each name is spelled once, here."""

from __future__ import annotations

import re
from enum import StrEnum
from posixpath import basename, dirname, join

from holdfast.formats.loose import Node, node, object_in

STATE = "execute-state.json"
LAYER_PLAN = "layer_plan.json"
MANIFEST = "manifest.json"
LEDGER = "ledger.jsonl"
TASKS_ROOT = "docs/tasks"
_LEDGER_ROOT = ".execute"
PLACES = (f"{_LEDGER_ROOT}/*/{LEDGER}", f"**/{STATE}")
TRACES = (f"/{_LEDGER_ROOT}/", "/.worktrees/", STATE)
_TASK_FILE = re.compile(r"(L\d+-\d+[A-Za-z]?)(?:[-_. ].*)?\.(?:xml|md)", re.IGNORECASE)


class Kind(StrEnum):
    """What a file of Execute is."""

    STATE = "state"
    LAYER_PLAN = "layer plan"
    MANIFEST = "manifest"
    LEDGER = "ledger"
    TASK = "task"


_BY_NAME = {STATE: Kind.STATE, LAYER_PLAN: Kind.LAYER_PLAN}


def kind_of(path: str, data: bytes) -> Kind | None:
    """Return what a file is, by its content first and by its name second; None if it is none of Execute's."""
    name = basename(path)
    if _TASK_FILE.fullmatch(name):
        return Kind.TASK
    if name.endswith(".jsonl"):
        return Kind.LEDGER if name == LEDGER or b'"task_id"' in data[:2000] else None
    return _BY_NAME.get(name) or _kind_of_object(object_in(path, data))


def _kind_of_object(found: Node) -> Kind | None:
    """Tell by the keys that only these files have."""
    if "task_inventory" in found:
        return Kind.MANIFEST
    if found.keys() & {"merge_queue", "current_layer", "worktree_dir", "derived_from"}:
        return Kind.STATE
    if "layers" in found and ("dependency_graph" in found or _has_planned_tasks(found["layers"])):
        return Kind.LAYER_PLAN
    return Kind.STATE if "prd_slug" in found and {"tasks", "layers", "completed"} & found.keys() else None


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
