"""Who judges a sprint and how well it must do: Loop 2 validators and confidence gates, wherever a file puts them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from holdfast.core.plan import Task, Validator
from holdfast.formats.loose import Node, first, items, node, text, texts
from holdfast.formats.naming import task_ids

EPIC_GATE = 0.9
"""What the validators of a sprint must give where an epic does not say: what epics of CFN Loop ask for."""
_REPORT_GATE = Task(id="").gate
_GATES = (
    "confidenceThreshold", "confidence_threshold", "consensusThreshold", "consensus_threshold", "consensusTarget",
    "consensus_target", "confidenceTarget", "confidence_target", "required_consensus", "gate", "autoApproveThreshold",
)  # fmt: skip
_GROUPS = (
    "quality_gates",
    "qualityGates",
    "confidenceThresholds",
    "confidence_thresholds",
    "thresholds",
    "gates",
)
_LOOP_2 = (
    "loop_2_consensus",
    "loop2Consensus",
    "loop2_consensus",
    "loop2",
    "loop_2",
    "consensus",
    "validation",
)
_JUDGE = re.compile(r"validat|review|judge|auditor", re.IGNORECASE)


def gate_of(*places: Node, default: float = _REPORT_GATE) -> float:
    """Return the score that the validators must give: the nearest place that says one, as a share of 1."""
    for place in places:
        groups = [node(place.get(key)) for key in _GROUPS]
        for said in (first(place, *_GATES), *(first(group, *_LOOP_2) for group in groups)):
            if (share := share_of(said)) is not None:
                return share
    return default


def share_of(value: object) -> float | None:
    """Return a confidence as a number from 0 to 1, also where it is written as a percentage; None if it is none."""
    if isinstance(value, str) and re.fullmatch(r"\s*\d{1,3}(\.\d{1,6})?\s*%?\s*", value):
        value = float(value.strip(" %"))
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value or value < 0:
        return None
    return float(value) if value <= 1 else value / 100 if value <= 100 else None


def validators_of(title: str, *places: Node) -> tuple[Validator, ...]:
    """Return the validators that the nearest place names. None are made up where a file names none."""
    for place in places:
        named = list(_judges(place))
        if named:
            ids = task_ids([judge.id for judge in named], "validator")
            return tuple(
                replace(judge, id=name, prompt=judge.prompt or _question(title, judge))
                for name, judge in zip(ids, named, strict=True)
            )
    return ()


def _question(title: str, judge: Validator) -> str:
    return "" if judge.run else f"Judge the work on {title} as its {judge.id or 'validator'}."


def _judges(place: Node) -> Iterator[Validator]:
    loop_2 = node(first(place, "loop2", "loop_2", "validation"))
    for each in [*items(place.get("validators")), *items(loop_2.get("validators"))]:
        yield from _judge(each)
    for each in items(first(place, "agents", "agent_roles", "agentRoles")):
        kind = f"{text(node(each).get('type'))} {text(node(each).get('role'))}"
        if isinstance(each, dict) and _JUDGE.search(kind):
            yield from _judge(each)


def _judge(entry: object) -> Iterator[Validator]:
    """Return a validator by its native name; one that is a command has no prompt."""
    said = node(entry)
    name = text(first(said, "id", "name", "role", "agent", "type")) or text(entry)
    asked = text(first(said, "prompt", "focus", "description")) or "; ".join(
        texts(said.get("responsibilities"))
    )
    run = texts(said.get("run"))
    if name or asked or run:
        yield Validator(id=name, prompt="" if run else asked, run=run)


def implementers_of(sprint: Node) -> tuple[str, ...]:
    """Return who is to do the work, as far as a file says."""
    named = [*items(sprint.get("implementers")), *items(first(sprint, "agents", "agent_roles", "agentRoles"))]
    roles = []
    for each in named:
        role = text(first(node(each), "role", "type", "name", "id")) or text(each)
        if role and not _JUDGE.search(role):
            roles.append(role)
    return tuple(dict.fromkeys(roles))
