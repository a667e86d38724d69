"""Every event, a past-tense fact about a run, in this order: the run, stages, attempts, the merge queue, tasks.

The journal stores exactly these, as their class name or older `tag`. Fields are only ever added, with defaults. An intent, which
announces an effect, is durable before that starts. `request` is the id of what it answers. A new one needs a transition, too.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.core.plan import Plan
from holdfast.core.projection import LandingConflict, PastFailure, Report, Spent
from holdfast.core.status import (
    AttemptKind,
    FailureKind,
    Gate,
    NetworkAccess,
    ParkReason,
    SandboxLevel,
    SandboxMechanism,
)
from holdfast.core.stored_names import BranchName, Id, ObjectName, RunBranch


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Base of all events."""


class StageEvent(Event, frozen=True):
    """Base of what happens to one stage."""

    stage: Id


class TaskEvent(Event, frozen=True):
    """Base of what happens to one task."""

    task: Id


class AttemptEvent(TaskEvent, frozen=True):
    """Base of what happens to one attempt. It is refused unless `attempt` is the task's latest."""

    attempt: int


class AttemptEnded(AttemptEvent, frozen=True):
    """Base of the ways in which an agent ends. It is refused unless `token` is the attempt's."""

    token: str


class RunStarted(Event, frozen=True):
    """A run exists, with plan, base and branch for good. `adopting` and `git_settings`: digests of what was there then.

    `check_base`: before the first agent starts, the plan's checks run on the base. `resolves`: its task begins with a
    conflict at `land`. `first_commit`: that of a repository whose id in a store is a name that its user chose.
    """

    run: Id
    goal: str
    plan_hash: str
    base: ObjectName
    branch: RunBranch
    target: BranchName = ""
    plan_source: str = ""
    epoch: int = 0
    adopting: str = ""
    git_settings: tuple[str, ...] = ()
    check_base: bool = False
    resolves: LandingConflict | None = None
    first_commit: ObjectName = ""


class RunRestored(Event, frozen=True):
    """The journal was lost. All events before this one were rebuilt from git. The run rests.

    `dropped` has the last attempt of each task that an amendment took out of the plan: no number is given out twice.
    """

    dropped: dict[str, int] = {}


class RunnerAttached(Event, frozen=True):
    """A runner took the lease and runs the run from here."""

    epoch: int
    pid: int
    host: str
    boot_id: str
    sandbox: SandboxLevel = SandboxLevel.OFF
    sandbox_by: SandboxMechanism = SandboxMechanism.BUBBLEWRAP
    network: NetworkAccess = NetworkAccess.ON


class AgentsReattached(Event, frozen=True, tag="AgentsAdopted"):
    """A new runner found agents of the runner before it: still working, or finished while no runner lived."""

    working: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()


class IntrusionNoticed(Event, frozen=True):
    """Files changed where no task may write, while `tasks` were running."""

    tasks: tuple[str, ...]
    place: str
    paths: tuple[str, ...]


class NotificationFailed(Event, frozen=True):
    """A notification did not reach its channel. Nothing else follows from it."""

    channel: str
    error: str


class BranchMoved(Event, frozen=True):
    """Somebody else moved the run branch; landings continue from where it is now."""

    commit: ObjectName


class PauseRequested(Event, frozen=True):
    """No new attempt starts; those under way may finish and land. `now`: they are stopped, their work kept."""

    now: bool = False
    request: str = ""


class StopRequested(Event, frozen=True):
    """Nothing new starts and running agents are stopped, their work kept. `blocked_by` says why, if not the user."""

    blocked_by: str = ""
    request: str = ""


class RunPaused(Event, frozen=True):
    """The run rests after a pause; resume continues it."""


class RunStopped(Event, frozen=True):
    """The run rests after a stop; resume continues it."""


class RunBlocked(Event, frozen=True):
    """Nothing more can be done without a person; `reason` says why."""

    reason: str


class RunCompleted(Event, frozen=True):
    """Every stage is closed."""


class RunAbandoned(Event, frozen=True):
    """The user abandoned the run; its refs and outputs stay. `reason` is empty if the user gave none."""

    reason: str = ""


