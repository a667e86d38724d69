"""Runs of ours as writers see them, made from short histories; and what two readings of a run must agree on."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core import events as ev
from holdfast.core.plan import Limits, Plan, Stage, Task
from holdfast.core.plan_rules import broken_rules
from holdfast.core.state import RunState, replay
from holdfast.core.status import AttemptKind
from holdfast.formats.exported_run import ExportedRun, Times
from holdfast.formats.model import Claim, ForeignRun

START = 1_736_589_600.0
"""2025-01-11T10:00:00Z"""


def two_layers() -> Plan:
    """Return a plan of three tasks in two layers, with everything that a file can tell of a task."""
    schema = Task(id="L0-001", title="Schema", prompt="Create the schema", files=("db/schema.sql",))
    api = Task(
        id="L1-001",
        title="API",
        prompt="Write the API\nwith tests",
        needs=("L0-001",),
        verify=("pytest -q tests/api",),
        acceptance=("POST answers 201",),
    )
    form = Task(id="L1-002", title="Form", prompt="Write the form", needs=("L0-001",))
    return Plan(
        goal="Notes",
        limits=Limits(jobs=3),
        stages=(
            Stage(id="0-setup", title="Setup", tasks=(schema,)),
            Stage(id="1-backend", title="Backend", needs=("0-setup",), tasks=(api, form)),
        ),
    )


def begun(plan: Plan) -> RunState:
    """Return a run whose first stage is open."""
    first = plan.stages[0].id
    return replay(
        plan,
        [
            ev.RunStarted(
                run="01-notes", goal=plan.goal, plan_hash="h", base="b", branch="refs/heads/holdfast/01-notes"
            ),
            ev.RunnerAttached(epoch=1, pid=1, host="host", boot_id="boot"),
            ev.StageOpening(stage=first),
            ev.StageOpened(stage=first),
        ],
    )


def started(state: RunState, task: str, reason: AttemptKind = AttemptKind.IMPLEMENTATION) -> int:
    """Let a fresh agent begin; return the number of its attempt."""
    number = state.tasks[task].attempt + 1
    state.apply(
        ev.AttemptStarted(
            task=task, attempt=number, token=f"t{number}", workspace_number=0, start="b", attempt_kind=reason
        )
    )
    return number


def done(state: RunState, task: str, number: int) -> None:
    """Let an agent end well."""
    state.apply(
        ev.AttemptDone(task=task, attempt=number, token=f"t{number}", head=f"{task}-head{number}", tree="t")
    )


def failed(
    state: RunState, task: str, error: str = "2 tests fail", detail: str = "expected 201, got 422"
) -> None:
    """Let an attempt fail its checks."""
    number = started(state, task)
    done(state, task, number)
    state.apply(ev.ChecksFailed(task=task, attempt=number, check="pytest", error=error, detail=detail))


def landed(state: RunState, task: str, reason: AttemptKind = AttemptKind.IMPLEMENTATION) -> None:
    """Let an attempt go all the way."""
    number = started(state, task, reason)
    done(state, task, number)
    state.apply(ev.TaskVerified(task=task, attempt=number))
    state.apply(ev.LandingStarted(task=task, attempt=number))
    state.apply(ev.TaskLanded(task=task, attempt=number, commit=f"{task}-merge", head=f"{task}-head{number}"))


def next_stage(state: RunState, before: str, after: str) -> None:
    """Close a stage and open the one after it."""
    for event in (
        ev.StageClosing(stage=before),
        ev.StageClosed(stage=before),
        ev.StageOpening(stage=after),
        ev.StageOpened(stage=after),
    ):
        state.apply(event)


def view_of(
    state: RunState, name: str = "notes", files: Mapping[str, tuple[str, ...]] | None = None
) -> ExportedRun:
    """Return the run as writers see it, twenty minutes in."""
    times = {task: Times(started=START + 60, ended=START + 120) for task in state.tasks}
    return ExportedRun(
        plan=state.plan,
        row=state.row,
        tasks=dict(state.tasks),
        name=name,
        project="/project",
        started=START,
        updated=START + 1200,
        written_at=START + 1200,
        task_times=times,
        stage_times={state.plan.stages[0].id: Times(started=START, ended=START + 300)},
        files=files or {},
    )


def assert_sound(run: ForeignRun) -> None:
    """Check what every reading must give: a plan that breaks no rule, and one claim per task."""
    broken = [rule for rule in broken_rules(run.plan, {""}) if "agent" not in rule.what]
    names = [task.id for _, task in run.plan.tasks()]
    assert not broken
    assert [claim.task for claim in run.claims] == names
    assert all(task.prompt or task.run for _, task in run.plan.tasks())
    assert {finding.task for finding in run.findings} - {""} <= set(names)


def kinds(run: ForeignRun, task: str = "") -> list[str]:
    """Return the kinds of what was found, of one task or of all."""
    return [finding.kind for finding in run.findings if task in ("", finding.task)]


def claims(run: ForeignRun) -> dict[str, Claim]:
    """Return the claims by task."""
    return {claim.task: claim for claim in run.claims}
