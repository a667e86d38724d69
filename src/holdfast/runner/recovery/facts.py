"""Gathers the facts about a run: what git shows of its branch and commits, and the fleet of its agents.

Recovery, its preview and doctor all gather here, so that they judge by the same facts. Nothing is changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded
from holdfast.core.facts import BranchFacts, Equivalent, Facts, Sighting
from holdfast.core.ids import short_name
from holdfast.core.projection import RunRow, TaskRow
from holdfast.core.reconcile import vanished
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.errors import ForeignCommitsError, RepositoryError
from holdfast.fleet.protocol import Fleet, LaunchKey
from holdfast.repo.ancestry import find_equivalents
from holdfast.repo.landing import branch_facts, commits_outside_line
from holdfast.repo.repository import Repository

_COMMITS_SHOWN = 5


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
    recorded: Iterable[Recorded],
    sightings: Mapping[str, Sighting],
    commits: Iterable[str] | None = None,
) -> Facts:
    """Return the facts about a run. `commits` are those that should exist; by default the heads of tasks under way.

    `recorded` are the run's events; they are read only if the branch is not where the rows say. If somebody deleted the
    branch, the recorded tip replaces it: every known landing is below that.
    """
    row = state.row
    branch = branch_facts(repo, row.branch, row.base, row.run)
    exists = bool(branch.tip)
    if not exists and repo.exists(row.tip):
        branch = branch_facts(repo, row.tip, row.base, row.run)
    to_verify = (*state.active.values(), *state.awaiting_restart.values())
    wanted = (task.latest.head for task in to_verify) if commits is None else commits
    return Facts(
        branch=branch,
        branch_exists=exists,
        sightings=dict(sightings),
        equivalents=_equivalents(repo, state, branch),
        missing_commits=repo.missing(sorted(commit for commit in wanted if commit)),
        foreign=_foreign(repo, state, recorded, branch),
        wall=time.time(),
    )


def require_base(row: RunRow, facts: Facts) -> None:
    """Raise RepositoryError if the run branch was moved off the commit that the run began with."""
    if facts.branch.descends_from_base:
        return
    name = short_name(row.branch)
    raise RepositoryError(
        f"branch {name} no longer descends from {row.base[:12]}, where the run began",
        f"Put it back with `git update-ref {row.branch} {row.tip}` and resume.",
    )


def as_left(repo: Repository, row: RunRow, facts: Facts) -> Facts:
    """Return the facts with the branch as the run left it: who only ends the run needs no word on what others did to it."""
    return replace(facts, branch=branch_facts(repo, row.tip, row.base, row.run), equivalents={}, foreign=())


def require_own_branch(row: RunRow, facts: Facts, accepted: str = "") -> None:
    """Raise ForeignCommitsError if the run branch holds commits that nobody checked: an agent may have made them.

    `accepted` is the tip with which the user takes the branch as it is, or the beginning of its id.
    """
    tip = facts.branch.tip
    if not facts.foreign or (accepted and tip.startswith(accepted)):
        return
    claimed = [landing.task for landing in facts.branch.landings if landing.commit in facts.foreign]
    name, number = short_name(row.branch), len(facts.foreign)
    listed = ", ".join(commit[:12] for commit in facts.foreign[:_COMMITS_SHOWN])
    raise ForeignCommitsError(
        f"branch {name} is at {tip[:12]}, not at {row.tip[:12]}, where the run left it. {number} of its commits "
        f"{'is' if number == 1 else 'are'} not Holdfast's: {listed}{', …' if number > _COMMITS_SHOWN else ''}"
        + (f". They claim to be landings of {', '.join(claimed)}, and are none" if claimed else ""),
        f"`git log -p {row.tip[:12]}..{tip[:12]}` shows them. `git update-ref {row.branch} {row.tip}` takes them off; "
        f"`--accept-branch {tip[:12]}` takes the branch as it is. If the store went back to an older state, they may be Holdfast's.",
    )


def _foreign(
    repo: Repository, state: RunState, recorded: Iterable[Recorded], branch: BranchFacts
) -> tuple[str, ...]:
    """Return the commits on the first-parent line of the branch that are not known to the journal, newest first.

    A commit with the very files of the recorded tip brings nothing in, unless it claims a landing: somebody squashed.
    """
    row = state.row
    if branch.tip in ("", row.tip):
        return ()
    known = _recorded_tips(recorded)
    if branch.tip in known:
        return ()
    there = known - repo.missing(sorted(known))
    new = commits_outside_line(repo, branch.tip, there | {row.base})
    claims = {landing.commit for landing in branch.landings}.intersection(new)
    same = row.tip in there and repo.tree_of(branch.tip) == repo.tree_of(row.tip)
    return () if same and not claims else tuple(new)


def _recorded_tips(recorded: Iterable[Recorded]) -> frozenset[str]:
    """Return every commit that the run branch was at, or was about to move to, as the journal tells.

    A commit's id covers all that is below it. So a branch that is at one of these holds nothing forged.
    """
    events = [record.event for record in recorded]
    bases = {event.base for event in events if isinstance(event, ev.RunStarted)}
    return frozenset(bases).union(
        event.commit
        for event in events
        if isinstance(event, ev.MergePrepared | ev.TaskLanded | ev.BranchMoved)
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
