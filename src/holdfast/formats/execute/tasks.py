"""The tasks and layers of an Execute run, collected from plan, manifest, task files and state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from holdfast.core.plan import Limits, Task
from holdfast.formats import extra_fields
from holdfast.formats.execute.claims import FEEDBACK, claim_of, listed_statuses, with_ledger
from holdfast.formats.execute.documents import TASK_REFERENCE, ExecuteDocuments
from holdfast.formats.execute.task_file import TaskFile, read_task_file
from holdfast.formats.lenient_json import Key, Node, items, node, nodes, text, texts
from holdfast.formats.markdown import bulleted, paragraphs
from holdfast.formats.model import Claim, Finding
from holdfast.formats.plan_assembly import (
    Assembly,
    StageDraft,
    TaskDraft,
    assemble,
    distinct,
    is_command,
    is_path,
)

_NO_LAYER = "tasks"
_JOBS_MAX = 64

_ID = Key("id", "task_id", "taskId")
_NAME = Key("id", "task_id", "taskId", "name")
_LAYER_NAME = Key("id", "layer_id", "layer", "name")
_LAYER = Key("layer", "layer_id")
_NEEDS = Key("depends_on", "dependencies", "needs", "dependsOn")
_WAITING = Key("to", "task", "target")
_WAITED_FOR = Key("from", "depends_on", "source")
_FILES = Key("files", "files_to_create", "deliverables")
_CHECKS = Key("verification", "verify", "verification_commands")
_ACCEPTANCE = Key("acceptance_criteria", "acceptance", "criteria")
_DESCRIPTION = Key("description", "objective", "prompt", "details")
_STATE_TITLE = Key("name", "title")
_STATE_DESCRIPTION = Key("name", "title", "description")
_PRD_GOAL = Key("title", "name", "description")
_MANIFEST_GOAL = Key("title", "project_name", "goal")
_PLAN_GOAL = Key("goal", "title", "project_name")
_JOBS = Key("max_parallel", "parallel")


class CollectedTasks(msgspec.Struct, kw_only=True):
    """The run in native names, and its plan."""

    drafts: list[TaskDraft]
    findings: list[Finding]
    assembly: Assembly


def collect_tasks(documents: ExecuteDocuments) -> CollectedTasks:
    """Return every task of any document, with its layer, its needs and its claim."""
    sources = _Sources(documents)
    layers = _Layers(documents)
    drafts = [sources.draft(name, layers) for name in sources.names()]
    findings = [finding for draft in drafts for finding in sources.disagreements(draft.native)]
    jobs = _JOBS.count(node(documents.state.get("options"))) or Limits().jobs
    limits = Limits(jobs=min(jobs, _JOBS_MAX))
    made = assemble(_goal(documents), layers.stages(), drafts, limits=limits)
    made = extra_fields.plan(made, extra_fields.of(documents.layer_plan), layers.extra)
    return CollectedTasks(drafts=drafts, findings=findings, assembly=made)


def _goal(documents: ExecuteDocuments) -> str:
    return (
        _PRD_GOAL.text(node(documents.manifest.get("prd")))
        or _MANIFEST_GOAL.text(documents.manifest)
        or _PLAN_GOAL.text(documents.layer_plan)
        or documents.slug
        or "Execute"
    )


def state_tasks(state: Node) -> dict[str, Node]:
    """Return the tasks of a state, which keeps them as an object, as a list, or within its layers.

    A bare word is a status.
    """
    tasks = state.get("tasks")
    if isinstance(tasks, dict):
        return {name: node(entry) or {"status": text(entry)} for name, entry in tasks.items()}
    return _by_name(nodes(tasks) or (entry for _, entry in _in_layers(state) if "status" in entry))


def layer_name(layer: Node) -> str:
    """Return the name of a layer."""
    return _LAYER_NAME.text(layer)


def _by_name(entries: Iterable[Node]) -> dict[str, Node]:
    """Return entries by name. One without a name gets a number; a repeated name gets a numeric suffix."""
    listed = list(entries)
    return dict(zip(distinct(map(_NAME.text, listed), "task"), listed, strict=True))


def _in_layers(document: Node) -> Iterator[tuple[str, Node]]:
    """Yield the tasks that layers list, with their layers. A task may be named by its id alone."""
    for layer in nodes(document.get("layers")):
        tasks = layer.get("tasks")
        for each in nodes(tasks) if isinstance(tasks, dict) else items(tasks):
            yield layer_name(layer), node(each) or {"id": text(each)}


class _Sources:
    """Everything that the documents say about a task, by its name."""

    def __init__(self, documents: ExecuteDocuments) -> None:
        plan, state = documents.layer_plan, documents.state
        entries = [*_in_layers(plan), *((_LAYER.text(each), each) for each in nodes(plan.get("tasks")))]
        self._slug = documents.slug
        self._files = documents.task_files
        self._planned = _by_name(entry for _, entry in entries)
        self._layers = {_ID.text(entry): layer for layer, entry in _in_layers(state)}
        self._layers |= dict(zip(self._planned, (layer for layer, _ in entries), strict=True))
        self._graph = _graph(plan.get("dependency_graph") or documents.manifest.get("dependency_graph"))
        self._inventory = _by_name(nodes(documents.manifest.get("task_inventory")))
        self._state = state_tasks(state)
        self._lists = listed_statuses(state)
        self._worktrees = node(state.get("worktrees"))
        self._ledger: dict[str, list[Node]] = {}
        for line in documents.ledger:
            if name := TASK_REFERENCE.text(line):
                self._ledger.setdefault(name, []).append(line)

    def names(self) -> Iterable[str]:
        """Return the names of all tasks, the planned ones first."""
        planned = (*self._planned, *self._inventory, *self._files)
        return dict.fromkeys((*planned, *self._state, *self._lists, *self._worktrees, *self._ledger))

    def draft(self, name: str, layers: _Layers) -> TaskDraft:
        """Return what all sources together say about a task."""
        file = read_task_file(self._files[name]) if name in self._files else TaskFile()
        entry = {**self._inventory.get(name, {}), **self._planned.get(name, {})}
        said = self._layers.get(name) or file.layer or _LAYER.text(entry) or _LAYER.text(self._in_state(name))
        return TaskDraft(
            native=name,
            stage=layers.layer_of(name, said),
            task=extra_fields.task(self._task(name, entry, file), extra_fields.of(entry)),
            claim=self._claim(name),
        )

    def disagreements(self, name: str) -> Iterator[Finding]:
        """Yield a finding if a task and the dependency graph name different needs."""
        said, drawn = set(_NEEDS.texts(self._planned.get(name, {}))), set(self._graph.get(name, ()))
        if name not in self._planned or name not in self._graph or said == drawn:
            return
        only = [
            f"only {who} says {', '.join(sorted(needs))}"
            for who, needs in (("the task", said - drawn), ("the graph", drawn - said))
            if needs
        ]
        differ = f"{name}: its dependencies and the dependency graph differ"
        yield Finding("needs-differ", f"{differ} ({'; '.join(only)}); it waits for all of them.")

    def _in_state(self, name: str) -> Node:
        return self._state.get(name, {})

    def _claim(self, name: str) -> Claim:
        claim = claim_of(self._in_state(name), node(self._worktrees.get(name)))
        if name not in self._state and name in self._lists:
            status = self._lists[name]
            claim = msgspec.structs.replace(claim, standing=status, said=status.value, attempts=1)
        for line in self._ledger.get(name, ()):
            claim = with_ledger(claim, line)
        return claim

    def _task(self, name: str, entry: Node, file: TaskFile) -> Task:
        files = filter(is_path, _FILES.texts(entry))
        checks = filter(is_command, _CHECKS.texts(entry))
        run = texts(entry.get("run"))
        # A name that is used as the id is not a title.
        title = text(entry.get("title")) or (text(entry.get("name")) if _ID.raw(entry) else "") or file.title
        return Task(
            id="",
            title=title or _STATE_TITLE.text(self._in_state(name)),
            prompt="" if run else self._prompt(name, entry, title),
            run=run,
            needs=_once(file.needs, _NEEDS.texts(entry), self._graph.get(name, ())),
            files=_once(files, file.files),
            verify=_once(checks, file.verify),
            acceptance=_once(_ACCEPTANCE.texts(entry), file.acceptance),
        )

    def _prompt(self, name: str, entry: Node, title: str) -> str:
        """Return the task file unchanged; else the plan's text; else what is known: name and failures."""
        if name in self._files:
            return self._files[name]
        criteria = ", ".join(texts(entry.get("satisfies_criteria")))
        described = paragraphs(
            _DESCRIPTION.text(entry) or title,
            bulleted("It provides", texts(entry.get("provides"))),
            f"It satisfies the criteria {criteria}." if criteria else "",
        )
        return described or self._prompt_of_state(name)

    def _prompt_of_state(self, name: str) -> str:
        """Return a prompt for a task that only the state names."""
        entry = self._in_state(name)
        described = _STATE_DESCRIPTION.text(entry)
        goal = f"Do task {name} of {self._slug or 'this project'}{': ' if described else ''}{described}."
        advice = [f"- {FEEDBACK.text(each)}" for each in nodes(entry.get("retry_feedback"))]
        return "\n".join([goal, "", "What earlier attempts were told:", *advice]) if advice else goal


