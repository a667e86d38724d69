"""Gathers the facts about a run: what git shows of its branch and commits, and the fleet of its agents.

Recovery, its preview and doctor all gather here, so that they judge by the same facts. Nothing is changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from holdfast.core.facts import BranchFacts, Equivalent, Facts, Sighting
from holdfast.core.projection import RunRow, TaskRow
from holdfast.core.reconcile import vanished
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.errors import RepositoryError
from holdfast.fleet.protocol import Fleet, LaunchKey
from holdfast.repo.ancestry import find_equivalents
from holdfast.repo.landing import branch_facts
from holdfast.repo.repository import Repository


def find_agents(fleet: Fleet, run: str, tasks: Iterable[TaskRow]) -> dict[str, Sighting]:
    """Return what became of the agent of each task that is recorded as running."""
    found = {}
    for task in tasks:
        if task.status is TaskStatus.RUNNING:
            key = LaunchKey.of_agent(run, task)
            fleet.recognise(key, task.latest.token)
            found[task.id] = fleet.inspect(key)
    return found


def gather_facts(
    repo: Repository,
    state: RunState,
    sightings: Mapping[str, Sighting],
    commits: Iterable[str] | None = None,
) -> Facts:
    """Return the facts about a run. `commits` are those that should exist; by default the heads of tasks under way.

    If somebody deleted the branch, the recorded tip replaces it: every known landing is below that.
    """
    row = state.row
    branch = branch_facts(repo, row.branch, row.base, row.run)
    exists = bool(branch.tip)
    if not exists and repo.exists(row.tip):
        branch = branch_facts(repo, row.tip, row.base, row.run)
    wanted = (task.latest.head for task in state.active.values()) if commits is None else commits
    return Facts(
        branch=branch,
        branch_exists=exists,
        sightings=dict(sightings),
        equivalents=_equivalents(repo, state, branch),
        missing_commits=repo.missing(sorted(commit for commit in wanted if commit)),
        wall=time.time(),
    )


def require_base(row: RunRow, facts: Facts) -> None:
    """Raise RepositoryError if the run branch was moved off the commit that the run began with."""
    if facts.branch.descends_from_base:
        return
    name = row.branch.removeprefix("refs/heads/")
    raise RepositoryError(
        f"branch {name} no longer descends from {row.base[:12]}, where the run began",
        f"Put it back with `git update-ref {row.branch} {row.tip}` and resume.",
    )


def _equivalents(repo: Repository, state: RunState, branch: BranchFacts) -> dict[str, Equivalent]:
    """Return the landings that are gone from the branch but provably survive in another commit of it.

    Costs nothing if every recorded landing is still in place.
    """
    gone = vanished(state, branch)
    if not gone or not branch.tip:
        return {}
    missing = {task.id: task.merge_commit for task in gone}
    return find_equivalents(repo, state.row.base, branch.tip, missing)
