"""Gathering what the recovery report is made from: journal, git, workspaces and processes. Changes nothing."""

from __future__ import annotations

from holdfast.core.recovery_report import RecoveryReport, Seen, recovery_report
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.fleet.local import LocalFleet
from holdfast.journal.protocol import JournalReader, StoredRun
from holdfast.repo.repository import Repository
from holdfast.repo.snapshots import unsaved_files
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.forecast import forecast
from holdfast.runner.traces import agent_traces


def outlook(repo: Repository, fleet: LocalFleet, journal: JournalReader, run: str) -> RecoveryReport:
    """Return the recovery report of a run as it is at this moment."""
    stored = journal.load(run)
    forecasts = forecast(repo, fleet, journal.load(run))  # It uses up what it is given.
    seen = _seen(repo, fleet, stored)
    recorded = journal.events(run, upto=stored.last_seq)
    return recovery_report(RunState(stored.plan, stored.row, stored.tasks), forecasts, seen, recorded)


def _seen(repo: Repository, fleet: LocalFleet, stored: StoredRun) -> dict[str, Seen]:
    workspaces = Workspaces(repo, repo.state.run(stored.row.run).workspaces)
    heard = agent_traces(fleet, stored)
    # Whenever something was recorded a runner was watching, so the agent was alive then.
    watched = stored.updated_at
    return {
        task.id: Seen(
            unsaved_files(repo, workspaces.get(str(task.slot)), task.wip or task.start),
            max(heard[task.id], watched),
        )
        for task in stored.tasks
        if task.status is TaskStatus.RUNNING
    }
