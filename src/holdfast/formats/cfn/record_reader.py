"""Reads CFN Loop's Redis records from an object of keys: epics, sprints, agents, interfaces.

Also the records of older releases: a swarm's state with tasks and phases, and checkpoints of container waves.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.formats.cfn.epic import EpicModel, epic_name, read_epic
from holdfast.formats.cfn.layout import RecordKind, parse_key
from holdfast.formats.cfn.sprint import sprint_claim, task_of
from holdfast.formats.lenient_json import (
    BrokenFileError,
    Key,
    Node,
    count,
    node,
    nodes,
    parse_object,
    text,
    texts,
    to_json,
)
from holdfast.formats.markdown import bulleted, paragraphs
from holdfast.formats.model import ClaimedStatus, Finding
from holdfast.formats.plan_assembly import StageDraft

RecordsByKind = dict[RecordKind, dict[str, Node]]

_EPIC_ID = Key("epicId", "epic_id")
_SPRINT_ID = Key("sprintId", "sprint_id")
_SWARM_ID = Key("swarmId", "id")
_SWARM_GOAL = Key("description", "title")
_SWARM_TASK_ID = Key("id", "taskId", "title")
_SWARM_NEEDS = Key("dependencies", "depends_on")
_OVER = ("completed", "complete", "done", "abandoned")


def read_export(root: Node) -> EpicModel:
    """Return the model of a recovery export, from its records if any, else from its list of sprints."""
    records = node(root.get("records"))
    if records:
        return read_records(records, node(root.get("config")))
    epic = node(root.get("epic"))
    model = read_epic({"epicId": epic_name(root), **epic, "sprints": root.get("sprints")})
    model.by_levels = True
    _guess_branches(model)
    return model


def read_record(root: Node) -> EpicModel:
    """Return the model of a single record in a file of its own."""
    sprint = text(root.get("sprintId")) or "sprint"
    if "agentId" not in root:
        return read_records({RecordKind.SPRINT.key(sprint): root})
    agent = text(root["agentId"]) or "agent"
    row = {"id": sprint, "status": "in_progress", "currentTask": root.get("currentTask")}
    return read_records({RecordKind.AGENT.key(agent): root, RecordKind.SPRINT.key(sprint): row})


def read_records(records: Node, config: Node | None = None) -> EpicModel:
    """Return the model that records describe. `config` is the epic's own file, if the export contains it."""
    findings: list[Finding] = []
    found = sort_records(records, findings)
    model = _base(found, config)
    model.findings += findings
    epics = found[RecordKind.EPIC]
    if len(epics) > 1:
        others = ", ".join(name for name in epics if name != model.name)
        model.report("other-epics", f"Records of other epics are left out: {others}.")
    apply_records(model, found, has_all_needs=bool(config))
    return model


def sort_records(records: Node, findings: list[Finding]) -> RecordsByKind:
    """Return the records by kind and owner. A record may be an object, or JSON text as Redis returns it."""
    found: RecordsByKind = {kind: {} for kind in RecordKind}
    for key, value in records.items():
        if parsed := parse_key(key):
            kind, owner = parsed
            try:
                found[kind][owner] = _parse_record(key, value)
            except BrokenFileError as error:
                findings.append(Finding("unreadable", f"{error.message}; this record is left out."))
    return found


def _parse_record(key: str, value: object) -> Node:
    """Return one record; a list of files is an object of one key. Raises BrokenFileError."""
    if isinstance(value, str):
        value = parse_object(key, value.encode())
    if not isinstance(value, list):
        return node(value)
    in_progress = [each for each in value if node(each).get("completed") is False]
    return {"filesWritten": value, "filesInProgress": in_progress}


def _base(found: RecordsByKind, config: Node | None) -> EpicModel:
    """Return the model for the other records: from the epic's record, or any record that names work."""
    if config:
        return read_epic(config)
    if epics := found[RecordKind.EPIC]:
        unfinished = (name for name, epic in epics.items() if text(epic.get("status")) not in _OVER)
        name = next(unfinished, next(iter(epics)))
        model = read_epic({**epics[name], "epicId": name})
        model.by_levels = model.by_levels or not model.sprints
        return model
    if found[RecordKind.SWARM]:
        return read_swarm(next(iter(found[RecordKind.SWARM].values())))
    if found[RecordKind.WAVE]:
        return _read_waves(found[RecordKind.WAVE])
    owned = (*found[RecordKind.SPRINT].values(), *found[RecordKind.AGENT].values())
    return EpicModel(name=next(filter(None, (text(each.get("epicId")) for each in owned)), "epic"))


def apply_records(model: EpicModel, found: RecordsByKind, *, has_all_needs: bool) -> None:
    """Apply the records of sprints, files, agents and interfaces to a model."""
    unlisted = {name: said for name, said in found[RecordKind.SPRINT].items() if not model.find(name)}
    for name, record in unlisted.items():
        _add_unlisted(model, name, record)
    agents = _agents(found, model)
    said: dict[str, Node] = {}
    for kind in (RecordKind.SPRINT, RecordKind.FILES):
        for name, record in found[kind].items():
            if sprint := model.find(name):
                said[sprint.native] = {**said.get(sprint.native, {}), **record}
    for sprint in model.sprints:
        native = sprint.native
        if native in said or native in agents:
            record = {**sprint.record, **said.get(native, {})}
            sprint.claim = sprint_claim(record, agents.get(native, []))
        if not has_all_needs:
            sprint.task = _with_orders(sprint.task, said.get(native, {}), agents.get(native, []))
    if not has_all_needs:
        _guess_branches(model)
        _apply_interfaces(model, found[RecordKind.INTERFACE])