def _once(*groups: Iterable[str]) -> tuple[str, ...]:
    """Return all values, each once."""
    return tuple(dict.fromkeys(value for group in groups for value in group))


def _graph(graph: object) -> dict[str, tuple[str, ...]]:
    """Return a dependency graph: an object of lists, or a list of edges that point at the task that waits."""
    if isinstance(graph, dict) and "edges" not in graph:
        return {
            name: _NEEDS.texts(said) if isinstance(said, dict) else texts(said)
            for name, said in graph.items()
        }
    found: dict[str, tuple[str, ...]] = {}
    for edge in nodes(graph.get("edges") if isinstance(graph, dict) else graph):
        if who := _WAITING.text(edge):
            found[who] = (*found.get(who, ()), *filter(None, [_WAITED_FOR.text(edge)]))
    return found


class _Layers:
    """The layers in order, and the layer of a task that only its number tells."""

    def __init__(self, documents: ExecuteDocuments) -> None:
        self._drafts: dict[str, StageDraft] = {}
        self.extra: dict[str, Node] = {}
        for source in (documents.layer_plan, documents.manifest, documents.state):
            for layer in nodes(source.get("layers")):
                if name := layer_name(layer):
                    self._add(name, layer)

    def _add(self, name: str, layer: Node) -> None:
        """Add a layer. If another document already described it, only fill in a missing title."""
        needs, title = texts(layer.get("depends_on")), text(layer.get("name"))
        draft = self._drafts.setdefault(name, StageDraft(native=name, needs=needs or None))
        draft.title = draft.title or (title if title != name else "")
        self.extra.setdefault(name, extra_fields.of(layer))

    def layer_of(self, task: str, said: str) -> str:
        """Return the layer of a task: the one that a document names, else by the number in its name."""
        number = re.match(r"[Ll](\d+)-", task)
        if not said and number:
            same = (name for name in self._drafts if re.match(rf"\D{{0,6}}{number[1]}(?!\d)", name))
            said = next(same, f"layer-{number[1]}")
        said = said or (next(iter(self._drafts)) if len(self._drafts) == 1 else _NO_LAYER)
        self._drafts.setdefault(said, StageDraft(native=said))
        return said

    def stages(self) -> list[StageDraft]:
        """Return the layers, sorted by number if each has one, else as found. They run in order."""
        numbers = {name: int(found[0]) for name in self._drafts if (found := re.search(r"\d{1,9}", name))}
        is_numbered = len(numbers) == len(self._drafts)
        names = sorted(self._drafts, key=numbers.__getitem__) if is_numbered else self._drafts
        return [extra_fields.stage(self._drafts[name], self.extra.get(name, {})) for name in names]
