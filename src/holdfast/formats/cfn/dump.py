"""Records as CFN Loop keeps them in Redis, given as an object of keys: epics, sprints, agents, interfaces, waves."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from holdfast.formats.cfn.epic import epic_name, read_epic
from holdfast.formats.cfn.facts import claim_of
from holdfast.formats.cfn.layout import Record, parse_key
from holdfast.formats.cfn.sheet import Directory, Sheet
from holdfast.formats.cfn.sprint import task_of
from holdfast.formats.cfn.swarm import read_swarm, read_waves
from holdfast.formats.drafts import TaskDraft
from holdfast.formats.loose import BrokenFileError, Node, first, node, parse_object, text
from holdfast.formats.model import Finding, Standing

Sorted = dict[Record, dict[str, Node]]


def read_dump(records: Node, config: Node) -> Sheet:
    """Return the sheet that records tell of. `config` is the epic's own file, where an export carries it."""
    findings: list[Finding] = []
    found = sort_records(records, findings)
    epics = found[Record.EPIC]
    sheet = _base(found, config)
    sheet.findings += findings
    if len(epics) > 1:
        others = ", ".join(name for name in epics if name != sheet.name)
        sheet.findings.append(
            Finding(kind="other-epics", sentence=f"Records of other epics are left out: {others}.")
        )
    overlay(sheet, found, own=bool(config))
    return sheet


def sort_records(records: Node, findings: list[Finding]) -> Sorted:
    """Return the records by kind and owner. A record may be an object, or JSON text as Redis gives it out."""
    found: Sorted = {record: {} for record in Record}
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


def _base(found: Sorted, config: Node) -> Sheet:
    """Return the sheet that the other records are laid over: the epic's own, or whatever names the work."""
    if config:
        return read_epic(config)
    if found[Record.EPIC]:
        name, epic = _chosen(found[Record.EPIC])
        sheet = read_epic({**epic, "epicId": name})
        sheet.leveled = sheet.leveled or not sheet.drafts
        return sheet
    if found[Record.SWARM]:
        return read_swarm(next(iter(found[Record.SWARM].values())))
    if found[Record.WAVE]:
        return read_waves(found[Record.WAVE])
    owners = [
        text(sprint.get("epicId"))
        for sprint in (*found[Record.SPRINT].values(), *found[Record.AGENT].values())
    ]
    return Sheet(name=next(filter(None, owners), "epic"), leveled=True)


def _chosen(epics: dict[str, Node]) -> tuple[str, Node]:
    """Return the epic to carry on: the first that is not over."""
    over = ("completed", "complete", "done", "abandoned")
    return next(
        ((name, epic) for name, epic in epics.items() if text(epic.get("status")) not in over),
        next(iter(epics.items())),
    )


def overlay(sheet: Sheet, found: Sorted, *, own: bool) -> None:
    """Lay what is known of sprints, files, agents and interfaces over a sheet. `own` says that its needs are complete."""
    directory = Directory(sheet)
    for name, record in found[Record.SPRINT].items():
        if _is_of(sheet, record) and directory.find(name) is None:
            _add(sheet, name, record)
    directory = Directory(sheet)
    agents = _agents(found, directory)
    said: dict[str, Node] = {}
    for kind in (Record.SPRINT, Record.FILES):
        for name, record in found[kind].items():
            if draft := directory.find(name):
                said[draft.native] = {**said.get(draft.native, {}), **record}
    for draft, before in zip(sheet.drafts, sheet.nodes, strict=True):
        if draft.native in said or draft.native in agents:
            record = {**before, **said.get(draft.native, {})}
            draft.claim = claim_of(draft.native, record, agents.get(draft.native, []))
    if not own:
        _guess_branches(sheet)
        _lay_interfaces(sheet, found[Record.INTERFACE], directory)


def _is_of(sheet: Sheet, record: Node) -> bool:
    owner = text(first(record, "epicId", "epic_id"))
    return not owner or owner.removeprefix("epic-") == sheet.name.removeprefix("epic-")


def _add(sheet: Sheet, name: str, record: Node) -> None:
    """Add a sprint that only a record knows."""
    task = task_of({"id": name, **record})
    stage = sheet.home("")
    sheet.drafts.append(TaskDraft(native=name, stage=stage, task=task, claim=claim_of(name, record)))
    sheet.nodes.append(record)
    if len(sheet.nodes) > 1:
        sentence = f"Sprint {name} has a record of its own, but the epic does not list it; it is added."
        sheet.findings.append(Finding(kind="unlisted-sprint", sentence=sentence))


def _agents(found: Sorted, directory: Directory) -> dict[str, list[Node]]:
    """Return the records of each sprint's agents: a checkpoint says more of the file than a state."""
    agents: dict[str, list[Node]] = {}
    for kind in (Record.CHECKPOINT, Record.AGENT):
        for name, record in found[kind].items():
            owner = text(first(record, "sprintId", "sprint_id")) or text(
                first(found[Record.AGENT].get(name, {}), "sprintId")
            )
            if draft := directory.find(owner):
                agents.setdefault(draft.native, []).append(record)
    return agents


def _guess_branches(sheet: Sheet) -> None:
    """Name the branch that CFN Loop saves unfinished work on every five minutes, where a record does not."""
    epic = sheet.name if sheet.name.startswith("epic-") else f"epic-{sheet.name}"
    for draft in sheet.drafts:
        if draft.claim.standing is Standing.RUNNING and not draft.claim.branch:
            draft.claim = replace(draft.claim, branch=f"{epic}/{draft.native}-wip")


def _lay_interfaces(sheet: Sheet, ready: dict[str, Node], directory: Directory) -> None:
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


def read_export(root: Node) -> Sheet:
    """Return the sheet of a recovery export: with its records where it has them, else by its list of sprints."""
    records = node(root.get("records"))
    if records:
        return read_dump(records, node(root.get("config")))
    epic = node(root.get("epic"))
    sheet = read_epic({"epicId": epic_name(root), **epic, "sprints": root.get("sprints")})
    sheet.leveled = True
    _guess_branches(sheet)
    return sheet


def read_record(root: Node) -> Sheet:
    """Return the sheet of a single record in a file of its own."""
    if "agentId" in root:
        agent, sprint = text(root["agentId"]) or "agent", text(root.get("sprintId")) or "sprint"
        row = {"id": sprint, "status": "in_progress", "currentTask": root.get("currentTask")}
        return read_dump({f"agent:{agent}:state": root, f"sprint:{sprint}:state": row}, {})
    return read_dump({f"sprint:{text(root.get('sprintId')) or 'sprint'}:state": root}, {})
