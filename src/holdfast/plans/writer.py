"""A plan as the text of a plan file, which `parse_plan` reads back as the same plan. Defaults are not written."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core.plan import Plan, Stage, Task
from holdfast.plans.schema import LIMITS, TASK, VERSION
from holdfast.plans.yaml_json import plain_value

_TIMES = {field.into: key for record in (LIMITS, TASK) for key, field in record.fields.items() if field.into}
"""The key in a plan file of each struct field that holds seconds."""
_LINE_CHARS = 80
_PLAIN = re.compile(r"[A-Za-z](?:[\w ,./()-]*[\w./)-])?")


def plan_content(plan: Plan, name: str) -> bytes:
    """Return what a plan file of that name holds: JSON or YAML."""
    if name.endswith(".json"):
        return msgspec.json.format(msgspec.json.encode(_plan(plan)), indent=2) + b"\n"
    return plan_text(plan).encode()


def plan_text(plan: Plan) -> str:
    """Return the YAML of a plan."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes texts so that every YAML reader reads them as texts."""

    Dumper.add_representer(str, _text)
    Dumper.add_representer(list, _list)
    Dumper.add_representer(tuple, _list)
    Dumper.ignore_aliases = lambda *_: True  # type: ignore[method-assign]
    return yaml.dump(
        _plan(plan), Dumper=Dumper, sort_keys=False, allow_unicode=True, width=float("inf"), indent=2
    )


def _text(dumper: Any, text: str) -> Any:
    """Write long texts as blocks, plain words as they are, and everything else in quotes."""
    is_plain = _PLAIN.fullmatch(text) is not None and plain_value(text) == text
    style = "|" if "\n" in text else None if is_plain else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _list(dumper: Any, entries: Sequence[Any]) -> Any:
    """Write a few words on one line, anything longer with a line for each entry."""
    is_short = all(isinstance(entry, str) for entry in entries) and sum(map(len, entries)) <= _LINE_CHARS
    return dumper.represent_sequence("tag:yaml.org,2002:seq", entries, flow_style=is_short)


def _plan(plan: Plan) -> dict[str, Any]:
    parts: dict[str, Any] = msgspec.to_builtins(plan)
    stages = [_stage(stage, before) for stage, before in zip(plan.stages, (None, *plan.stages), strict=False)]
    parts["limits"] = _times(parts.get("limits", {}))
    given = {key: part for key, part in parts.items() if part != {}}
    return {VERSION.key: VERSION.number, **given, "stages": stages}


def _stage(stage: Stage, before: Stage | None) -> dict[str, Any]:
    """Return a stage. Its needs are only written if they are not just the previous stage."""
    parts: dict[str, Any] = msgspec.to_builtins(stage)
    usual = (before.id,) if before is not None else ()
    parts.pop("needs", None)
    if stage.needs != usual:
        parts["needs"] = list(stage.needs)
    return {**parts, "tasks": [_task(task) for task in stage.tasks]}


def _task(task: Task) -> dict[str, Any]:
    parts: dict[str, Any] = msgspec.to_builtins(task)
    if task.run and not task.allow_empty:
        parts["allow_empty"] = False
    if task.run and task.allow_empty:
        del parts["allow_empty"]
    return _times(parts)


def _times(parts: dict[str, Any]) -> dict[str, Any]:
    return {_TIMES.get(key, key): f"{part:.9g}s" if key in _TIMES else part for key, part in parts.items()}
