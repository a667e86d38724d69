"""Which tasks and layers an Execute run has, gathered from the plan, the manifest, the task files and the state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from holdfast.core.plan import Task
from holdfast.formats import extra_fields
from holdfast.formats.execute.claims import claim_of, listed_standings, with_ledger
from holdfast.formats.execute.documents import ExecuteDocuments
from holdfast.formats.execute.task_file import TaskFile, read_task_file
from holdfast.formats.lenient_json import Node, first, items, node, nodes, text, texts
from holdfast.formats.model import Claim, ClaimedStatus, Finding
from holdfast.formats.plan_assembly import StageDraft, TaskDraft, distinct, is_command, is_path

_NO_LAYER = "tasks"


class CollectedTasks(msgspec.Struct, kw_only=True):
    """The run in native names."""

    stages: list[StageDraft]
    drafts: list[TaskDraft]
    findings: list[Finding]
    notes: dict[str, Node]


class _Known(msgspec.Struct, kw_only=True):
    """Everything that is looked up by a task's name, gathered once."""

    planned: dict[str, Node]
    layers: dict[str, str]
    graph: dict[str, tuple[str, ...]]
    inventory: dict[str, Node]
    state: dict[str, Node]
    lists: Mapping[str, ClaimedStatus]
    worktrees: Node
    ledger: dict[str, list[Node]]


def collect_tasks(papers: ExecuteDocuments) -> CollectedTasks:
    """Return every task that any paper knows, with its layer, its needs and its claim."""
    known = _know(papers)
    layers = _Layers(papers)
    findings: list[Finding] = []
    drafts = []
    told = (
        known.planned,
        known.inventory,
        papers.tasks,
        known.state,
        known.lists,
        known.worktrees,
        known.ledger,
    )
    for name in dict.fromkeys(name for source in told for name in source):
        paper = read_task_file(papers.tasks[name]) if name in papers.tasks else TaskFile()
        entry = {**known.inventory.get(name, {}), **known.planned.get(name, {})}
        stage = layers.home(name, known.layers.get(name, "") or paper.layer, entry, known.state.get(name, {}))
        task = _task(name, entry, paper, papers, known)
        drafts.append(TaskDraft(native=name, stage=stage, task=task, claim=_claim(name, known)))
        findings += _disagreement(name, known)
    return CollectedTasks(stages=layers.stages(), drafts=drafts, findings=findings, notes=layers.notes)


def named(entries: Iterable[Node]) -> dict[str, Node]:
    """Return entries by name. One without a name gets a number, a second one of the same name a number behind it."""
    listed = list(entries)
    names = distinct((text(first(entry, "id", "task_id", "taskId", "name")) for entry in listed), "task")
    return dict(zip(names, listed, strict=True))


def state_tasks(state: Node) -> dict[str, Node]:
    """Return the tasks of a state, which keeps them as an object, as a list, or within its layers.

    A bare word is a status.
    """
    tasks = state.get("tasks")
    if isinstance(tasks, dict):
        return {name: node(entry) or {"status": text(entry)} for name, entry in tasks.items()}
    listed = nodes(tasks) or [entry for _, entry in _in_layers(state) if "status" in entry]
    return named(listed)


def _in_layers(document: Node) -> Iterator[tuple[str, Node]]:
    """Yield the tasks that layers list, with their layers. A task may be named by its id alone."""
    for layer in nodes(document.get("layers")):
        tasks = layer.get("tasks")
        for each in nodes(tasks) if isinstance(tasks, dict) else items(tasks):
            yield layer_name(layer), node(each) or {"id": text(each)}


def _know(papers: ExecuteDocuments) -> _Known:
    entries = list(_in_layers(papers.layer_plan))
    entries += [
        (text(first(each, "layer", "layer_id")), each) for each in nodes(papers.layer_plan.get("tasks"))
    ]
    planned = named(entry for _, entry in entries)
    ledger: dict[str, list[Node]] = {}
    for line in papers.ledger:
        if name := text(first(line, "task_id", "task", "id")):
            ledger.setdefault(name, []).append(line)
    said = {text(first(entry, "id", "task_id")): layer for layer, entry in _in_layers(papers.state)}
    return _Known(
        planned=planned,
        layers=said | dict(zip(planned, (layer for layer, _ in entries), strict=True)),
        graph=_graph(papers),
        inventory=named(nodes(papers.manifest.get("task_inventory"))),
        state=state_tasks(papers.state),
        lists=listed_standings(papers.state),
        worktrees=node(papers.state.get("worktrees")),
        ledger=ledger,
    )


def layer_name(layer: Node) -> str:
    """Return what a layer is called: its id, whatever that key is named."""
    return text(first(layer, "id", "layer_id", "layer", "name"))


def _claim(name: str, known: _Known) -> Claim:
    claim = claim_of(name, known.state.get(name, {}), node(known.worktrees.get(name)))
    if name not in known.state and name in known.lists:
        standing = known.lists[name]
        claim = msgspec.structs.replace(claim, standing=standing, said=standing.value, attempts=1)
    for line in known.ledger.get(name, ()):
        claim = with_ledger(claim, line)
    return claim


def _task(name: str, entry: Node, paper: TaskFile, papers: ExecuteDocuments, known: _Known) -> Task:
    files = [
        path for path in texts(first(entry, "files", "files_to_create", "deliverables")) if is_path(path)
    ]
    checks = [
        line
        for line in texts(first(entry, "verification", "verify", "verification_commands"))
        if is_command(line)
    ]
    wanted = texts(first(entry, "acceptance_criteria", "acceptance", "criteria"))
    run = texts(entry.get("run"))
    task = Task(
        id="",
        title=_title(entry, paper) or text(first(known.state.get(name, {}), "name", "title")),
        prompt="" if run else _prompt(name, entry, paper, papers, known),
        run=run,
        needs=tuple(dict.fromkeys([*paper.needs, *_depends_on(entry), *known.graph.get(name, ())])),
        files=tuple(dict.fromkeys([*files, *paper.files])),
        verify=tuple(dict.fromkeys([*checks, *paper.verify])),
        acceptance=tuple(dict.fromkeys([*wanted, *paper.acceptance])),
    )
    return extra_fields.task(task, extra_fields.of(entry))


