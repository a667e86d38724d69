"""Older releases: a swarm's state with tasks and phases, and the checkpoints of waves of containers."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from holdfast.core.plan import Task
from holdfast.formats.cfn.epic_file import epic_name, read_epic
from holdfast.formats.cfn.epic_model import EpicModel, SprintIndex
from holdfast.formats.cfn.layout import RecordKind, parse_key
from holdfast.formats.cfn.sprint import sprint_claim, task_of
from holdfast.formats.lenient_json import (
    BrokenFileError,
    Node,
    count,
    first,
    node,
    nodes,
    parse_object,
    text,
    texts,
)
from holdfast.formats.model import ClaimedStatus, Finding
from holdfast.formats.plan_assembly import StageDraft, TaskDraft


def read_swarm(root: Node) -> EpicModel:
    """Return the sheet of a swarm: its tasks, in its phases where they list tasks."""
    goal = node(root.get("objective"))
    phases = nodes(root.get("phases"))
    home = {task: text(phase.get("id")) for phase in phases for task in texts(phase.get("tasks"))}
    tasks = nodes(root.get("tasks"))
    names = [
        text(first(task, "id", "taskId", "title")) or f"task-{place}" for place, task in enumerate(tasks, 1)
    ]
    leveled = not all(name in home for name in names)
    sheet = EpicModel(
        name=text(first(root, "swarmId", "id")) or "swarm",
        title=text(first(goal, "description", "title")) or text(root.get("objective")),
        status=text(node(root.get("metadata")).get("status")) or text(root.get("status")),
        stages=[StageDraft(native=text(phase.get("id")), title=text(phase.get("name"))) for phase in phases],
        leveled=leveled,
    )
    for name, entry in zip(names, tasks, strict=True):
        needs = texts(first(entry, "dependencies", "depends_on"))
        task = replace(task_of(entry, node(root.get("consensus"))), needs=needs)
        stage = "" if leveled else home[name]
        sheet.drafts.append(TaskDraft(native=name, stage=stage, task=task, claim=sprint_claim(name, entry)))
        sheet.nodes.append(entry)
    return sheet


def read_waves(checkpoints: dict[str, Node]) -> EpicModel:
    """Return the sheet of wave checkpoints: each wave of a task is a piece of work, after the wave before it."""
    sheet = EpicModel(name=_task_of(*next(iter(checkpoints.items()))), leveled=True)
    waves = sorted(checkpoints.items(), key=lambda item: (_task_of(*item), count(item[1].get("wave_number"))))
    before: dict[str, str] = {}
    for key, wave in waves:
        task = _task_of(key, wave)
        number = count(wave.get("wave_number")) or key.rsplit(":", 1)[-1]
        name = f"{task}-wave-{number}"
        containers = ", ".join(texts(wave.get("container_ids")))
        prompt = f"Do wave {number} of task {task}." + (
            f" Its containers were: {containers}." if containers else ""
        )
        needs = (before[task],) if task in before else ()
        spec = Task(id="", title=f"Wave {number} of {task}", prompt=prompt, needs=needs)
        sheet.drafts.append(TaskDraft(native=name, stage="", task=spec, claim=sprint_claim(name, wave)))
        sheet.nodes.append(wave)
        before[task] = name
    return sheet


def read_wave(root: Node) -> EpicModel:
    """Return the sheet of one wave checkpoint in a file of its own."""
    return read_waves({f"{text(root.get('task_id')) or 'task'}:{count(root.get('wave_number'))}": root})


def _task_of(key: str, wave: Node) -> str:
    return text(wave.get("task_id")) or key.rsplit(":", 1)[0]


RecordsByKind = dict[RecordKind, dict[str, Node]]


def read_dump(records: Node, config: Node) -> EpicModel:
    """Return the sheet that records tell of. `config` is the epic's own file, where an export carries it."""
    findings: list[Finding] = []
    found = sort_records(records, findings)
    epics = found[RecordKind.EPIC]
    sheet = _base(found, config)
    sheet.findings += findings
    if len(epics) > 1:
        others = ", ".join(name for name in epics if name != sheet.name)
        sheet.findings.append(
            Finding(kind="other-epics", sentence=f"Records of other epics are left out: {others}.")
        )
    apply_records(sheet, found, own=bool(config))
    return sheet


def sort_records(records: Node, findings: list[Finding]) -> RecordsByKind:
    """Return the records by kind and owner. A record may be an object, or JSON text as Redis gives it out."""
    found: RecordsByKind = {record: {} for record in RecordKind}
    for key, value in records.items():
        parsed = parse_key(key)
        if parsed is None:
            continue
        try:
            found[parsed[0]][parsed[1]] = parse_record(key, value)
        except BrokenFileError as error:
            findings.append(Finding(kind="unreadable", sentence=f"{error.message}; this record is left out."))
    return found


def parse_record(key: str, value: object) -> Node:
    """Return one record; a list of files is an object of one key. Raises BrokenFileError."""
    if isinstance(value, str):
        value = parse_object(key, value.encode())
    if isinstance(value, list):
        return {"filesWritten": [each for each in value if node(each).get("completed") is not False],
                "filesInProgress": [each for each in value if node(each).get("completed") is False]}  # fmt: skip
    return node(value)