class RunAdopted(Event, frozen=True):
    """The run took in all files of a system's run `name`; `main` is its state file, `digest` identifies their content."""

    system: str
    name: str
    main: str
    digest: str


class PlanAmended(Event, frozen=True):
    """The user changed the plan of a run that has begun. `plan` is all of it: what landed is in it as it landed.

    The agents at work on the `restarted` tasks are ended, their work kept; these begin again with what they are now.
    """

    plan: Plan
    plan_hash: str
    restarted: tuple[Id, ...] = ()
    request: str = ""


class MirrorKept(Event, frozen=True):
    """From now on the native files of a system are kept up to date, below `folder` of the project."""

    system: str
    folder: str = ""
    request: str = ""


class MirrorEnded(Event, frozen=True):
    """From now on the native files of a system are left as they are."""

    system: str
    request: str = ""


class MirrorFailed(Event, frozen=True):
    """The native files of a system could not be written. Nothing else follows from it."""

    system: str
    error: str


class TickingStarted(Event, frozen=True):
    """From now on each task that lands ticks its points in the list that the plan was made from."""

    request: str = ""


class TickingEnded(Event, frozen=True):
    """From now on the list that the plan was made from is left as it is."""

    request: str = ""


class ProviderParked(Event, frozen=True):
    """A provider's limit is reached, or it is out of reach: nothing starts through it for `wait_s` from `clock` on, the run's
    own clock. With `probe`, one agent tries first then.

    `until` is the wall time at which the limit should end, for a later runner. `hits` counts the limits since work last
    went well through this provider; `words` is for people. `reckoned`: a new runner only shortened the wait. An outage lasts
    `since` that wall time, `began` on the run's clock, with `error` as its last words; `tell`: it lasts so long that people are told.
    `same_wait`: another agent met what this runner has told already.
    """

    provider: str
    until: float
    wait_s: float
    clock: float
    hits: int = 1
    words: str = ""
    reckoned: bool = False
    reason: ParkReason = ParkReason.LIMIT
    probe: bool = False
    since: float = 0.0
    began: float = 0.0
    error: str = ""
    tell: bool = False
    same_wait: bool = False


class ProviderAnswered(Event, frozen=True):
    """The agent that tried first was answered: the others may start. `tell`: people were told of the outage that is over.

    `provisional`: it has only begun to work. The outage is remembered until an attempt ends otherwise than in it.
    """

    provider: str
    words: str = ""
    tell: bool = False
    provisional: bool = False


class ProviderShut(Event, frozen=True):
    """A provider refuses our credentials, or wants to be paid: nothing starts through it until a runner attaches again.

    With `agent`, only that one is refused, for its model; others of the provider go on.
    """

    provider: str
    words: str = ""
    agent: str = ""


class BaseCheckStarted(Event, frozen=True):
    """Intent: set-up and the plan's checks run on the base, before the first agent starts."""


class BaseCheckInterrupted(Event, frozen=True):
    """The check of the base was cut short; it runs again."""


class BaseChecked(Event, frozen=True):
    """The check of the base is over. Without `error` every check held; `known`: on the same tree, in an earlier run.

    `unrunnable`: the `check` cannot be executed at all, which no task will change. `setup`: it is a command of set-up.
    """

    check: str = ""
    error: str = ""
    detail: str = ""
    unrunnable: bool = False
    setup: bool = False
    known: bool = False


class BaseAccepted(Event, frozen=True):
    """The user lets agents start although the base fails a check, or without a check of it."""


class StageOpening(StageEvent, frozen=True):
    """Intent: the entry gate of a stage is being checked."""


class StageOpened(StageEvent, frozen=True):
    """The entry gate held; the stage's tasks may start."""


class StageClosing(StageEvent, frozen=True):
    """Intent: the exit gate of a stage is being checked."""


class StageClosed(StageEvent, frozen=True):
    """The exit gate held; stages that need this one may open."""


class StageGateFailed(StageEvent, frozen=True):
    """A gate did not hold; the stage waits for a decision."""

    gate: Gate
    error: str
    detail: str = ""


