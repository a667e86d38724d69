"""A run as writers of native files see it: rows, wall-clock times, the files of each landing. Read-only."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded
from holdfast.core.projection import Origin, RunRow, TaskRow
from holdfast.errors import HoldfastError
from holdfast.formats.exported_run import ExportedRun, NativeFile, NativeRecord, Times
from holdfast.formats.model import format_of
from holdfast.formats.registry import System
from holdfast.journal.protocol import JournalReader, StoredRun
from holdfast.repo.commit_contents import files_changed_by
from holdfast.repo.repository import Repository
from holdfast.repo.run_record import read_origin

_ENDS = ev.TaskLanded | ev.TaskAbandoned | ev.TaskSkipped
_REOPENS = ev.TaskRetried | ev.TaskRewound | ev.LandingVanished


def foreign_name(row: RunRow, system: System) -> str:
    """Return a run's name in the other system: the one it was adopted under, else its own id."""
    return row.origin.name if row.origin is not None and row.origin.system == system else row.run


class RunRenderer:
    """Renders one run. It reads on in the journal where it stopped: a second call costs only what is new."""

    def __init__(self, repo: Repository, journal: JournalReader, run: str) -> None:
        self.repo = repo
        self._journal = journal
        self.run = run
        self._seen = 0
        self._tasks: dict[str, Times] = {}
        self._stages: dict[str, Times] = {}
        self._files: dict[str, tuple[str, ...]] = {}
        self._published: dict[str, float] = {}
        self._origin: Origin | None = None
        self._originals: dict[str, bytes] | None = None

    def native_files(self, system: System, *, live: bool) -> list[NativeFile]:
        """Return the run in a system's own files, as it is at this moment."""
        stored = self._journal.load(self.run)
        return format_of(system).write(self._view(stored, system, live=live), self.originals(system))

    def native_records(self, system: System, owner: str, *, live: bool) -> list[NativeRecord]:
        """Return the run in the records that a system keeps in a server, as it is at this moment."""
        server = format_of(system).server
        if server is None:
            raise HoldfastError(
                f"{system} keeps its state in files, not in a server", "name a folder of the project"
            )
        stored = self._journal.load(self.run)
        return server.write(self._view(stored, system, live=live), self.originals(system), owner)

    def originals(self, system: System) -> dict[str, bytes]:
        """Return the files that the run was adopted from, the state file first; none if it came from elsewhere."""
        if self._originals is None:
            origin = self._journal.load(self.run).row.origin
            kept = read_origin(self.repo, self.run).documents if origin is not None else {}
            names = sorted(kept, key=lambda path: (origin is None or path != origin.main, path))
            self._origin, self._originals = origin, {path: kept[path] for path in names}
        is_theirs = self._origin is not None and self._origin.system == system
        return self._originals if is_theirs else {}

    def _view(self, stored: StoredRun, system: System, *, live: bool) -> ExportedRun:
        row = stored.row
        self._read_on(self._journal.events(self.run, after=self._seen, upto=stored.last_seq))
        tasks = {task.id: self._shown(task) for task in stored.state().tasks.values()}
        return ExportedRun(
            plan=stored.plan,
            row=row,
            tasks=tasks,
            name=foreign_name(row, system),
            project=str(self.repo.checkout),
            started=stored.started_at,
            updated=stored.updated_at,
            written_at=time.time(),
            live=live,
            task_times=dict(self._tasks),
            stage_times=dict(self._stages),
            files=self._files_of(tasks.values(), row),
            published=dict(self._published),
        )

    def _shown(self, task: TaskRow) -> TaskRow:
        """Return a task with its own proving commit, if the branch has only the adoption commit for it."""
        if task.id in self._tasks or not task.merge_commit:
            return task
        return msgspec.structs.replace(task, merge_commit=task.latest.head)

    def _files_of(self, tasks: Iterable[TaskRow], row: RunRow) -> dict[str, tuple[str, ...]]:
        commits = {task.id: task.merge_commit for task in tasks if task.merge_commit}
        unknown = [commit for commit in commits.values() if commit not in self._files and commit != row.base]
        gone = self.repo.missing(unknown)
        self._files |= files_changed_by(self.repo, [commit for commit in unknown if commit not in gone])
        return {name: self._files.get(commit, ()) for name, commit in commits.items()}

    def _read_on(self, recorded: Iterable[Recorded]) -> None:
        for record in recorded:
            self._note(record.event, record.at)
            self._seen = record.seq

    def _note(self, event: ev.Event, at: float) -> None:
        """Note when something began or ended. Work from before the adoption has no times."""
        if isinstance(event, ev.AttemptStarted):
            times = self._tasks.get(event.task, Times(started=at))
            self._tasks[event.task] = Times(started=times.started)
        elif isinstance(event, _ENDS) and event.task in self._tasks:
            self._tasks[event.task] = Times(started=self._tasks[event.task].started, ended=at)
        elif isinstance(event, _REOPENS) and event.task in self._tasks:
            self._tasks[event.task] = Times(started=self._tasks[event.task].started)
        elif isinstance(event, ev.InterfacePublished):
            self._published[event.task] = at
        elif isinstance(event, ev.StageOpened):
            self._stages.setdefault(event.stage, Times(started=at))
        elif isinstance(event, ev.StageClosed):
            self._stages[event.stage] = Times(
                started=self._stages.get(event.stage, Times()).started, ended=at
            )
        elif isinstance(event, ev.StageRewound):
            self._stages.pop(event.stage, None)