def _base(found: RecordsByKind, config: Node) -> EpicModel:
    """Return the sheet that the other records are laid over: the epic's own, or whatever names the work."""
    if config:
        return read_epic(config)
    if found[RecordKind.EPIC]:
        name, epic = _chosen(found[RecordKind.EPIC])
        sheet = read_epic({**epic, "epicId": name})
        sheet.leveled = sheet.leveled or not sheet.drafts
        return sheet
    if found[RecordKind.SWARM]:
        return read_swarm(next(iter(found[RecordKind.SWARM].values())))
    if found[RecordKind.WAVE]:
        return read_waves(found[RecordKind.WAVE])
    owners = [
        text(sprint.get("epicId"))
        for sprint in (*found[RecordKind.SPRINT].values(), *found[RecordKind.AGENT].values())
    ]
    return EpicModel(name=next(filter(None, owners), "epic"), leveled=True)


def _chosen(epics: dict[str, Node]) -> tuple[str, Node]:
    """Return the epic to carry on: the first that is not over."""
    over = ("completed", "complete", "done", "abandoned")
    return next(
        ((name, epic) for name, epic in epics.items() if text(epic.get("status")) not in over),
        next(iter(epics.items())),
    )


def apply_records(sheet: EpicModel, found: RecordsByKind, *, own: bool) -> None:
    """Lay what is known of sprints, files, agents and interfaces over a sheet. `own` says that its needs are complete."""
    directory = SprintIndex(sheet)
    for name, record in found[RecordKind.SPRINT].items():
        if _is_of(sheet, record) and directory.find(name) is None:
            _add(sheet, name, record)
    directory = SprintIndex(sheet)
    agents = _agents(found, directory)
    said: dict[str, Node] = {}
    for kind in (RecordKind.SPRINT, RecordKind.FILES):
        for name, record in found[kind].items():
            if draft := directory.find(name):
                said[draft.native] = {**said.get(draft.native, {}), **record}
    for draft, before in zip(sheet.drafts, sheet.nodes, strict=True):
        if draft.native in said or draft.native in agents:
            record = {**before, **said.get(draft.native, {})}
            draft.claim = sprint_claim(draft.native, record, agents.get(draft.native, []))
    if not own:
        _guess_branches(sheet)
        _lay_interfaces(sheet, found[RecordKind.INTERFACE], directory)


def _is_of(sheet: EpicModel, record: Node) -> bool:
    owner = text(first(record, "epicId", "epic_id"))
    return not owner or owner.removeprefix("epic-") == sheet.name.removeprefix("epic-")


def _add(sheet: EpicModel, name: str, record: Node) -> None:
    """Add a sprint that only a record knows."""
    task = task_of({"id": name, **record})
    stage = sheet.home("")
    sheet.drafts.append(TaskDraft(native=name, stage=stage, task=task, claim=sprint_claim(name, record)))
    sheet.nodes.append(record)
    if len(sheet.nodes) > 1:
        sentence = f"Sprint {name} has a record of its own, but the epic does not list it; it is added."
        sheet.findings.append(Finding(kind="unlisted-sprint", sentence=sentence))


def _agents(found: RecordsByKind, directory: SprintIndex) -> dict[str, list[Node]]:
    """Return the records of each sprint's agents: a checkpoint says more of the file than a state."""
    agents: dict[str, list[Node]] = {}
    for kind in (RecordKind.CHECKPOINT, RecordKind.AGENT):
        for name, record in found[kind].items():
            owner = text(first(record, "sprintId", "sprint_id")) or text(
                first(found[RecordKind.AGENT].get(name, {}), "sprintId")
            )
            if draft := directory.find(owner):
                agents.setdefault(draft.native, []).append(record)
    return agents


def _guess_branches(sheet: EpicModel) -> None:
    """Name the branch that CFN Loop saves unfinished work on every five minutes, where a record does not."""
    epic = sheet.name if sheet.name.startswith("epic-") else f"epic-{sheet.name}"
    for draft in sheet.drafts:
        if draft.claim.standing is ClaimedStatus.RUNNING and not draft.claim.branch:
            draft.claim = replace(draft.claim, branch=f"{epic}/{draft.native}-wip")


def _lay_interfaces(sheet: EpicModel, ready: dict[str, Node], directory: SprintIndex) -> None:
    """Let those who wait for a sprint whose interface is ready wait for that interface, and tell them what it is."""
    published = {draft.native: record for name, record in ready.items() if (draft := directory.find(name))}
    for draft in sheet.drafts:
        met = tuple(need for need in draft.task.needs if need in published)
        contracts = [
            f"The interface of {need}:\n{_worded(published[need])}" for need in met if published[need]
        ]
        draft.task = replace(
            draft.task,
            prompt="\n\n".join([draft.task.prompt, *contracts]),
            needs=tuple(need for need in draft.task.needs if need not in met),
            needs_interface=(*draft.task.needs_interface, *met),
        )


def _worded(contract: Node) -> str:
    return msgspec.json.format(msgspec.json.encode(contract), indent=2).decode()


def read_export(root: Node) -> EpicModel:
    """Return the sheet of a recovery export: with its records where it has them, else by its list of sprints."""
    records = node(root.get("records"))
    if records:
        return read_dump(records, node(root.get("config")))
    epic = node(root.get("epic"))
    sheet = read_epic({"epicId": epic_name(root), **epic, "sprints": root.get("sprints")})
    sheet.leveled = True
    _guess_branches(sheet)
    return sheet


def read_record(root: Node) -> EpicModel:
    """Return the sheet of a single record in a file of its own."""
    if "agentId" in root:
        agent, sprint = text(root["agentId"]) or "agent", text(root.get("sprintId")) or "sprint"
        row = {"id": sprint, "status": "in_progress", "currentTask": root.get("currentTask")}
        return read_dump({f"agent:{agent}:state": root, f"sprint:{sprint}:state": row}, {})
    return read_dump({f"sprint:{text(root.get('sprintId')) or 'sprint'}:state": root}, {})