class StageGateWaived(StageEvent, frozen=True):
    """The user lets a stage continue although its gate failed."""

    gate: Gate
    request: str = ""


class StageGateReset(StageEvent, frozen=True):
    """A gate that was cut short, or that failed before, will be checked again."""

    gate: Gate


class StageRewound(StageEvent, frozen=True):
    """The user wants the stage from its beginning: its entry gate is checked again."""


class AttemptStarted(AttemptEvent, frozen=True):
    """Intent: an agent gets a workspace, checked out at `start`.

    `agent` works through `provider` and continues its own `session`, if any; if that was impossible, `fresh_because` says why.
    `at` is the wall time, for people. `probes`: it finds out whether its provider works again. `session_before` is what the
    session had used before. `closing_line`: its work counts as done only if its last message ends with that line.
    """

    token: str
    workspace_number: int = msgspec.field(name="slot")
    start: ObjectName
    attempt_kind: AttemptKind = msgspec.field(name="reason", default=AttemptKind.IMPLEMENTATION)
    agent: str = ""
    provider: str = ""
    session: str = ""
    fresh_because: str = ""
    at: float = 0.0
    probes: bool = False
    session_before: Spent = Spent()
    closing_line: bool = False


class AttemptDone(AttemptEnded, frozen=True):
    """The agent ended well; `head` holds its work, committed by us. `clock` is the time on the run's clock, 0 if not known."""

    head: ObjectName
    tree: ObjectName
    summary: str = ""
    remarks: tuple[str, ...] = ()
    duration_s: float = 0.0
    clock: float = 0.0


class AttemptFailed(AttemptEnded, frozen=True):
    """The attempt ended without a result to check. The next continues from `carry`, and starts without `set_aside`."""

    failure: FailureKind
    error: str
    detail: str = ""
    carry: ObjectName = ""
    set_aside: ObjectName = ""
    tree: ObjectName = ""
    clock: float = 0.0
    duration_s: float = 0.0


class AttemptLimited(AttemptEnded, frozen=True):
    """The attempt ended at a limit of its provider, or in an outage. It charges nothing; the task waits for the end of that."""

    provider: str
    error: str
    carry: ObjectName = ""
    duration_s: float = 0.0
    reason: ParkReason = ParkReason.LIMIT


class AttemptBlocked(AttemptEnded, frozen=True):
    """The attempt needs something from a person. It charges nothing and is not retried before a resume."""

    failure: FailureKind
    error: str
    detail: str = ""
    carry: ObjectName = ""
    duration_s: float = 0.0


class AttemptAsked(AttemptEnded, frozen=True):
    """The attempt ended at a question to a person. It charges nothing; the next one has the answer, and goes on from `carry`."""

    carry: ObjectName = ""
    duration_s: float = 0.0


class AttemptReturned(AttemptEnded, frozen=True):
    """The person who had the task gave it back to the agents. They continue from `carry`, with all attempts."""

    carry: ObjectName = ""


class AttemptLost(AttemptEvent, frozen=True):
    """A crash, a stop, a deleted workspace or the spent budget of the run cut the attempt short; nothing is charged.

    `duration_s` is how long its agent worked as far as is known, 0 if it is not. The rest: as in AttemptFailed.
    """

    carry: ObjectName = ""
    set_aside: ObjectName = ""
    cause: Literal["crash", "stop", "not launched", "deletion", "budget"] = "crash"
    duration_s: float = 0.0

    @property
    def is_accident(self) -> bool:
        """Nobody wanted the attempt to end. Only then is work that has hardly begun not continued."""
        return self.cause in ("crash", "deletion")


class AttemptHalted(AttemptEvent, frozen=True):
    """Intent: we end the attempt's agent: it used up its budget or waits for an answer that will not come.

    `for_run`: all agents together used up the budget of the run; then nothing is charged.
    """

    failure: FailureKind
    error: str
    for_run: bool = False


