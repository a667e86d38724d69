"""What `doctor` needs: evidence for a run's invariants, and the removal of what killed git commands left."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded, decode_event
from holdfast.core.facts import BranchFacts
from holdfast.core.invariants import (
    Evidence,
    LiveAttempt,
    Violation,
    commits_to_keep,
    fold_violations,
    replacements,
    seen_broken,
    violations,
)
from holdfast.core.plan import Plan, plan_hash
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import AGENT_STEP, LaunchKey
from holdfast.journal.lease import Lease, holder
from holdfast.journal.protocol import JournalReader
from holdfast.repo.blocking_files import remove_blocking_git_files
from holdfast.repo.debris import clear_debris, fsck_errors, remove_stale_locks, stale_locks
from holdfast.repo.discovery import git_dirs_around
from holdfast.repo.files import remove_if_allowed
from holdfast.repo.git_settings import new_settings
from holdfast.repo.refs import recorded_runs
from holdfast.repo.repository import Repository
from holdfast.repo.run_record import read_record
from holdfast.repo.torn_indexes import replace_torn_indexes, torn_indexes
from holdfast.repo.torn_objects import remove_torn_objects
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.recovery.facts import gather_facts


def examine_repository(repo: Repository) -> list[Violation]:
    """Judge what belongs to no run: git's objects and refs as a whole, torn indexes, and locks that nobody holds."""
    torn = tuple(map(str, torn_indexes(repo)))
    return list(
        seen_broken(Evidence(fsck_errors=fsck_errors(repo), stale_locks=stale_locks(repo), torn_indexes=torn))
    )


def unblock_git(start: Path) -> list[str]:
    """Remove what git would wait for in the git directory around `start`, before git is asked anything.

    Returns a sentence for each. Idempotent.
    """
    return [said for folder in git_dirs_around(start) for said in remove_blocking_git_files(folder)]


def settings_since(repo: Repository, journal: JournalReader, run: str) -> list[str]:
    """Return the git settings, hooks and branches that entered the repository after a run began, by whomever."""
    first = next(iter(journal.events(run, upto=1)), None)
    if first is None or not isinstance(first.event, ev.RunStarted) or not first.event.git_settings:
        return []
    return new_settings(repo, first.event.git_settings)


def settings_since_here(repo: Repository, journal: JournalReader, run: str) -> list[str]:
    """Return the same for people. Of a run in a server that began in another clone nobody can tell: that one has settings of its own."""
    if journal.durability is not None and run not in recorded_runs(repo):
        return []
    return settings_since(repo, journal, run)


def runs_missing_in_journal(repo: Repository, journal: JournalReader | None) -> list[str]:
    """Return the runs that git knows and the journal does not: it was lost, and something wrote a new one."""
    known = {listing.row.run for listing in journal.runs()} if journal is not None else set()
    return [run for run in recorded_runs(repo) if run not in known]


def lost_run_of(repo: Repository, missing: Iterable[str], plan: Plan, source: str) -> str:
    """Return the latest run of a plan, or of its file, among those that only git knows; empty if there is none.

    `source` is the file as a run remembers it; empty for a plan that is in no file.
    """
    for run in sorted(missing, reverse=True):
        record = read_record(repo, run)
        started = decode_event(record[1]) if record is not None else None
        if isinstance(started, ev.RunStarted) and (
            started.plan_hash == plan_hash(plan) or started.plan_source == source != ""
        ):
            return run
    return ""


def examine_run(repo: Repository, journal: JournalReader, run: str) -> list[Violation]:
    """Judge one run by all available evidence. Changes nothing.

    After an interrupted adoption git may know more than the journal, until `adopt` completes it.
    """
    stored = journal.load(run)
    recorded = list(journal.events(run, upto=stored.last_seq))
    state = stored.state()
    found = [] if stored.row.adopting else violations(state, _evidence(repo, state, recorded))
    return found + fold_violations(stored.first_plan, recorded, stored.row, stored.tasks)


def fix_run(repo: Repository, journal: JournalReader, run: str) -> list[str]:
    """Clear what killed git commands left of a run, under its lease; return a sentence for each thing done.

    Workspaces in which an agent still works are left alone. Idempotent.
    """
    directory = repo.state_dir.run(run)
    with Lease.acquire(directory.lease):
        workspaces = {
            (task.id, task.attempt): str(task.latest.workspace_number) for task in journal.load(run).tasks
        }
        alive = [(key.owner, key.attempt) for key in open_fleet(repo.state_dir.fleet).live_launches(run)]
        in_use = [workspaces[owner] for owner in alive if owner in workspaces]
        pool = Workspaces(repo, directory.workspaces)
        aside = [
            f"Removed {path}, left of a workspace." for path in pool.undeletable() if remove_if_allowed(path)
        ]
        return [*aside, *clear_debris(repo, pool, in_use)]


def fix_repository(repo: Repository) -> list[str]:
    """Remove what a power cut left of objects and indexes, whoever wrote them, and locks that no git holds.

    Returns a sentence for each. Idempotent.
    """
    removed = remove_torn_objects(repo.common_dir, thorough=True)
    return [*removed, *replace_torn_indexes(repo), *remove_stale_locks(repo)]


def _evidence(repo: Repository, state: RunState, recorded: Sequence[Recorded]) -> Evidence:
    row = state.row
    alive = open_fleet(repo.state_dir.fleet).live_launches(row.run)
    # Agents may outlive a runner that died: `resume` re-attaches them. Once the run rests, nothing may live.
    at_rest = row.status is not RunStatus.RUNNING and holder(repo.state_dir.run(row.run).lease) is None
    facts = gather_facts(repo, state, recorded, {}, commits_to_keep(state))
    branch = facts.branch if facts.branch_exists else None
    return Evidence(
        settled=at_rest,
        branch=branch,
        lost_tips=tuple(_outside(repo, [row.tip], branch)),
        prepared=_prepared(recorded),
        once_skipped=frozenset(r.event.task for r in recorded if isinstance(r.event, ev.TaskSkipped)),
        missing_commits=facts.missing_commits,
        off_branch=frozenset(_outside(repo, replacements(state), branch)),
        live=tuple(LiveAttempt(key.owner, key.attempt) for key in alive if key.step == AGENT_STEP),
        live_without_runner=tuple(map(_name, alive)) if at_rest else (),
    )


def _outside(repo: Repository, commits: Iterable[str], branch: BranchFacts | None) -> list[str]:
    """Return the commits that the run branch does not contain. An archived branch lost nothing."""
    return [commit for commit in commits if branch and not repo.is_ancestor(commit, branch.tip)]


def _prepared(recorded: Sequence[Recorded]) -> frozenset[str]:
    """Return the merges that were checked before they landed, or that the user accepted.

    What a rebuilt journal read from git counts as checked.
    """
    rebuilt = max((r.seq for r in recorded if isinstance(r.event, ev.RunRestored)), default=0)
    return frozenset(
        r.event.commit
        for r in recorded
        if isinstance(r.event, ev.MergePrepared | ev.BranchMoved)
        or (isinstance(r.event, ev.TaskLanded) and r.seq < rebuilt)
    )


def _name(key: LaunchKey) -> str:
    return f"{key.step} of {key.owner}, attempt {key.attempt}"
