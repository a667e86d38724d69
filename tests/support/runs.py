"""A real repository, a real plan, a real run: what most tests of the runner use. Tasks are shell one-liners."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from holdfast.agents.consent import consent_digest
from holdfast.agents.presets import presets_of
from holdfast.core import events as ev
from holdfast.core.facts import BranchFacts
from holdfast.core.invariants import Evidence, Violation, commits_to_keep, fold_violations, violations
from holdfast.core.plan import Plan
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import Fleet
from holdfast.journal import open_journal
from holdfast.journal.protocol import Journal, StoredRun
from holdfast.plans.reader import parse_plan
from holdfast.process.procfs import open_carriers
from holdfast.repo.landing import branch_facts
from holdfast.repo.repository import Repository
from holdfast.reporting.recovery_report import TaskRecovery
from holdfast.runner.recovery.resume_preview import preview_resume
from holdfast.runner.session import RunOptions, create_run, execute_run
from holdfast.runner.store_choice import chosen_store
from tests.support.preloaded_command import ForkedProcess, preloaded_command
from tests.support.repositories import Project

DEADLINE_S = 30.0


def sh(task: str, script: str, **more: Any) -> dict[str, Any]:
    """Return a task whose agent is a shell script."""
    return {"id": task, "run": ["sh", "-c", script], **more}


def stage(name: str, *tasks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a stage of tasks."""
    return {"id": name, "tasks": list(tasks), **more}


@dataclass(slots=True)
class Trial:
    """One run of one plan in one repository, executed as often as a test likes."""

    project: Project
    run: str
    events: list[ev.Event] = field(default_factory=list)

    @classmethod
    def of(cls, project: Project, *stages: dict[str, Any], **plan: Any) -> Trial:
        """Make a run of a plan with these stages, without starting it."""
        document = {"holdfast": 1, "goal": "Try it", "stages": list(stages), **plan}
        return cls.of_plan(project, parse_plan(msgspec.json.encode(document), "plan.json", []))

    @classmethod
    def of_plan(cls, project: Project, plan: Plan) -> Trial:
        """Make a run of a plan that the user agrees to, without starting it."""
        repo = project.open()
        with open_project_journal(repo) as journal:
            journal.confirm_plan(consent_digest(plan, presets_of(repo.checkout)), time.time())
            return cls(project, create_run(repo, journal, plan, "plan.json"))

    def execute(self, fleet: Fleet | None = None, **choices: Any) -> RunStatus:
        """Execute the run in this process until it rests, with the project's fleet or another one."""
        repo = self.project.open()
        with open_project_journal(repo) as journal:
            return execute_run(repo, journal, self.run, RunOptions(**choices), self._observe, fleet)

    def _observe(self, events: Sequence[ev.Event], _state: RunState) -> None:
        self.events.extend(events)

    def stored(self) -> StoredRun:
        """Return the run as the journal has it."""
        with open_project_journal(self.project.open()) as journal:
            return journal.load(self.run)

    def state(self) -> RunState:
        """Return the run's state as the journal has it."""
        stored = self.stored()
        return stored.state()

    def status_of(self, task: str) -> str:
        """Return a task's status."""
        return str(self.state().tasks[task].status)

    def facts(self) -> BranchFacts:
        """Return what git shows of the run branch."""
        row = self.stored().row
        return branch_facts(self.project.open(), row.branch, row.base, self.run)

    def preview(self) -> dict[str, TaskRecovery]:
        """Return what resuming the run now would do to each task."""
        repo = self.project.open()
        with open_project_journal(repo) as journal:
            report = preview_resume(repo, open_fleet(repo.state_dir.fleet), journal, self.run, RunOptions())
        return {task.id: task for task in report.tasks}

    def landed(self) -> list[str]:
        """Return the tasks that landed, in order, as git proves it."""
        return [landing.task for landing in self.facts().landings]

    def show(self, path: str) -> str:
        """Return a file of the run branch."""
        return self.project.git("show", f"holdfast/{self.run}:{path}")

    def brief(self, task: str, attempt: int) -> str:
        """Return the brief that an attempt was given."""
        folder = self.project.open().state_dir.run(self.run).attempts
        return (folder / task / str(attempt) / "brief.md").read_text()

    def of_kind(self, kind: type[ev.Event]) -> list[Any]:
        """Return the events of one kind that this trial saw."""
        return [event for event in self.events if isinstance(event, kind)]

    def recorded(self, kind: type[ev.Event]) -> list[Any]:
        """Return the events of one kind in the journal, whichever runner wrote them."""
        with open_project_journal(self.project.open()) as journal:
            return [stored.event for stored in journal.events(self.run) if isinstance(stored.event, kind)]

    def violations(self) -> list[Violation]:
        """Return the invariants that the run at rest violates."""
        repo, stored, state = self.project.open(), self.stored(), self.state()
        with open_project_journal(repo) as journal:
            recorded = list(journal.events(self.run))
        evidence = Evidence(
            settled=True, branch=self.facts(), missing_commits=repo.missing(sorted(commits_to_keep(state)))
        )
        return violations(state, evidence) + fold_violations(
            stored.first_plan, recorded, stored.row, stored.tasks
        )