class AgentObserved(AttemptEvent, frozen=True):
    """Totals of the attempt's event stream so far. Recorded twice, they count once.

    `activity` is what the agent does, with a tool if `in_tool`, at the wall time `at`; `trouble` is what it says is wrong.
    """

    tokens: int = 0
    cost_usd: float = 0.0
    cache_read: int = 0
    session: str = ""
    activity: str = ""
    in_tool: bool = False
    trouble: str = ""
    at: float = 0.0


class ProgressReported(AttemptEvent, frozen=True):
    """What an agent says of itself: the fields of `Report`, and what it used since its last report.

    `heard` counts the bytes read, so that none counts twice.
    """

    progress: float | None = None
    file: str = ""
    line: int | None = None
    section_done: str = ""
    section_next: str = ""
    confidence: float | None = None
    blocked: str = ""
    summary: str = ""
    cost_usd: float = 0.0
    tokens: int = 0
    heard: int = 0


class QuestionAsked(AttemptEvent, frozen=True):
    """An agent asks what only a person can decide. Its task waits for the answer once the attempt is over."""

    question: str
    options: tuple[str, ...] = ()


class InterfacePublished(AttemptEvent, frozen=True):
    """The task settled a contract that others wait for; they may start before it lands."""

    name: str
    contract: str


class SnapshotSaved(AttemptEvent, frozen=True, tag="WipSaved"):
    """Unfinished work of a running attempt is safe in a commit."""

    commit: ObjectName


class ChecksStarted(AttemptEvent, frozen=True):
    """Intent: the task's checks run in its workspace."""


class ChecksSucceeded(AttemptEvent, frozen=True, tag="TestsPassed"):
    """Every check held; the task's validators come next."""


class ChecksFailed(AttemptEvent, frozen=True):
    """A check did not hold; its output goes to the next attempt."""

    check: str
    error: str
    detail: str = ""


class ChecksInterrupted(AttemptEvent, frozen=True):
    """A crash cut the checks short; all of them run again."""


class ValidationStarted(AttemptEvent, frozen=True):
    """Intent: the validators without a score run. `probes`: they find out whether a provider works again."""

    probes: bool = False


class ValidatorScored(AttemptEvent, frozen=True):
    """One validator is done. Its score is kept even if others fail. `agent` is who judged, and what that used."""

    validator: str
    score: float
    feedback: str = ""
    agent: str = ""
    tokens: int = 0
    cost_usd: float = 0.0
    cache_read: int = 0


class ValidatorFailed(AttemptEvent, frozen=True):
    """One validator gave no score: it broke, or its answer is none. That says nothing about the work."""

    validator: str
    error: str
    detail: str = ""
    agent: str = ""
    tokens: int = 0
    cost_usd: float = 0.0
    cache_read: int = 0


class ValidationDelayed(AttemptEvent, frozen=True):
    """The validators that gave no score are asked again when the run's clock, now at `clock`, is at `not_before`."""

    not_before: float
    clock: float


class ValidationFailed(AttemptEvent, frozen=True):
    """The validators' scores stay below the gate; their feedback goes to the next attempt."""

    error: str
    detail: str = ""


class VerificationBlocked(AttemptEvent, frozen=True):
    """The finished work cannot be judged without a person. It charges nothing; the work waits and is verified again."""

    failure: FailureKind
    error: str
    detail: str = ""


class VerificationRestarted(AttemptEvent, frozen=True):
    """Finished work that waited gets a workspace and is verified again, without being done again."""

    workspace_number: int


class TaskVerified(AttemptEvent, frozen=True, tag="ChecksPassed"):
    """Every check held on the tree of the attempt's head, and its validators agree. The merge queue comes next."""


class LandingStarted(AttemptEvent, frozen=True):
    """Intent: the task's head is being merged onto the run branch."""


class MergePrepared(AttemptEvent, frozen=True):
    """The merge commit exists and its tree was checked; the run branch moves to it next, by compare-and-swap."""

    commit: ObjectName
    onto: ObjectName


class MergeConflicted(AttemptEvent, frozen=True):
    """The head does not merge cleanly; `carry` is a commit with both sides and the conflict markers in it."""

    onto: ObjectName
    carry: ObjectName
    files: tuple[str, ...]
    detail: str = ""
    by_hand: bool = False
    """Whether it is the work of a person, who resolves it."""


