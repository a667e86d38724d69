"""`reset` of one task, and `resume --from` a stage or a task. The run branch never goes back.

If nothing of it has landed, the run itself begins there again. Otherwise a new run begins, at the commit before the
first landing that is to be redone, and the old run is abandoned with everything it has.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from holdfast.agents.consent import consent_digest
from holdfast.agents.presets import presets_of
from holdfast.core import events as ev
from holdfast.core.facts import Facts
from holdfast.core.ids import ALL_RUN_BRANCHES, ALL_RUN_REFS
from holdfast.core.plan import Plan
from holdfast.core.projection import RunRow
from holdfast.core.status import RUN_IS_OVER, RunStatus, StageStatus, TaskStatus
from holdfast.core.user_decisions import (
    RewindScope,
    first_redone,
    remaining_plan,
    rewind_events,
    rewind_scope,
)
from holdfast.errors import HoldfastError, did_you_mean, quoted
from holdfast.journal.maintenance import back_up
from holdfast.journal.protocol import Journal, JournalReader, StoredRun
from holdfast.repo.files import write_durably
from holdfast.repo.landing import first_parents
from holdfast.repo.refs import list_refs
from holdfast.repo.repository import Repository
from holdfast.runner.context import Observer
from holdfast.runner.decisions.user_decisions import (
    abandon,
    record_decision,
    require_possible,
    stop_leftover_agents,
)
from holdfast.runner.recovery.facts import gather_facts, require_own_branch
from holdfast.runner.session import create_run, unfinished_run
from holdfast.runner.store_choice import chosen_store


def back_up_state(repo: Repository) -> Path:
    """Copy the journal and list the refs under a new name; return the copy. Nothing is ever overwritten."""
    stamp = f"{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}"
    copy = repo.state_dir.backups / f"{stamp}-journal.db"
    back_up(chosen_store(repo.state_dir, repo.id), copy)
    refs = list_refs(repo, ALL_RUN_BRANCHES, ALL_RUN_REFS)
    listing = "".join(f"{commit} {ref}\n" for ref, commit in refs.items())
    write_durably(repo.state_dir.backups / f"{stamp}-refs.txt", listing.encode("utf-8", "surrogateescape"))
    return copy


def require_resettable(stored: StoredRun, task: str) -> None:
    """Raise HoldfastError if a task cannot begin again. What a dead runner left at work is stopped first, and may be."""
    run = stored.row.run
    if stored.state().tasks[task].status is TaskStatus.COMPLETED:
        raise HoldfastError(
            f"task {task} has landed, and the run branch never goes back",
            f"`holdfast resume {run} --from {task}` begins again there in a new run",
        )
    if stored.row.status is not RunStatus.RUNNING:
        require_possible(stored, ev.TaskRewound(task=task))


def reset_task(repo: Repository, journal: Journal, run: str, task: str, observer: Observer) -> None:
    """Let a task begin again from a clean start, with all its attempts. What it did before stays at its refs.

    Idempotent. Raises HoldfastError if the task has landed, LeaseHeldError if a runner lives.
    """
    stop_leftover_agents(repo, journal, run, observer)
    require_resettable(journal.load(run), task)  # it may have landed meanwhile
    record_decision(repo, journal, run, ev.TaskRewound(task=task))


@dataclass(frozen=True, slots=True)
class Rewind:
    """What beginning again would mean. `plan` is that of a new run, or None if the run itself begins again."""

    run: str
    at: str
    scope: RewindScope
    landed: tuple[str, ...] = ()
    plan: Plan | None = None
    accepted_tip: str = ""

    @property
    def redone(self) -> tuple[str, ...]:
        """The tasks that will be worked on: in a new run, all that is left of the plan."""
        return self.scope.tasks if self.plan is None else tuple(task.id for _, task in self.plan.tasks())


def plan_rewind(
    repo: Repository, journal: JournalReader, run: str, at: str, accepted_tip: str = ""
) -> Rewind:
    """Work out what beginning again at a stage or a task means. Changes nothing.

    Raises ForeignCommitsError if the run branch holds commits of others, unless the user accepts it at this tip.
    """
    stored = journal.load(run)
    scope = rewind_scope(stored.plan, at)
    if scope is None:
        names = [stage.id for stage in stored.plan.stages] + [task.id for _, task in stored.plan.tasks()]
        raise HoldfastError(
            f"run {run} has no stage or task {quoted(at)}{did_you_mean(at, names)}",
            f"`holdfast status {run}` lists them",
        )
    state = stored.state()
    facts = gather_facts(repo, state, journal.events(run), {}, ())
    require_own_branch(state.row, facts, accepted_tip)
    line, places, adopted = _places(repo, state.row, facts)
    first = first_redone(places, scope)
    if first is None and stored.row.status not in RUN_IS_OVER:
        return Rewind(run, at, scope, accepted_tip=accepted_tip)
    first = len(line) if first is None else first
    # Adopted work lies below the base: it stays valid wherever the run begins again.
    stands = {name for name, place in places.items() if place < first} | (adopted - set(scope.tasks))
    landed = tuple(name for name in state.names if name in places and name not in stands)
    start = line[first - 1] if first else stored.row.base
    return Rewind(run, at, scope, landed, _what_is_left(stored, scope, stands, start), accepted_tip)


def rewind_run(repo: Repository, journal: Journal, rewind: Rewind, observer: Observer) -> str:
    """Begin again as planned, and return the run to execute: the same one, or a new one.

    Safe to repeat after a crash: it finds the run it made before. Raises LeaseHeldError if a runner lives.
    """
    if stop_leftover_agents(repo, journal, rewind.run, observer):
        # Work under way may have landed.
        rewind = plan_rewind(repo, journal, rewind.run, rewind.at, rewind.accepted_tip)
    if rewind.plan is None:
        stored = journal.load(rewind.run)
        events = rewind_events(stored.state(), rewind.scope)
        if events:
            record_decision(repo, journal, rewind.run, *events)
        return rewind.run
    # A kill may have come before the old run was abandoned: then the new one exists, with the same plan and base.
    made = unfinished_run(journal, rewind.plan, "")
    new = made.row.run if made else _create(repo, journal, rewind.run, rewind.plan)
    abandon(repo, journal, rewind.run, observer, f"begun again at {rewind.at} as {new}")
    return new


def _places(repo: Repository, row: RunRow, facts: Facts) -> tuple[list[str], dict[str, int], set[str]]:
    """Return the first-parent line of the run branch, where on it each landed task is, and which were adopted."""
    branch = facts.branch
    line = first_parents(repo, row.base, branch.tip)
    at = {commit: place for place, commit in enumerate(line)}
    places = {landing.task: at[landing.commit] for landing in branch.landings}
    places |= {name: at[same.commit] for name, same in facts.equivalents.items()}
    return line, places, {landing.task for landing in branch.landings if landing.adopted}


def _what_is_left(stored: StoredRun, scope: RewindScope, stands: set[str], start: str) -> Plan:
    skipped = {
        task.id for task in stored.tasks if task.status is TaskStatus.SKIPPED and task.id not in scope.tasks
    }
    closed = {name for name, row in stored.row.stages.items() if row.status is StageStatus.COMPLETED}
    plan = remaining_plan(stored.plan, stands | skipped, closed - set(scope.stages))
    return msgspec.structs.replace(plan, base=start)


def _create(repo: Repository, journal: Journal, old: str, plan: Plan) -> str:
    """Make the new run. If the user agreed to the old plan, that covers this one, which is a part of it."""
    stored = journal.load(old)
    row, presets = stored.row, presets_of(repo.checkout)
    if journal.is_confirmed(consent_digest(stored.plan, presets)):
        journal.confirm_plan(consent_digest(plan, presets), time.time())
    return create_run(repo, journal, plan, row.plan_source, row.target)