def _title(entry: Node, paper: TaskFile) -> str:
    """Return the title; a name that had to serve as the id is none."""
    return (
        text(entry.get("title"))
        or (text(entry.get("name")) if first(entry, "id", "task_id", "taskId") else "")
        or paper.title
    )


def _prompt(name: str, entry: Node, paper: TaskFile, papers: ExecuteDocuments, known: _Known) -> str:
    """Return the task file as it is; else what the plan says; else all that is known: the name and its failures."""
    if name in papers.tasks:
        return papers.tasks[name]
    described = text(first(entry, "description", "objective", "prompt", "details")) or _title(entry, paper)
    provides = [f"- {line}" for line in texts(entry.get("provides"))]
    meets = ", ".join(texts(entry.get("satisfies_criteria")))
    parts = [
        described,
        "It provides:\n" + "\n".join(provides) if provides else "",
        f"It satisfies the criteria {meets}." if meets else "",
    ]
    return "\n\n".join(filter(None, parts)) or _last_resort(name, papers.slug, known.state.get(name, {}))


def _last_resort(name: str, slug: str, entry: Node) -> str:
    """Return a prompt for a task that no paper describes."""
    goal = f"Do task {name} of {slug or 'this project'}"
    if described := text(first(entry, "name", "title", "description")):
        goal = f"{goal}: {described}"
    told = [f"- {text(first(each, 'feedback', 'message'))}" for each in nodes(entry.get("retry_feedback"))]
    return "\n".join([f"{goal}.", "", "What earlier attempts were told:", *told]) if told else f"{goal}."


def _depends_on(entry: Node) -> tuple[str, ...]:
    return texts(first(entry, "depends_on", "dependencies", "needs", "dependsOn"))


def _graph(papers: ExecuteDocuments) -> dict[str, tuple[str, ...]]:
    """Return the dependency graph: an object of lists, or a list of edges that point at who waits."""
    graph = papers.layer_plan.get("dependency_graph") or papers.manifest.get("dependency_graph")
    if isinstance(graph, dict) and "edges" not in graph:
        return {
            name: _depends_on(said) if isinstance(said, dict) else texts(said) for name, said in graph.items()
        }
    found: dict[str, tuple[str, ...]] = {}
    for edge in nodes(graph.get("edges") if isinstance(graph, dict) else graph):
        who = text(first(edge, "to", "task", "target"))
        found[who] = (*found.get(who, ()), text(first(edge, "from", "depends_on", "source")))
    return {name: tuple(filter(None, needs)) for name, needs in found.items() if name}


def _disagreement(name: str, known: _Known) -> list[Finding]:
    if name not in known.planned or name not in known.graph:
        return []
    said, drawn = set(_depends_on(known.planned[name])), set(known.graph[name])
    if said == drawn:
        return []
    words = [
        f"only the task says {', '.join(sorted(said - drawn))}" if said - drawn else "",
        f"only the graph says {', '.join(sorted(drawn - said))}" if drawn - said else "",
    ]
    differ = f"{name}: its dependencies and the dependency graph differ"
    return [
        Finding(
            kind="needs-differ",
            sentence=f"{differ} ({'; '.join(filter(None, words))}); it waits for all of them.",
        )
    ]


class _Layers:
    """The layers in order, and which one a task belongs to where nothing says so but its number."""

    def __init__(self, papers: ExecuteDocuments) -> None:
        self._titles: dict[str, str] = {}
        self._needs: dict[str, tuple[str, ...]] = {}
        self.notes: dict[str, Node] = {}
        for source in (papers.layer_plan, papers.manifest, papers.state):
            for layer in nodes(source.get("layers")):
                if name := layer_name(layer):
                    self._know(name, layer)

    def _know(self, name: str, layer: Node) -> None:
        title = text(layer.get("name"))
        self._titles[name] = self._titles.get(name) or (title if title != name else "")
        self._needs.setdefault(name, texts(layer.get("depends_on")))
        self.notes.setdefault(name, extra_fields.of(layer))

    def home(self, task: str, said: str, entry: Node, in_state: Node) -> str:
        """Return the layer of a task: what any paper says, else the layer of the number in its name."""
        said = said or text(first(entry, "layer", "layer_id")) or text(first(in_state, "layer", "layer_id"))
        number = re.match(r"[Ll](\d+)-", task)
        if said not in self._titles and number:
            same = next((name for name in self._titles if re.match(rf"\D{{0,6}}{number[1]}(?!\d)", name)), "")
            said = said or same or f"layer-{number[1]}"
        said = said or (next(iter(self._titles)) if len(self._titles) == 1 else _NO_LAYER)
        self._titles.setdefault(said, "")
        return said

    def stages(self) -> list[StageDraft]:
        """Return the layers, by their numbers where each has one, else as they were found. They run in order."""
        numbers = {name: found[0] for name in self._titles if (found := re.search(r"\d{1,9}", name))}
        names = list(self._titles)
        if len(numbers) == len(names):
            names.sort(key=lambda name: int(numbers[name]))
        drafts = [
            StageDraft(native=name, title=self._titles[name], needs=self._needs.get(name) or None)
            for name in names
        ]
        return [extra_fields.stage(draft, self.notes.get(draft.native, {})) for draft in drafts]