def _add_unlisted(model: EpicModel, name: str, record: Node) -> None:
    """Add a sprint that only a record names, if it belongs to this epic."""
    owner = _EPIC_ID.text(record)
    if owner and owner.removeprefix("epic-") != model.name.removeprefix("epic-"):
        return
    model.add(name, task_of({"id": name, **record}), record)
    if len(model.sprints) > 1:
        said = f"Sprint {name} has a record of its own, but the epic does not list it; it is added."
        model.report("unlisted-sprint", said)


def _agents(found: RecordsByKind, model: EpicModel) -> dict[str, list[Node]]:
    """Return the records of each sprint's agents: a checkpoint says more about the file than a state."""
    agents: dict[str, list[Node]] = {}
    for kind in (RecordKind.CHECKPOINT, RecordKind.AGENT):
        for name, record in found[kind].items():
            state = found[RecordKind.AGENT].get(name, {})
            owner = _SPRINT_ID.text(record) or text(state.get("sprintId"))
            if sprint := model.find(owner):
                agents.setdefault(sprint.native, []).append(record)
    return agents


def _with_orders(task: Task, record: Node, agents: list[Node]) -> Task:
    """Return a task that tells what the agents of its sprint were to do: records without the epic's file say no more of it."""
    orders = (
        *(text(agent.get("task")) for agent in nodes(record.get("agents"))),
        *(text(agent.get("currentTask")) for agent in agents),
    )
    new = [order for order in dict.fromkeys(orders) if order and order not in (task.title, task.prompt)]
    return replace(task, prompt=paragraphs(task.prompt, bulleted("What its agents worked on", new)))


def _guess_branches(model: EpicModel) -> None:
    """Set the branch on which CFN Loop saves unfinished work every five minutes, if the record names none."""
    epic = model.name if model.name.startswith("epic-") else f"epic-{model.name}"
    for sprint in model.sprints:
        if sprint.claim.standing is ClaimedStatus.RUNNING and not sprint.claim.branch:
            sprint.claim = replace(sprint.claim, branch=f"{epic}/{sprint.native}-wip")


def _apply_interfaces(model: EpicModel, ready: dict[str, Node]) -> None:
    """Let sprints wait for a ready interface instead of the landing, and describe it in their prompts."""
    published = {sprint.native: record for name, record in ready.items() if (sprint := model.find(name))}
    for sprint in model.sprints:
        task = sprint.task
        met = tuple(need for need in task.needs if need in published)
        contracts = (
            f"The interface of {need}:\n{to_json(published[need]).decode().strip()}"
            for need in met
            if published[need]
        )
        sprint.task = replace(
            task,
            prompt="\n\n".join((task.prompt, *contracts)),
            needs=tuple(need for need in task.needs if need not in met),
            needs_interface=(*task.needs_interface, *met),
        )


def read_swarm(root: Node) -> EpicModel:
    """Return the model of a swarm: its tasks, in its phases where they list tasks."""
    phases = nodes(root.get("phases"))
    phase_of = {task: text(phase.get("id")) for phase in phases for task in texts(phase.get("tasks"))}
    tasks = nodes(root.get("tasks"))
    names = [_SWARM_TASK_ID.text(task) or f"task-{place}" for place, task in enumerate(tasks, 1)]
    model = EpicModel(
        name=_SWARM_ID.text(root) or "swarm",
        title=_SWARM_GOAL.text(node(root.get("objective"))) or text(root.get("objective")),
        status=text(node(root.get("metadata")).get("status")) or text(root.get("status")),
        stages=[StageDraft(native=text(phase.get("id")), title=text(phase.get("name"))) for phase in phases],
        by_levels=not all(name in phase_of for name in names),
    )
    for name, entry in zip(names, tasks, strict=True):
        task = replace(task_of(entry, node(root.get("consensus"))), needs=_SWARM_NEEDS.texts(entry))
        model.add(name, task, entry, phase="" if model.by_levels else phase_of[name])
    return model


def read_wave(root: Node) -> EpicModel:
    """Return the model of one wave checkpoint in a file of its own."""
    return _read_waves({f"{text(root.get('task_id')) or 'task'}:{count(root.get('wave_number'))}": root})


def _read_waves(checkpoints: dict[str, Node]) -> EpicModel:
    """Return the model of wave checkpoints: each wave is a sprint that waits for its task's previous wave."""
    waves = [
        (text(wave.get("task_id")) or key.rsplit(":", 1)[0], key, wave) for key, wave in checkpoints.items()
    ]
    model = EpicModel(name=waves[0][0])
    waves.sort(key=lambda item: (item[0], count(item[2].get("wave_number"))))
    before: dict[str, str] = {}
    for task, key, wave in waves:
        number = count(wave.get("wave_number")) or key.rsplit(":", 1)[-1]
        containers = ", ".join(texts(wave.get("container_ids")))
        prompt = f"Do wave {number} of task {task}."
        prompt += f" Its containers were: {containers}." if containers else ""
        needs = (before[task],) if task in before else ()
        before[task] = f"{task}-wave-{number}"
        model.add(
            before[task], Task(id="", title=f"Wave {number} of {task}", prompt=prompt, needs=needs), wave
        )
    return model
