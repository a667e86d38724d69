"""Runs of other systems, as their readers return them, in real repositories; their agent is a script."""

from __future__ import annotations

from typing import Any

from holdfast.core.adoption import Claim, ClaimedStatus, TrustPolicy
from holdfast.core.plan import AgentSpec, Limits, Plan, Stage, Task
from holdfast.formats.model import ForeignRun
from holdfast.formats.registry import System
from holdfast.journal.protocol import Journal
from holdfast.repo.repository import Repository
from holdfast.runner.adoption.adopt import adopt, plan_of
from holdfast.runner.adoption.assessment import AdoptionOptions, Assessment, assess
from tests.support.repositories import Project
from tests.support.runs import Trial, open_project_journal

MAIN = ".other/state.json"
SCRIPT = 'test -e "$HOLDFAST_TASK.txt" || echo "by $HOLDFAST_TASK" > "$HOLDFAST_TASK.txt"; cat "$HOLDFAST_BRIEF" > /dev/null'


def claim(task: str, standing: ClaimedStatus = ClaimedStatus.PENDING, **more: Any) -> Claim:
    """Return what the files say of one task."""
    return Claim(task=task, native=task, standing=standing, said=str(standing), **more)


def foreign(*claims: Claim, stages: dict[str, list[str]] | None = None, **more: Any) -> ForeignRun:
    """Return a foreign run of these tasks, each needing the one before; with `stages`, grouped like that."""
    names = [one.task for one in claims]
    groups = stages or {"all": names}
    before = dict(zip(names[1:], names, strict=False))
    made = [
        Stage(
            id=stage,
            needs=(earlier,) if earlier else (),
            tasks=tuple(
                Task(id=name, prompt=f"Do {name}.", needs=(before[name],) if name in before else ())
                for name in members
            ),
        )
        for (stage, members), earlier in zip(groups.items(), ["", *groups], strict=False)
    ]
    plan = Plan(goal="carry on", stages=tuple(made), limits=Limits(attempts=3, retry_delay_s=0.0))
    documents = {MAIN: repr((claims, sorted(more))).encode()}
    given = {"system": System.EXECUTE, "name": "other", "main": MAIN, "documents": documents, **more}
    return ForeignRun(plan=plan, claims=claims, **given)


def assessment_of(project: Project, run: ForeignRun, **options: Any) -> Assessment:
    """Look at a foreign run as adopt does."""
    return assess(project.open(), run, _options(**options))


def adopted(project: Project, run: ForeignRun, script: str = SCRIPT, **options: Any) -> Trial:
    """Adopt a foreign run with an agent that is a shell script."""
    repo = project.open()
    repo.prepare_state_dir()
    with open_project_journal(repo) as journal:
        return Trial(project, adopt_into(repo, journal, run, script, **options))


def adopt_into(
    repo: Repository, journal: Journal, run: ForeignRun, script: str = SCRIPT, **options: Any
) -> str:
    """Adopt a foreign run into an open journal and return the run's id."""
    wanted = _options(**options)
    assessment = assess(repo, run, wanted)
    agent = AgentSpec(command=("sh", "-c", script))
    plan = plan_of(assessment, "script", {"script": agent}, [])
    return adopt(repo, journal, assessment, wanted, plan, run.main)


def _options(*, base: str = "", checkout: bool = False, **policy: bool) -> AdoptionOptions:
    return AdoptionOptions(TrustPolicy(**policy), base, checkout)
