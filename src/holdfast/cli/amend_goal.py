"""`amend "goal"`: a planner changes the plan of a run for what is asked besides. It is shown before it is taken.

The answer is kept: the same words again ask nobody again, and a run that has taken it is not changed twice.
"""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from pathlib import Path

from holdfast.agents.presets import Presets, agent_names, find_agent, installed_presets, presets_of
from holdfast.cli.open_repo import OpenRepo
from holdfast.cli.output import note, say
from holdfast.cli.plan import ask_planner, choose_planner
from holdfast.cli.plan_file import shown_path
from holdfast.cli.sandbox_options import asked_sandbox
from holdfast.core.amendment import amended_plan
from holdfast.core.plan import Plan
from holdfast.core.planning_brief import task_standings
from holdfast.core.state import RunState
from holdfast.errors import HoldfastError, MachineError, PlanError
from holdfast.plans import parse_plan
from holdfast.plans.schema import schema_text
from holdfast.plans.writer import plan_content, plan_text
from holdfast.runner.amendments import possible_amendment
from holdfast.runner.decisions.amend import is_amended
from holdfast.runner.plan_files import own_plan_file, unchanged_plan_file, write_amended
from holdfast.runner.planner import (
    Planned,
    PlanningOrder,
    PlanToChange,
    change_record,
    change_records,
    known_plan,
)
from holdfast.runner.sandbox_setting import SandboxSetting


def plan_changed_for(request: str, opened: OpenRepo, state: RunState, args: Namespace) -> Planned:
    """Return the plan of a run as a planner changed it for a request. Raises PlanningError if it gave no good answer."""
    run, plan, presets = state.row.run, state.plan, presets_of(opened.checkout)
    for path in change_records(opened.state_dir, run, request):
        taken = known_plan(path, plan.goal, lambda data: _read(data, "plan.yaml", opened.checkout))
        if taken is not None and is_amended(state, taken.plan):
            return taken

    def read(data: bytes) -> Plan:
        """Read an answer. It must change something, and the run must be able to take it."""
        answer = _read(data, "plan.yaml", opened.checkout)
        if is_amended(state, answer):
            raise PlanError("the plan is the same as before: it does not yet do what is asked")
        try:
            possible_amendment(state, presets, answer, restart=False)
        except HoldfastError as error:
            raise PlanError(error.message) from error
        return answer

    planners = _planners(plan, presets)
    own = plan.agent if plan.agent in installed_presets(planners) else ""
    agent = choose_planner(args.agent or own, planners)
    change = PlanToChange(
        request=request,
        text=_present_text(opened.checkout, state),
        standings=task_standings(state),
        commit=state.row.tip or state.row.base,
        record=change_record(opened.state_dir, run, request, plan),
    )
    order = PlanningOrder(
        goal=plan.goal,
        agent=agent,
        spec=planners[agent],
        schema=schema_text(),
        read=read,
        sandbox=asked_sandbox(args),
        change=change,
        sandbox_of_plan=SandboxSetting.of_plan(plan),
        sandbox_before=SandboxSetting.of_run(state.row),
    )
    planned = ask_planner(order, planners, args)
    again = "" if planned.tries else " It was made before; nobody is asked again."
    say(f"The changed plan is in {shown_path(planned.path)}.{again}", args)
    return planned


def _planners(plan: Plan, presets: Presets) -> Presets:
    """Return who may plan: the agents that everybody knows, and those of the plan itself."""
    own = {name: find_agent(name, plan.agents, presets) for name in plan.agents}
    return {**presets, **{name: agent for name, agent in own.items() if agent is not None}}


def write_for_people(opened: OpenRepo, run: str, planned: Planned) -> Planned:
    """Write the plan that a run is about to get where people edit it, and return it there. Repeating it changes nothing."""
    state = opened.journal.load(run).state()
    amended = amended_plan(state, planned.plan)

    def content(name: str) -> bytes:
        is_as_answered = planned.plan == amended and not name.endswith(".json")
        return planned.path.read_bytes() if is_as_answered else plan_content(amended, name)

    try:
        path = write_amended(
            opened.repo, state, lambda data, name: _read(data, name, opened.checkout), content
        )
    except OSError as error:
        raise MachineError(
            f"could not write the plan: {error.filename}: {error.strerror}",
            f"the run keeps its plan; the answer is in {planned.path}: `holdfast amend {run} {planned.path}` takes it",
        ) from error
    own = own_plan_file(state.row)
    if own and path != opened.checkout / own:
        note(f"{own} has edits or comments that the changed plan lacks; it was left alone.")
    return dataclasses.replace(planned, path=path)


def _present_text(checkout: Path, state: RunState) -> str:
    """Return the plan of a run as text: as people wrote it, with their comments, if they have not edited it since."""
    unchanged = unchanged_plan_file(checkout, state, lambda data, name: _read(data, name, checkout))
    if unchanged is not None and unchanged.suffix != ".json":
        return unchanged.read_text(encoding="utf-8-sig")
    return plan_text(state.plan)


def _read(data: bytes, name: str, checkout: Path) -> Plan:
    return parse_plan(data, name, agent_names(presets_of(checkout)))