@contextmanager
def open_project_journal(repo: Repository) -> Iterator[Journal]:
    """Open the project's journal and close it after use."""
    with closing(open_journal(chosen_store(repo.state_dir, repo.id))) as journal:
        yield journal


class Fifo:
    """A FIFO between a test and an agent: the agent says that it got there, or waits until it may go on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    @property
    def give(self) -> str:
        """Shell text with which an agent reports."""
        return f"echo $$ > {self.path}"

    @property
    def take(self) -> str:
        """Shell text with which an agent waits."""
        return f"read _ < {self.path}"

    def wait(self, patience_s: float = DEADLINE_S) -> str:
        """Wait until an agent reported and return what it said. Reports of several agents are taken one by one."""
        said = b""
        while not said.endswith(b"\n"):
            ready, _, _ = select.select([self._fd], [], [], patience_s)
            assert ready, f"nobody wrote to {self.path}"
            said += os.read(self._fd, 1)
        return said.decode().strip()

    def release(self, count: int = 1) -> None:
        """Let `count` waiting agents go on."""
        os.write(self._fd, b"go\n" * count)


def start_runner(trial: Trial, *, in_another_boot: bool = False) -> ForkedProcess:
    """Execute a run in its own process, which a test may kill; if told so, as if before the last reboot."""
    reboot = "from tests.crash.planted_bugs import REBOOTED, plant; plant(REBOOTED);"
    program = reboot * in_another_boot + (
        "import sys; from pathlib import Path; from tests.support.runs import Trial; from tests.support.repositories import Project;"
        "print(Trial(Project(Path(sys.argv[1])), sys.argv[2]).execute())"
    )
    root = Path(__file__).parents[2]
    words = (str(trial.project.path), trial.run)
    return preloaded_command().start(root, words, os.environ, program, told=True)


def kill(runner: ForkedProcess) -> None:
    """Kill a runner the hard way and wait until it is gone."""
    runner.kill()
    runner.communicate(timeout=DEADLINE_S)


def kill_everything(trial: Trial, runner: ForkedProcess) -> None:
    """Do to the run's processes what a power cut does: runner, supervisors and agents, all at once."""
    state = trial.state()
    tokens = frozenset(task.latest.token for task in state.active.values())
    folder = trial.project.open().state_dir.run(trial.run).attempts
    records = folder.glob("*/*/*/supervisor.json")
    supervisors = [holder_pid(path) for path in records if not path.with_name("exit.json").exists()]
    kill(runner)
    for pid in supervisors:
        os.kill(pid, signal.SIGKILL)
    for fd in open_carriers(tokens).values():
        with suppress(ProcessLookupError):  # what is in a sandbox dies with the one that was killed before
            signal.pidfd_send_signal(fd, signal.SIGKILL)
        os.close(fd)


def holder_pid(path: Path) -> int:
    """Return the pid that a supervisor wrote into its record."""
    return int(json.loads(path.read_text())["pid"])
