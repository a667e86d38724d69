"""A conflict at `land` becomes a run of its own: one task, whose workspace begins with the merge and its markers.

It is a run like any other: checked like the run whose result it lands, crash-safe, resumable. Its base is the commit of
the target branch, so its result contains both sides.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from holdfast.core.plan import Plan, Stage, Task
from holdfast.core.projection import LandingConflict
from holdfast.errors import HoldfastError
from holdfast.journal.protocol import Journal, StoredRun
from holdfast.repo.landed_results import merge_onto
from holdfast.repo.landing import Conflicted, commit_merge, merge
from holdfast.repo.repository import Repository
from holdfast.reporting.result_messages import short
from holdfast.runner.landing.result_landing import ResultToLand
from holdfast.runner.session import create_run

RESOLVE_TASK = "resolve"
_TASKS_NAMED = 40


def conflict_plan(stored: StoredRun, result: ResultToLand, onto: str, agent: str = "") -> Plan:
    """Return the plan that resolves the conflicts of a run's result with its target: the run's own, with another task.

    Agents, limits, checks and the sandbox are those of the run. `agent` replaces the agent. Raises HoldfastError if no
    agent is named anywhere.
    """
    plan = stored.plan
    chosen = agent or plan.agent or next(iter(plan.agents_named()), "")
    if not chosen:
        raise HoldfastError(
            f"the plan of run {result.row.run} names no agent that could resolve the conflicts",
            f"name one: `{result.request.command('--resolve', '--agent', 'AGENT')}`",
        )
    run, target = result.row.run, result.target
    task = Task(
        id=RESOLVE_TASK, title=f"merge {run} into {target}", prompt=_prompt(stored, result), agent=chosen
    )
    return msgspec.structs.replace(
        plan,
        goal=f"Land {run} in {target}: {short(plan.goal)}",
        base=onto,
        agent=chosen,
        slots={},
        stages=(Stage(id="land", tasks=(task,)),),
    )


def conflicting_files(repo: Repository, result: ResultToLand, onto: str) -> Sequence[str]:
    """Return the files in which a result and its target conflict when they are merged as a whole."""
    merged = _merge(repo, result, onto)
    return merged.files if isinstance(merged, Conflicted) else ()


def create_conflict_run(
    repo: Repository,
    journal: Journal,
    result: ResultToLand,
    onto: str,
    plan: Plan,
    known: Collection[str],
) -> str:
    """Make the run and return its id. `known`: as in `create_run`."""
    conflict = _merge(repo, result, onto)
    if not isinstance(conflict, Conflicted):
        raise HoldfastError(
            f"{result.target} and {result.row.run} have no conflict any more", "run the command again"
        )
    first = result.results[0]
    message = f"Merge {first.run} into {result.target}, with conflicts\n"
    commit = commit_merge(repo, conflict.tree, onto, result.commit, message)
    resolves = LandingConflict(
        run=first.run, tip=first.tip, task=RESOLVE_TASK, commit=commit, files=conflict.files
    )
    return create_run(repo, journal, plan, "", result.target, known=known, resolves=resolves)


def _merge(repo: Repository, result: ResultToLand, onto: str) -> str | Conflicted:
    return merge(repo, merge_onto(repo, onto, result.commit, result.results), result.commit)


def _prompt(stored: StoredRun, result: ResultToLand) -> str:
    titles = [short(task.headline) for _, task in stored.plan.tasks()]
    listed = "\n".join(f"- {title}" for title in titles[:_TASKS_NAMED])
    return (
        f"Branch {result.target} went on while run {result.row.run} was at work, and both changed the same lines. "
        f"Merge the run's result into {result.target}: keep what the branch has got since, and all that the run did.\n\n"
        f"What the run was for: {short(stored.plan.goal, 1_000)}\n\nIts tasks:\n\n{listed}"
    )
