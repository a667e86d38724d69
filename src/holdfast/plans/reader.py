"""Turns the bytes of a plan file into a `Plan`, or into one error that names every problem."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from holdfast.core.plan import (
    AgentSpec,
    Limits,
    ListKind,
    Notify,
    Plan,
    PlanNetwork,
    PlanWorkspace,
    Stage,
    Task,
    TaskList,
    Validator,
)
from holdfast.core.plan_rules import Where, broken_rules
from holdfast.core.status import SandboxLevel
from holdfast.errors import PlanError
from holdfast.plans.field_types import FormatVersion, kind_of
from holdfast.plans.problems import Problems, problems_error
from holdfast.plans.schema import PLAN, VERSION
from holdfast.plans.source import MAX_SIZE, SourceText, decode
from holdfast.plans.yaml_json import load_text, mark_lines

MAIN_STAGE = "main"


def read_plan(path: Path, known_agents: Collection[str], agent: str = "", if_none: str = "") -> Plan:
    """Read and check a plan file. The name decides the syntax: `.json` is JSON, anything else YAML.

    `agent`, if given, replaces the plan's own default agent; `if_none` is for a plan that needs one and has none.
    """
    try:
        data = _content(path)
    except FileNotFoundError:
        raise PlanError(
            f"there is no plan file {path}", "write one with `holdfast init`, or name another"
        ) from None
    except OSError as error:
        raise PlanError(
            f"{path} cannot be read: {error.strerror}", "name a plan file that you may read"
        ) from None
    return parse_plan(data, str(path), known_agents, agent, if_none)


def _content(path: Path) -> bytes:
    """Return the bytes of a file, at most one more than a plan may have.

    A pipe or a terminal would block, so only a regular file is read.
    """
    if not path.is_dir() and not path.is_file() and path.exists():
        kind = "pipe" if path.is_fifo() else "socket or a device"
        raise PlanError(
            f"{path} is a {kind}, not a file",
            "write the plan to a file and name that; `holdfast run` takes pipes and `-`",
        )
    with path.open("rb") as file:
        return file.read(MAX_SIZE + 1)


def parse_plan(
    text: bytes, name: str, known_agents: Collection[str], agent: str = "", if_none: str = ""
) -> Plan:
    """Read and check a plan's bytes. `name` appears in errors and decides the syntax."""
    source, value, has_duplicates = load_mapping(text, name, VERSION)
    plan, problems = build_plan(value | {"agent": agent} if agent else value, known_agents)
    if if_none and plan is not None and "agent" not in value and "" in plan.agents_named():
        plan, problems = build_plan(value | {"agent": agent or if_none}, known_agents)
    if plan is None or problems.found or has_duplicates:
        raise problems_error(source, problems.found, mark_lines(source))
    return plan


def load_mapping(data: bytes, name: str, version: FormatVersion) -> tuple[SourceText, dict[str, Any], bool]:
    """Return the text and the values of a file in that format, and whether a key is there twice."""
    source = decode(data, name)
    value, has_duplicates = load_text(source)
    if not isinstance(value, dict):
        start = f"a {version.what} is a mapping that starts with `{version.key}: {version.number}`"
        raise source.error(1, f"{start}, not {kind_of(value)}")
    return source, value, has_duplicates


def build_plan(value: dict[str, Any], known_agents: Collection[str]) -> tuple[Plan | None, Problems]:
    """Return the plan that plain values describe, as far as they are valid, and all problems."""
    problems = Problems()
    plan = _read_values(value, problems)
    if plan is not None:
        _check_rules(plan, known_agents, problems, is_short="tasks" in value)
    return plan, problems


def _read_values(value: dict[str, Any], problems: Problems) -> Plan | None:
    """Return the plan as far as its values are valid. For a newer format, only that is reported."""
    version = value.get(VERSION.key)
    if VERSION.is_newer(version):
        VERSION.type.read(version, (VERSION.key,), problems)
        return None
    return _plan(PLAN.read(value, (), problems) or {})


def _check_rules(plan: Plan, known_agents: Collection[str], problems: Problems, *, is_short: bool) -> None:
    """Add the broken rules, except where a value is wrong already: one fault is reported once."""
    known = list(problems.found)
    for broken in broken_rules(plan, known_agents):
        at, first = (_as_written(place, is_short=is_short) for place in (broken.at, broken.first or ()))
        if not any(problem.at[: len(at)] == at for problem in known):
            problems.add(at, broken.what, first=first or None)
        if problems.full:
            break


def _as_written(at: Where, *, is_short: bool) -> Where:
    """Return a place as it is in the file: the tasks of a short plan are at its top."""
    return at[2:] if is_short and at[:2] == ("stages", 0) else at


def _plan(values: dict[str, Any]) -> Plan:
    values.pop("holdfast", None)
    short = values.pop("tasks", None)
    rows = [{"id": MAIN_STAGE, "tasks": short}] if short is not None else values.pop("stages", [])
    before = [None, *rows]
    values["stages"] = tuple(_stage(row, prior) for row, prior in zip(rows, before, strict=False))
    values["agents"] = {name: AgentSpec(**row) for name, row in values.get("agents", {}).items()}
    values["limits"] = Limits(**values.get("limits", {}))
    values["notify"] = Notify(**values.get("notify", {}))
    if "sandbox" in values:
        values["sandbox"] = SandboxLevel(values["sandbox"])
    values["network"] = msgspec.convert(values.get("network", {}), PlanNetwork)
    # Only if it says something: a plan without it keeps the hash that it always had.
    if workspace := values.pop("workspace", None):
        values["workspace"] = PlanWorkspace(**workspace)
    if "task_list" in values:
        values["task_list"] = _task_list(values["task_list"])
    values.setdefault("goal", "")
    return Plan(**values)


def _task_list(values: dict[str, Any]) -> TaskList:
    """Make a task list. What is missing was reported before."""
    return TaskList(**{"path": "", **values, "kind": ListKind(values.get("kind", ListKind.CHECKLIST))})


def _stage(values: dict[str, Any], before: dict[str, Any] | None) -> Stage:
    """Make a stage. Without `needs` it needs the stage before it."""
    default = (before["id"],) if before and "id" in before else ()
    named = {"id": "", "needs": default, **values}
    named["tasks"] = tuple(_task(row) for row in values.get("tasks", ()))
    return Stage(**named)


def _task(values: dict[str, Any]) -> Task:
    """Make a task. A command may change nothing; an agent is expected to change something."""
    validators = tuple(Validator(**{"id": "", **row}) for row in values.get("validators", ()))
    return Task(**{"id": "", "allow_empty": "run" in values, **values, "validators": validators})
