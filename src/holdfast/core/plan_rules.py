"""What must hold between the parts of a plan: ids, needs, agents, commands, deliverables.

The shape of a plan file (keys, types) is checked where it is read; these rules hold for any `Plan`.
They are yielded lazily, so a caller that wants twenty pays for twenty.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from itertools import chain
from typing import NamedTuple

from holdfast.core.ids import ID_PATTERN, is_valid_id
from holdfast.core.plan import PLACEHOLDERS, AgentSpec, Plan, PlanWorkspace, Stage, Task, find_cycle
from holdfast.core.plan_secrets import secrets_in
from holdfast.core.session_variables import denied_names, refusal
from holdfast.errors import did_you_mean, quoted

Where = tuple[str | int, ...]
"""The place of a value in a plan: `("stages", 0, "tasks", 2, "needs")`."""

_GRAMMAR = (
    f"use letters, digits, `.`, `_` and `-`, at most 64, starting with a letter or digit ({ID_PATTERN})"
)
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class BrokenRule(NamedTuple):
    """One broken rule: where, what is wrong and how to fix it. `first` is the place it collides with."""

    at: Where
    what: str
    first: Where | None = None


def broken_rules(plan: Plan, known_agents: Collection[str]) -> Iterator[BrokenRule]:
    """Yield every broken rule of a plan. A part without an id counts as reported already."""
    stages: list[tuple[Where, Stage]] = [(("stages", at), stage) for at, stage in enumerate(plan.stages)]
    tasks = _tasks(plan)
    yield from _ids("stage", [(stage.id, at) for at, stage in stages])
    yield from _ids("task", [(task.id, at) for at, _, task in tasks])
    if all(stage.id for _, stage in stages) and all(task.id for _, _, task in tasks):
        yield from _stage_needs(stages, {task.id for _, _, task in tasks})
        yield from _task_needs(tasks, {stage.id for _, stage in stages})
    yield from _agents(plan, tasks, known_agents)
    yield from chain.from_iterable(_files(at, task) for at, _, task in tasks)
    yield from chain.from_iterable(_steps(plan, at, task, known_agents) for at, _, task in tasks)
    yield from _workspace(plan.workspace)
    yield from _task_list(plan, tasks)
    yield from (BrokenRule(at, what) for at, what in secrets_in(plan))
    yield from _passed_variables(plan)
    if plan.base.startswith("-"):
        yield BrokenRule(
            ("base",), f"{quoted(plan.base)} cannot name a commit; write a branch, a tag or a commit id"
        )


def _passed_variables(plan: Plan) -> Iterator[BrokenRule]:
    """No plan may hand on what belongs to the agent session that Holdfast is started from."""
    places: list[tuple[Where, tuple[str, ...]]] = [(("pass_env",), plan.pass_env)]
    places += [(("agents", name, "pass_env"), agent.pass_env) for name, agent in plan.agents.items()]
    for at, names in places:
        yield from (BrokenRule(at, refusal(name)) for name in denied_names(names))


def _tasks(plan: Plan) -> list[tuple[Where, int, Task]]:
    """List every task with its place and the number of its stage."""
    return [
        (("stages", number, "tasks", index), number, task)
        for number, stage in enumerate(plan.stages)
        for index, task in enumerate(stage.tasks)
    ]


def _ids(kind: str, named: list[tuple[str, Where]]) -> Iterator[BrokenRule]:
    """Check the grammar of ids, and that no two of one kind differ by nothing or only by case."""
    seen: dict[str, tuple[str, Where]] = {}
    for name, at in named:
        if not name:
            continue
        if not is_valid_id(name):
            yield BrokenRule((*at, "id"), f"{quoted(name)} is not a {kind} id; {_GRAMMAR}")
        elif (earlier := seen.setdefault(name.lower(), (name, at))) != (name, at):
            clash = (
                "is used twice" if earlier[0] == name else f"differs from {quoted(earlier[0])} only by case"
            )
            yield BrokenRule(
                (*at, "id"), f"the {kind} id {quoted(name)} {clash}; rename one", (*earlier[1], "id")
            )


def _stage_needs(stages: list[tuple[Where, Stage]], tasks: Collection[str]) -> Iterator[BrokenRule]:
    order = {stage.id: number for number, (_, stage) in enumerate(stages)}
    cycle = find_cycle({stage.id: stage.needs for _, stage in stages})
    if cycle:
        yield _cycle(cycle, stages[order[cycle[0]]][0], " (without `needs:` a stage needs the one before)")
    for number, (at, stage) in enumerate(stages):
        for index, need in enumerate(stage.needs):
            place = (*at, "needs", index)
            if need not in order:
                yield _unknown("stage", need, place, order, tasks)
            elif order[need] > number and need not in cycle:
                yield BrokenRule(
                    place, f"stage {quoted(need)} comes later; list it before {quoted(stage.id)}"
                )


def _task_needs(tasks: list[tuple[Where, int, Task]], stages: Collection[str]) -> Iterator[BrokenRule]:
    home = {task.id: (number, at) for at, number, task in tasks}
    cycle = find_cycle({task.id: task.needs + task.needs_interface for _, _, task in tasks})
    if cycle:
        yield _cycle(cycle, home[cycle[0]][1])
    for at, number, task in tasks:
        for key, index, need in _all_needs(task):
            place = (*at, key, index)
            if need not in home:
                yield _unknown("task", need, place, home, stages)
            elif home[need][0] > number and need not in cycle:
                text = f"task {quoted(need)} is in a later stage; move it to this stage or an earlier one"
                yield BrokenRule(place, text)


def _all_needs(task: Task) -> Iterator[tuple[str, int, str]]:
    for key, needs in (("needs", task.needs), ("needs_interface", task.needs_interface)):
        for index, need in enumerate(needs):
            yield key, index, need


def _cycle(path: list[str], at: Where, note: str = "") -> BrokenRule:
    """Word a cycle as its path; a long one is cut in the middle, keeping where it closes."""
    steps = path if len(path) <= 12 else [*path[:6], "…", *path[-5:]]
    return BrokenRule(
        (*at, "needs"), f"these need each other: {' → '.join(steps)}; remove one of the needs{note}"
    )


def _unknown(kind: str, need: str, at: Where, known: Collection[str], others: Collection[str]) -> BrokenRule:
    """Word an unknown need. Stages and tasks are separate namespaces, and mixing them up is common."""
    if need in others:
        other = "task" if kind == "stage" else "stage"
        return BrokenRule(
            at, f"{quoted(need)} is a {other}, and a {kind} needs {kind}s; name {kind} ids here"
        )
    return BrokenRule(at, f"there is no {kind} {quoted(need)}{did_you_mean(need, known)}")


def _agents(
    plan: Plan, tasks: list[tuple[Where, int, Task]], presets: Collection[str]
) -> Iterator[BrokenRule]:
    known = {*presets, *plan.agents}
    for name, spec in plan.agents.items():
        yield from _agent_spec(("agents", name), name, spec)
        yield from _builds_on(("agents", name), spec, presets, known)
    cycle = find_cycle({name: (spec.fallback,) for name, spec in plan.agents.items()})
    if cycle:
        where = ("agents", cycle[0], "fallback")
        yield BrokenRule(where, f"these fall back on each other: {' → '.join(cycle)}; remove one")
    named = [(("agent",), plan.agent), *(((*at, "agent"), task.agent) for at, _, task in tasks)]
    for at, agent in named:
        if agent and agent not in known:
            fix = did_you_mean(agent, known)
            yield BrokenRule(
                at, f"there is no agent {quoted(agent)}: name a preset or an entry of `agents:`{fix}"
            )
    for at, _, task in tasks:
        if task.run and task.agent:
            yield BrokenRule(
                (*at, "agent"), "a `run` task is its own command and takes no agent; remove this key"
            )
    yield from _no_agent(plan, tasks, known)


def _no_agent(
    plan: Plan, tasks: list[tuple[Where, int, Task]], known: Collection[str]
) -> Iterator[BrokenRule]:
    """Report a missing agent once, at the first task: twenty equal lines would bury the rest."""
    lost = [at for at, _, task in tasks if task.prompt and not (task.agent or plan.agent)]
    if lost:
        example = next(
            iter(sorted(plan.agents)), "claude" if "claude" in known else next(iter(sorted(known)), "NAME")
        )
        also = f" (nor for {len(lost) - 1} more)" if len(lost) > 1 else ""
        text = f"no agent is set for this task{also}; add `agent: {example}` at the top of the plan, or to the task"
        yield BrokenRule((*lost[0], "agent"), text)


def _agent_spec(at: Where, name: str, spec: AgentSpec) -> Iterator[BrokenRule]:
    if not is_valid_id(name):
        yield BrokenRule(at, f"{quoted(name)} is not an agent name; {_GRAMMAR}")
    if not spec.command and not spec.preset:
        yield BrokenRule(at, "needs `command`, the program and its arguments, or `preset`, a known agent")
    used = [(index, word) for index, arg in enumerate(spec.command) for word in _PLACEHOLDER.findall(arg)]
    for index, word in used:
        if word not in PLACEHOLDERS:
            fix = did_you_mean(word, PLACEHOLDERS)
            yield BrokenRule((*at, "command", index), f"{{{word}}} is not a placeholder{fix}")
    if spec.command and spec.prompt == "arg" and "brief" not in [word for _, word in used]:
        text = '`prompt: arg` passes the brief as an argument: add "{brief}" to the command, or use `prompt: stdin`'
        yield BrokenRule((*at, "command"), text)


def _builds_on(
    at: Where, spec: AgentSpec, presets: Collection[str], known: Collection[str]
) -> Iterator[BrokenRule]:
    """Check the names in an agent: its preset, and the agent that it falls back on."""
    if spec.preset and spec.preset not in presets:
        fix = did_you_mean(spec.preset, presets)
        yield BrokenRule((*at, "preset"), f"there is no preset {quoted(spec.preset)}{fix}")
    if spec.fallback and spec.fallback not in known:
        fix = did_you_mean(spec.fallback, known)
        yield BrokenRule((*at, "fallback"), f"there is no agent {quoted(spec.fallback)} to fall back on{fix}")


def _steps(plan: Plan, at: Where, task: Task, known_agents: Collection[str]) -> Iterator[BrokenRule]:
    """Check what follows the work: the slot of its checks, and its validators."""
    if task.slot and task.slot not in plan.slots:
        fix = did_you_mean(task.slot, plan.slots)
        yield BrokenRule((*at, "slot"), f"there is no slot {quoted(task.slot)} under `slots:`{fix}")
    seen: set[str] = set()
    known = {*known_agents, *plan.agents}
    for index, validator in enumerate(task.validators):
        place = (*at, "validators", index)
        if validator.id in seen:
            yield BrokenRule((*place, "id"), f"two validators are called {quoted(validator.id)}; rename one")
        seen.add(validator.id)
        agent = validator.agent or plan.agent
        if validator.prompt and agent not in known:
            fix = did_you_mean(agent, known) if agent else "; add `agent:` to the validator"
            yield BrokenRule((*place, "agent"), f"there is no agent {quoted(agent)} to validate with{fix}")


def _files(at: Where, task: Task) -> Iterator[BrokenRule]:
    for index, path in enumerate(task.files):
        if fault := _path_fault(path):
            yield BrokenRule(
                (*at, "files", index), f"{quoted(path)} {fault}; write a path relative to the repository"
            )


def _path_fault(path: str) -> str:
    """Return why a path is not one of the repository; empty if it is."""
    if path.startswith("/"):
        return "is an absolute path"
    return "leaves the workspace through `..`" if ".." in path.split("/") else ""


def _workspace(setting: PlanWorkspace) -> Iterator[BrokenRule]:
    """Check what is brought into workspaces: plain paths, each under one key, none in another one."""
    seen: list[tuple[str, Where]] = []
    for key, paths in (("copy", setting.copy), ("link", setting.link), ("keep", setting.keep)):
        for index, path in enumerate(paths):
            at: Where = ("workspace", key, index)
            if fault := _brought_fault(path):
                yield BrokenRule(at, f"{quoted(path)} {fault}; write a plain path relative to the repository")
            for other, first in seen:
                if f"{path}/".startswith(f"{other}/") or f"{other}/".startswith(f"{path}/"):
                    yield BrokenRule(
                        at, f"{quoted(path)} and {quoted(other)} lie in each other; name one of them", first
                    )
            seen.append((path, at))
    for index, path in enumerate(setting.setup_when):
        if fault := _path_fault(path):
            yield BrokenRule(
                ("workspace", "setup_when", index),
                f"{quoted(path)} {fault}; write a path relative to the repository, such as **/package.json",
            )
    for name in setting.env:
        if name.upper().startswith(("GIT_", "HOLDFAST_")):
            yield BrokenRule(("workspace", "env", name), f"{name} is set by Holdfast; choose another name")


def _brought_fault(path: str) -> str:
    if fault := _path_fault(path):
        return fault
    if any(char in path for char in "*?[\\\n"):
        return "is a pattern"
    parts = path.split("/")
    if "" in parts or "." in parts:
        return "has a part that says nothing, such as `./` or a `/` at its end"
    return "is a folder of git or of Holdfast" if parts[0].lower() in (".git", ".holdfast") else ""


def _task_list(plan: Plan, tasks: list[tuple[Where, int, Task]]) -> Iterator[BrokenRule]:
    """Check that points have a list, and that it is a file or folder of the project, outside of git's and our own."""
    if plan.task_list is None:
        place = next(((*at, "points") for at, _, task in tasks if task.points), None)
        if place:
            yield BrokenRule(
                place, "there is no `task_list:` that these points are in; add it, or remove them"
            )
        return
    path = plan.task_list.path
    parts = [part.casefold() for part in path.split("/")]
    if path.startswith("/") or {"..", ".git", ".holdfast"}.intersection(parts):
        fix = "write a path below the root of the repository"
        yield BrokenRule(("task_list", "path"), f"{quoted(path)} is not a list of the project; {fix}")
