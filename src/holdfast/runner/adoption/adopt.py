"""Makes a Holdfast run of what another system left. Safe to repeat after a crash: completes the same run.

The order: the run exists, marked as being adopted; unfinished work is kept at refs; one commit on the run branch says
what is done; the originals are kept; and one append records everything and removes the mark.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace

import msgspec

from holdfast.core import events as ev
from holdfast.core.adoption import attempts_of, inherited_events, prepare_plan
from holdfast.core.event_codec import storable
from holdfast.core.ids import cut_short_ref
from holdfast.core.plan import AgentSpec, Plan
from holdfast.core.plan_rules import broken_rules
from holdfast.core.projection import Origin, RunRow
from holdfast.core.status import RUN_IS_OVER, RunStatus
from holdfast.errors import PlanError
from holdfast.formats.model import ForeignRun
from holdfast.journal.lease import Lease
from holdfast.journal.protocol import Journal, JournalReader, StoredRun
from holdfast.repo.debris import clear_debris
from holdfast.repo.landing import move_branch
from holdfast.repo.repository import Repository
from holdfast.repo.run_record import FinishedTask, commit_adoption, keep_origin
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.adoption.assessment import AdoptionOptions, Assessment, assess
from holdfast.runner.adoption.unfinished_work import save_unfinished_work
from holdfast.runner.amendments import keep_plan
from holdfast.runner.session import create_run


def adopted_before(journal: JournalReader, digest: str) -> RunRow | None:
    """Return the run that exactly these files were adopted as, even if that adoption was cut short."""
    rows = [listing.row for listing in journal.runs() if listing.row.status is not RunStatus.ABANDONED]
    same = [row for row in rows if digest in (row.adopting, row.origin.digest if row.origin else "")]
    return same[-1] if same else None


def adopted_earlier(journal: JournalReader, foreign: ForeignRun) -> RunRow | None:
    """Return the unfinished run that was adopted from the same place when it held something else."""
    rows = [listing.row for listing in journal.runs() if listing.row.status not in RUN_IS_OVER]
    return next((row for row in reversed(rows) if row.origin and _is_from(row.origin, foreign)), None)


def plan_of(assessment: Assessment, agent: str, agents: dict[str, AgentSpec], known: Sequence[str]) -> Plan:
    """Return the plan that the run gets: theirs, with the user's agent and the commit to continue from.

    Raises PlanError if the files give no valid plan.
    """
    plan = prepare_plan(
        assessment.foreign.plan, assessment.foreign.claims, assessment.judged, assessment.missing
    )
    plan = msgspec.structs.replace(plan, base=assessment.base, agent=agent, agents={**plan.agents, **agents})
    broken = next(broken_rules(plan, known), None)
    if broken is not None:
        place = ".".join(map(str, broken.at))
        raise PlanError(
            f"no sound plan could be made of {assessment.foreign.main}: {place}: {broken.what}",
            "`holdfast adopt --dry-run` shows what was read",
        )
    return plan


def adopt(
    repo: Repository,
    journal: Journal,
    assessment: Assessment,
    options: AdoptionOptions,
    plan: Plan,
    source: str,
    known: Collection[str] | None = None,
) -> str:
    """Make a run from a foreign one and return its id. Safe to repeat after a crash. `known`: as in `create_run`.

    Raises LeaseHeldError if another process does that now.
    """
    row = adopted_before(journal, assessment.digest)
    if row is not None and row.adopting:
        run = row.run
        # Judged by the commit that the run was begun from, even if the branches have moved since.
        assessment = assess(repo, assessment.foreign, replace(options, base=row.base))
    else:
        run = create_run(repo, journal, plan, source, adopting=assessment.digest, known=known)
    directory = repo.state_dir.run(run)
    with Lease.acquire(directory.lease) as lease:
        stored = journal.load(run)
        if stored.row.adopting:
            clear_debris(repo, Workspaces(repo, directory.workspaces))
            keep_plan(repo, journal, run, stored.plan)
            _take_in(repo, journal, lease, stored, assessment)
    return run


def _take_in(
    repo: Repository, journal: Journal, lease: Lease, stored: StoredRun, assessment: Assessment
) -> None:
    """Record everything about the foreign run in git, then in the journal with one append."""
    foreign, row = assessment.foreign, stored.row
    state = stored.state()
    clean = frozenset(name for name, task in state.tasks.items() if state.starts_clean(task))
    work = save_unfinished_work(repo, row.run, row.base, assessment.unfinished)
    for claim in foreign.claims:
        if claim.task in work and claim.task in clean:
            repo.keep(cut_short_ref(row.run, claim.task, attempts_of(claim)), work[claim.task].commit)
    limits = {name: state.limits_of(name).attempts for name in state.names}
    inherited = [
        ev.RunAdopted(system=foreign.system, name=foreign.name, main=foreign.main, digest=assessment.digest),
        *inherited_events(foreign.claims, assessment.judged, work, limits, clean),
    ]
    events = [storable(event) for event in inherited]
    # The branch goes first: a run with its origin in git counts as adopted, so nothing else may be missing by then.
    landed = _landings(repo, row, assessment)
    keep_origin(repo, row.run, events, foreign.documents)
    events += landed
    state.apply_all(events)
    epoch = journal.take_epoch(row.run, lease.holder)
    journal.append(row.run, epoch, events, state.row, state.take_changed(), time.time())


def _landings(repo: Repository, row: RunRow, assessment: Assessment) -> list[ev.Event]:
    """Put the commit on the run branch that says what is done, and return what it proves."""
    claims = {claim.task: claim for claim in assessment.foreign.claims}
    finished = [
        FinishedTask(name, max(1, attempts_of(claims[name])), assessment.judged[name].evidence)
        for name in assessment.finished
    ]
    if not finished:
        return []
    foreign = assessment.foreign
    noun = "task" if len(finished) == 1 else "tasks"
    # The name comes from outside: nothing in it may break the line or look like a trailer.
    name = "".join(char if char.isprintable() else " " for char in foreign.name)
    subject = f"Adopt {len(finished)} finished {noun} of {foreign.system} {name}"
    commit = commit_adoption(repo, row.base, row.run, subject, finished)
    move_branch(repo, row.branch, commit, repo.read_ref(row.branch))
    return [
        ev.TaskLanded(task=one.task, attempt=one.attempts, commit=commit, head=one.evidence)
        for one in finished
    ]


def _is_from(origin: Origin, foreign: ForeignRun) -> bool:
    return (origin.system, origin.name, origin.main) == (foreign.system, foreign.name, foreign.main)
