"""The trial of an agent: one tiny task in a scratch repository, done the way of every run, and how its one attempt ended.

The trial is a whole run with a journal and a supervisor. It rests as soon as the attempt has ended: nothing is tried twice,
and no limit is waited for. The caller makes the folder and removes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from holdfast.agents.consent import consent_digest
from holdfast.agents.presets import Preset, Presets
from holdfast.agents.streams.close_reading import CloseReading, read_closely
from holdfast.core import events as ev
from holdfast.core.outcome import OutcomeKind
from holdfast.core.plan import Limits, Plan, Stage, Task
from holdfast.core.state import RunState
from holdfast.core.status import FailureKind, ParkReason, RunStatus
from holdfast.errors import HoldfastError
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import AGENT_STEP, LaunchKey
from holdfast.journal import open_journal
from holdfast.journal.protocol import Journal
from holdfast.repo.discovery import create_repository
from holdfast.repo.repository import Repository
from holdfast.runner.requests import Request, send_request
from holdfast.runner.sandbox_setting import SandboxRequest
from holdfast.runner.session import RunOptions, create_run, execute_run

LINE = "hello from holdfast"
_FILE, _TASK = "hello.txt", "hello"
_TIMEOUT_S, _STALL_S = 900.0, 300.0
_NEVER_AGAIN_S = 3600.0
_PROMPT = f"Create the file {_FILE} in the current folder, with exactly this one line in it:\n\n{LINE}\n\nDo nothing else."
_STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class TrialOrder:
    """Whom to try, under which name, and what of the user's plan counts for it: variables, sandbox and network."""

    name: str
    agent: Preset
    settings: Plan
    sandbox: SandboxRequest = field(default_factory=SandboxRequest)

    def plan(self) -> Plan:
        """Return the plan of the trial."""
        task = Task(id=_TASK, title="Write one line", prompt=_PROMPT, files=(_FILE,))
        limits = Limits(
            jobs=1,
            attempts=1,
            timeout_s=_TIMEOUT_S,
            stall_s=_STALL_S,
            retry_delay_s=_NEVER_AGAIN_S,
            on_limit="stop",
        )
        return Plan(
            goal=f"Try {self.name}",
            agent=self.name,
            limits=limits,
            sandbox=self.settings.sandbox,
            network=self.settings.network,
            pass_env=self.settings.pass_env,
            verify=(f"grep -qx '{LINE}' {_FILE}",),
            stages=(Stage(id="try", tasks=(task,)),),
        )


@dataclass(frozen=True, slots=True)
class TrialEnd:
    """How the attempt ended: an `OutcomeKind`, or `stopped`; the kind of failure, and why, in words."""

    outcome: str
    failure: str = ""
    why: str = ""
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class TriedAgent:
    """What a trial showed: its end, what was read of the stream, and the stream itself."""

    end: TrialEnd
    reading: CloseReading
    output: bytes


def try_agent(folder: Path, order: TrialOrder) -> TriedAgent:
    """Make a repository in an empty folder and let the agent do its task there. Raises HoldfastError if nothing was started."""
    (folder / "README.md").write_text(f"A scratch repository in which Holdfast tries {order.name}.\n")
    create_repository(folder, "A scratch repository")
    repo = Repository.open(folder)
    repo.prepare_state_dir()
    presets = {order.name: msgspec.structs.replace(order.agent, fallback="")}
    with closing(open_journal(repo.state_dir.journal)) as journal:
        run, events, status = _execute(repo, journal, order, presets)
        end = _end(run, events, status)
        if end is None:
            reason = journal.load(run).row.reason or f"the run is {status}"
            raise HoldfastError(f"{order.name} was not started: {reason}", "remove the cause, then try again")
    with closing(open_fleet(repo.state_dir.fleet)) as fleet:
        output = fleet.output(LaunchKey(run, _TASK, 1, AGENT_STEP)).data
    reading = read_closely(order.agent, output)
    return TriedAgent(_with_last_line(end, reading), reading, output)


def _execute(
    repo: Repository, journal: Journal, order: TrialOrder, presets: Presets
) -> tuple[str, Sequence[ev.Event], RunStatus]:
    plan, events = order.plan(), list[ev.Event]()
    run = create_run(repo, journal, plan, "")
    journal.confirm_plan(consent_digest(plan, presets), 0.0)
    directory = repo.state_dir.run(run)
    with ExitStack() as requests:

        def observe(new: Sequence[ev.Event], _: RunState) -> None:
            events.extend(new)
            if any(_ends_trial(event) for event in new):
                requests.enter_context(send_request(directory, Request(action="stop")))

        status = execute_run(repo, journal, run, RunOptions(sandbox=order.sandbox), observe, presets=presets)
    return run, events, status


def _ends_trial(event: ev.Event) -> bool:
    """Whatever comes after the first attempt is not part of the trial. Work that was done is checked first."""
    ended = isinstance(event, ev.AttemptEnded | ev.AttemptLost)
    return (ended and not isinstance(event, ev.AttemptDone)) or isinstance(event, ev.ChecksFailed)


def _end(run: str, events: Sequence[ev.Event], status: RunStatus) -> TrialEnd | None:
    """Return how the first attempt ended; None if there was none."""
    ended = next((event for event in events if isinstance(event, ev.AttemptEnded | ev.AttemptLost)), None)
    match ended:
        case None:
            return TrialEnd(_STOPPED) if status is RunStatus.STOPPED else None
        case ev.AttemptDone():
            failed = next((event for event in events if isinstance(event, ev.ChecksFailed)), None)
            if failed is not None:
                return TrialEnd(OutcomeKind.FAILED, "checks", failed.error, ended.duration_s)
            landed = any(isinstance(event, ev.TaskLanded) for event in events)
            return TrialEnd(OutcomeKind.DONE if landed else _STOPPED, duration_s=ended.duration_s)
        case ev.AttemptFailed():
            return TrialEnd(OutcomeKind.FAILED, ended.failure, ended.error, ended.duration_s)
        case ev.AttemptLimited():
            return TrialEnd(OutcomeKind.LIMITED, ended.reason, _without_wait(ended), ended.duration_s)
        case ev.AttemptBlocked():
            return TrialEnd(
                OutcomeKind.BLOCKED, ended.failure, _without_resume(ended.error, run), ended.duration_s
            )
        case ev.AttemptLost(cause="stop"):
            return TrialEnd(_STOPPED, duration_s=ended.duration_s)
        case ev.AttemptLost():
            return TrialEnd(OutcomeKind.FAILED, ended.cause, "its supervisor was killed", ended.duration_s)
    return TrialEnd(OutcomeKind.BLOCKED, "question", "it asked a person instead of doing the task")


def _with_last_line(end: TrialEnd, reading: CloseReading) -> TrialEnd:
    """Return an end whose reason has the agent's last plain line, if its stream names none: it died before it spoke."""
    if end.failure != FailureKind.AGENT or reading.troubles or not reading.last_beside:
        return end
    return replace(end, why=f"{end.why}: {reading.last_beside}")


def _without_wait(ended: ev.AttemptLimited) -> str:
    """Return what a provider said, without how long a run would wait: a trial does not. An outage can be a wrong address."""
    _, _, said = ended.error.partition(": ")
    if ended.reason is not ParkReason.OUTAGE:
        return said
    return f"{said.rstrip('.')}; check its base URL and the network, then try again"


def _without_resume(error: str, run: str) -> str:
    """Return what a person must do, without the way to go on with a run that nobody keeps."""
    return error.partition(f"; then `holdfast resume {run}`")[0]
