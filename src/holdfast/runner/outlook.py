"""Gathering what the recovery report is made from: journal, git, workspaces and processes. Changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import events as ev
from holdfast.core.recovery_report import RecoveryReport, Seen, recovery_report
from holdfast.core.state import RunState
from holdfast.core.status import TaskStatus
from holdfast.fleet.local import LocalFleet
from holdfast.journal.protocol import JournalReader, StoredRun
from holdfast.repo.repository import Repository
from holdfast.repo.snapshots import unsaved_files
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.forecast import forecast
from holdfast.runner.session import Choices
from holdfast.runner.steering import decided
from holdfast.runner.traces import agent_traces


def outlook(
    repo: Repository,
    fleet: LocalFleet,
    journal: JournalReader,
    run: str,
    choices: Choices,
    decisions: Sequence[ev.AnyEvent] = (),
) -> RecoveryReport:
    """Return the recovery report of a run as it is at this moment.

    What resuming does is worked out for these choices, after what the user decides along with them.
    """
    stored = journal.load(run)
    state = RunState(stored.plan, stored.row, stored.tasks)
    state.jobs = choices.jobs or state.jobs
    future = decided(journal.load(run), *decisions)
    if choices.only is not None:
        future.restrict(choices.only)
    forecasts = forecast(repo, fleet, future)
    recorded = journal.events(run, upto=stored.last_seq)
    return recovery_report(state, forecasts, _seen(repo, fleet, stored), recorded)


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