class MergeRefused(AttemptEvent, frozen=True):
    """The merged tree failed a check; `carry` is the merge commit it failed on."""

    check: str
    error: str
    detail: str = ""
    carry: ObjectName = ""


class LandingInterrupted(AttemptEvent, frozen=True):
    """A crash or a moved branch cut the landing short; the task is back in its old place of the merge queue."""


class TaskLanded(TaskEvent, frozen=True):
    """Git proves it: the task's merge is on the run branch's first-parent line."""

    attempt: int
    commit: ObjectName
    head: ObjectName


class LandingVanished(TaskEvent, frozen=True):
    """A recorded landing is no longer on the run branch: the task is not done. Its next attempt may start without it."""

    commit: ObjectName
    set_aside: ObjectName = ""


class LandingReplaced(TaskEvent, frozen=True):
    """The recorded merge is gone, but the same change is provably on the branch: squashed or rebased."""

    commit: ObjectName
    proof: Literal["patch", "tree"]


class PointsTicked(TaskEvent, frozen=True):
    """The points of a landed task are ticked in the list that the plan was made from: this is not done again."""


class TickFailed(TaskEvent, frozen=True):
    """A point of a landed task could not be ticked in its list. Nothing else follows from it."""

    error: str


class TaskAbandoned(TaskEvent, frozen=True):
    """No attempt is left; the task's stage cannot close without a person."""

    error: str


class TaskSkipped(TaskEvent, frozen=True):
    """The user declared the task unnecessary; tasks that need it may start."""

    request: str = ""


class TaskRetried(TaskEvent, frozen=True, tag="TaskReset"):
    """The user gave the task a fresh budget of attempts.

    Until it lands, its briefs have the `hint` and `agent` works on it, if they are given. `clean`: the next attempt starts
    from what landed; earlier work stays at its refs.
    """

    request: str = ""
    hint: str = ""
    agent: str = ""
    clean: bool = False


class QuestionAnswered(TaskEvent, frozen=True):
    """A person answered the oldest open question of a task; without another one, it may start at once."""

    answer: str
    request: str = ""


class TaskTaken(TaskEvent, frozen=True):
    """A person takes the task to work on it by hand. An attempt under way is stopped, its work kept."""

    request: str = ""


class HandOverStarted(TaskEvent, frozen=True):
    """Intent: the person who took the task gets a workspace, checked out at `start`."""

    start: ObjectName


class HandOverInterrupted(TaskEvent, frozen=True):
    """A crash or an error cut the hand-over short; it begins again."""


class TaskHandedOver(TaskEvent, frozen=True):
    """The person's workspace is there, at `place` below the checkout. From here on nothing else writes to it."""

    place: str = ""


class TaskGiven(TaskEvent, frozen=True):
    """The person gives the work to be checked and landed as an attempt; `back`: to the agents, who continue it."""

    back: bool = False
    message: str = ""
    request: str = ""


class TaskRewound(TaskEvent, frozen=True):
    """The user wants the task redone from a clean start. Earlier work stays at its refs."""


class TaskRestored(TaskEvent, frozen=True):
    """Git and the attempt folders show `attempts` at the task; the next one continues from `carry`, if any.

    It starts without `set_aside`. `base` is the commit below `carry`. Failures are not in git: it has its whole budget.
    """

    attempts: int
    carry: ObjectName = ""
    set_aside: ObjectName = ""
    base: ObjectName = ""


class TaskInherited(TaskEvent, frozen=True):
    """What another system tried. The next attempt continues from `carry`, if any, made on `base`, without `set_aside`.

    `attempts` counts all of them, `spent` those that count against the budget. `commits` are those below the run's base.
    """

    attempts: int = 0
    spent: int = 0
    failures: tuple[PastFailure, ...] = ()
    commits: tuple[ObjectName, ...] = ()
    carry: ObjectName = ""
    set_aside: ObjectName = ""
    base: ObjectName = ""
    summary: str = ""
    report: Report | None = None
