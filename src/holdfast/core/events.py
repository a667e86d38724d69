"""Every event: a past-tense fact about a run, and its JSON codec.

The journal stores exactly these. Fields are only ever added, with defaults, so old journals stay readable.
An event that announces an effect (an intent) is durable before that effect starts; its result follows.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

import msgspec

from holdfast.core.claims import PastFailure, Report

Gate = Literal["entry", "exit"]


class FailureKind(StrEnum):
    """Why an attempt did not lead to a landing. The retry policy and the next brief depend on it."""

    AGENT = "agent"
    KILLED = "killed"
    NO_CHANGE = "no_change"
    MISSING_FILES = "missing_files"
    CHECK = "check"
    MERGED_CHECK = "merged_check"
    CONFLICT = "conflict"
    SIDE_LOST = "side_lost"
    SYNTAX = "syntax"
    VALIDATION = "validation"
    TIMEOUT = "timeout"
    STALLED = "stalled"
    REJECTED = "rejected"
    ENVIRONMENT = "environment"
    LIMIT = "limit"
    CONTEXT = "context"
    BUDGET = "budget"
    PERMISSION = "permission"
    AUTH = "auth"


class AttemptKind(StrEnum):
    """What a fresh agent is asked for: new work, a repair of earlier work, or both sides of a conflict."""

    IMPLEMENTATION = "implementation"
    FIX = "fix"
    CONFLICT = "conflict"


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """Base of all events; the class name is the `kind` in the journal."""


class RunStarted(Event, frozen=True, tag=True):
    """A run exists: its plan, the commit it starts from and the branch it lands on are fixed for ever.

    `adopting` is the digest of another system's files: until `RunAdopted` they are still to be taken in.
    """

    run: str
    goal: str
    plan_hash: str
    base: str
    branch: str
    target: str = ""
    plan_source: str = ""
    epoch: int = 0
    adopting: str = ""


class RunRestored(Event, frozen=True, tag=True):
    """The journal was lost: everything recorded before this was read from git. The run rests."""


class RunnerAttached(Event, frozen=True, tag=True):
    """A runner took the lease and carries the run from here."""

    epoch: int
    pid: int
    host: str
    boot_id: str


class AgentsReattached(Event, frozen=True, tag="AgentsAdopted"):
    """A new runner found agents of the one before it: still working, or finished while nobody watched."""

    working: tuple[str, ...] = ()
    finished: tuple[str, ...] = ()


class IntrusionNoticed(Event, frozen=True, tag=True):
    """Files changed where no task may write, while `tasks` were running."""

    tasks: tuple[str, ...]
    place: str
    paths: tuple[str, ...]


class NotificationFailed(Event, frozen=True, tag=True):
    """Somebody whom the plan names could not be told the news. Nothing else follows from it."""

    channel: str
    error: str


class BranchMoved(Event, frozen=True, tag=True):
    """Somebody else moved the run branch; landings continue from where it is now."""

    commit: str


class PauseRequested(Event, frozen=True, tag=True):
    """No new attempt starts; those under way may finish and land. `now`: they are stopped, their work kept."""

    now: bool = False


class StopRequested(Event, frozen=True, tag=True):
    """Nothing new starts and running agents are stopped, their work kept. `blocked_by` says why, if not the user."""

    blocked_by: str = ""


class RunPaused(Event, frozen=True, tag=True):
    """The run rests after a pause; resume carries on."""


class RunStopped(Event, frozen=True, tag=True):
    """The run rests after a stop; resume carries on."""


class RunBlocked(Event, frozen=True, tag=True):
    """Nothing more can be done without a person; `reason` says why."""

    reason: str


class RunCompleted(Event, frozen=True, tag=True):
    """Every stage is closed."""


class RunAbandoned(Event, frozen=True, tag=True):
    """The user gave the run up; its refs and outputs stay. `reason` says what for, if not for its own sake."""

    reason: str = ""


class StageOpening(Event, frozen=True, tag=True):
    """Intent: the entry gate of a stage is being checked."""

    stage: str


class StageOpened(Event, frozen=True, tag=True):
    """The entry gate held; the stage's tasks may start."""

    stage: str


class StageClosing(Event, frozen=True, tag=True):
    """Intent: the exit gate of a stage is being checked."""

    stage: str


class StageClosed(Event, frozen=True, tag=True):
    """The exit gate held; stages that need this one may open."""

    stage: str


class StageGateFailed(Event, frozen=True, tag=True):
    """A gate did not hold; the stage waits for a decision."""

    stage: str
    gate: Gate
    error: str
    detail: str = ""


class StageGateWaived(Event, frozen=True, tag=True):
    """The user lets a stage go on although its gate failed."""

    stage: str
    gate: Gate


class StageRewound(Event, frozen=True, tag=True):
    """The user wants the stage from its beginning: its entry gate is checked again."""

    stage: str


class StageGateReset(Event, frozen=True, tag=True):
    """A gate that was cut short, or that failed before, will be checked again."""

    stage: str
    gate: Gate


class TaskAbandoned(Event, frozen=True, tag=True):
    """No attempt is left; the task's stage cannot close without a person."""

    task: str
    error: str


class TaskSkipped(Event, frozen=True, tag=True):
    """The user declared the task unnecessary; tasks that need it may start."""

    task: str


class TaskReset(Event, frozen=True, tag=True):
    """The user gave the task a fresh budget of attempts."""

    task: str


class TaskRewound(Event, frozen=True, tag=True):
    """The user wants the task done anew from a clean start. What was done before stays at its refs."""

    task: str


class TaskRestored(Event, frozen=True, tag=True):
    """Git and the attempt folders know of `attempts` at the task; the next one goes on from `carry`, if any.

    `base` is the commit below that work. Failures are not in git, so the task has its whole budget again.
    """

    task: str
    attempts: int
    carry: str = ""
    base: str = ""


class AttemptStarted(Event, frozen=True, tag=True):
    """Intent: a fresh agent gets workspace `slot`, checked out at `start`.

    `agent` works through `provider`. With a `session` it goes on with its own conversation instead of beginning
    one; where that was wanted and could not be, `fresh_because` says why.
    """

    task: str
    attempt: int
    token: str
    slot: int
    start: str
    reason: AttemptKind = AttemptKind.IMPLEMENTATION
    agent: str = ""
    provider: str = ""
    session: str = ""
    fresh_because: str = ""


class AttemptDone(Event, frozen=True, tag=True):
    """The agent ended well; `head` holds its work, committed by us."""

    task: str
    attempt: int
    token: str
    head: str
    tree: str
    summary: str = ""
    remarks: tuple[str, ...] = ()
    duration_s: float = 0.0


class AttemptFailed(Event, frozen=True, tag=True):
    """The attempt ended without a result to check; `carry` holds whatever it left behind."""

    task: str
    attempt: int
    token: str
    failure: FailureKind
    error: str
    detail: str = ""
    carry: str = ""
    tree: str = ""
    duration_s: float = 0.0
    clock: float = 0.0


class AttemptLost(Event, frozen=True, tag=True):
    """The attempt was cut short, by a crash or by the user's stop. It charges no failure."""

    task: str
    attempt: int
    carry: str = ""
    cause: Literal["crash", "stop"] = "crash"


class ChecksStarted(Event, frozen=True, tag=True):
    """Intent: the task's verification runs in its workspace."""

    task: str
    attempt: int


class TaskVerified(Event, frozen=True, tag="ChecksPassed"):
    """Every check held on the tree of the attempt's head."""

    task: str
    attempt: int


class ChecksFailed(Event, frozen=True, tag=True):
    """A check did not hold; its output feeds the next attempt."""

    task: str
    attempt: int
    check: str
    error: str
    detail: str = ""


class ChecksInterrupted(Event, frozen=True, tag=True):
    """A crash cut the checks short; all of them run again."""

    task: str
    attempt: int


class ChecksSucceeded(Event, frozen=True, tag="TestsPassed"):
    """Every check held; the task's validators come next."""

    task: str
    attempt: int


class ValidationStarted(Event, frozen=True, tag=True):
    """Intent: the validators that have not given their score yet run."""

    task: str
    attempt: int


class ValidatorScored(Event, frozen=True, tag=True):
    """One validator is done. Its score is kept, whatever happens to the others."""

    task: str
    attempt: int
    validator: str
    score: float
    feedback: str = ""


class ValidationFailed(Event, frozen=True, tag=True):
    """The validators' scores stay below the gate; their feedback goes to the next attempt."""

    task: str
    attempt: int
    error: str
    detail: str = ""


class InterfacePublished(Event, frozen=True, tag=True):
    """The task settled a contract that others wait for; they may start before it lands."""

    task: str
    attempt: int
    name: str
    contract: str


class ProgressReported(Event, frozen=True, tag=True):
    """What an agent says about its own progress. Believed for display and for briefs, never as proof.

    `heard` is how many bytes of its reports this takes in, so that after a crash none is counted twice.
    """

    task: str
    attempt: int
    progress: float | None = None
    file: str = ""
    line: int | None = None
    section_done: str = ""
    section_next: str = ""
    confidence: float | None = None
    blocked: str = ""
    summary: str = ""
    cost_usd: float = 0.0
    heard: int = 0


class SnapshotSaved(Event, frozen=True, tag="WipSaved"):
    """Unfinished work of a running attempt is safe in a commit."""

    task: str
    attempt: int
    commit: str


class LandingStarted(Event, frozen=True, tag=True):
    """Intent: the task's head is being merged onto the run branch."""

    task: str
    attempt: int


class MergePrepared(Event, frozen=True, tag=True):
    """The merge commit exists and its tree was checked; the run branch moves to it next, by compare-and-swap."""

    task: str
    attempt: int
    commit: str
    onto: str


class MergeConflicted(Event, frozen=True, tag=True):
    """The head does not merge cleanly; `carry` is a commit with both sides and the conflict markers in it."""

    task: str
    attempt: int
    onto: str
    carry: str
    files: tuple[str, ...]
    detail: str = ""


class MergeRefused(Event, frozen=True, tag=True):
    """The merged tree failed a check; `carry` is the merge commit it failed on."""

    task: str
    attempt: int
    check: str
    error: str
    detail: str = ""
    carry: str = ""


class LandingInterrupted(Event, frozen=True, tag=True):
    """A crash or a moved branch cut the landing short; the task is back in the merge queue, in its old place."""

    task: str
    attempt: int


class TaskLanded(Event, frozen=True, tag=True):
    """Git proves it: the task's merge is on the run branch's first-parent line."""

    task: str
    attempt: int
    commit: str
    head: str


class LandingVanished(Event, frozen=True, tag=True):
    """A landing we recorded is no longer on the run branch; the task counts as not done."""

    task: str
    commit: str


class LandingReplaced(Event, frozen=True, tag=True):
    """The recorded merge is gone, but the same change is provably on the branch: squashed or rebased."""

    task: str
    commit: str
    proof: Literal["patch", "tree"]


class AgentObserved(Event, frozen=True, tag=True):
    """What the attempt's event stream amounts to so far. Totals, so that told twice they count once.

    `activity` is what the agent is doing, with a tool if `in_tool`, and `at` the wall time of this, for people;
    `trouble` is what it says is in its way.
    """

    task: str
    attempt: int
    tokens: int = 0
    cost_usd: float = 0.0
    session: str = ""
    activity: str = ""
    in_tool: bool = False
    trouble: str = ""
    at: float = 0.0


class AttemptHalted(Event, frozen=True, tag=True):
    """Intent: the attempt's agent is ended, because it used up its budget or stands still for want of something."""

    task: str
    attempt: int
    failure: FailureKind
    error: str


class AttemptLimited(Event, frozen=True, tag=True):
    """The attempt ended at a limit of its provider. It charges nothing; the task waits until that is over."""

    task: str
    attempt: int
    token: str
    provider: str
    error: str
    carry: str = ""
    duration_s: float = 0.0


class AttemptBlocked(Event, frozen=True, tag=True):
    """The attempt needs something that only a person can give. It charges nothing and is not tried again blindly."""

    task: str
    attempt: int
    token: str
    failure: FailureKind
    error: str
    detail: str = ""
    carry: str = ""
    duration_s: float = 0.0


class ProviderParked(Event, frozen=True, tag=True):
    """A provider's limit is reached: nothing starts through it for `wait_s` from `clock` on, the run's own clock.

    `until` is the wall time at which it should be over, from which a later runner reckons what is left of the wait.
    `hits` counts the limits since work last went well through this provider; `words` is all of it for people.
    `reckoned`: it is no new limit, a new runner found it and reckoned what is left.
    """

    provider: str
    until: float
    wait_s: float
    clock: float
    hits: int = 1
    words: str = ""
    reckoned: bool = False


class ProviderShut(Event, frozen=True, tag=True):
    """A provider refuses our credentials: nothing starts through it until a runner attaches anew."""

    provider: str
    words: str = ""


class RunAdopted(Event, frozen=True, tag=True):
    """All that another system's files tell of the run is taken in; the files themselves are kept in git.

    `name` is what that system calls it, `main` its state file, `digest` stands for the content of all of them.
    """

    system: str
    name: str
    main: str
    digest: str


class TaskInherited(Event, frozen=True, tag=True):
    """What another system had tried at the task. The next attempt goes on from `carry`, if any, made upon `base`.

    `attempts` counts all of them, `spent` those that count against the budget. `commits` are those below the run's
    base. What it had done counts only once `TaskLanded` says that git proves it.
    """

    task: str
    attempts: int = 0
    spent: int = 0
    failures: tuple[PastFailure, ...] = ()
    commits: tuple[str, ...] = ()
    carry: str = ""
    base: str = ""
    summary: str = ""
    report: Report | None = None


class MirrorKept(Event, frozen=True, tag=True):
    """From now on the native files of a system are kept up to date, below `folder` of the project."""

    system: str
    folder: str = ""


class MirrorEnded(Event, frozen=True, tag=True):
    """The native files of a system are left as they are from now on."""

    system: str


class MirrorFailed(Event, frozen=True, tag=True):
    """The native files of a system could not be written. Nothing else follows from it."""

    system: str
    error: str


AnyEvent = (
    RunStarted | RunRestored | RunnerAttached | AgentsReattached
    | StageOpening | StageOpened | StageClosing | StageClosed | StageGateFailed | StageGateReset | StageGateWaived
    | StageRewound
    | AttemptStarted | AttemptDone | AttemptFailed | AttemptLost
    | AgentObserved | AttemptHalted | AttemptLimited | AttemptBlocked | ProviderParked | ProviderShut
    | ChecksStarted | TaskVerified | ChecksFailed | ChecksInterrupted
    | ChecksSucceeded | ValidationStarted | ValidatorScored | ValidationFailed | InterfacePublished | ProgressReported
    | LandingStarted | MergePrepared | MergeConflicted | MergeRefused | LandingInterrupted
    | TaskLanded | LandingVanished | LandingReplaced | TaskAbandoned | TaskSkipped | TaskReset | TaskRewound
    | TaskRestored
    | SnapshotSaved | IntrusionNoticed | NotificationFailed | BranchMoved
    | PauseRequested | StopRequested | RunPaused | RunStopped | RunBlocked | RunCompleted | RunAbandoned
    | RunAdopted | TaskInherited | MirrorKept | MirrorEnded | MirrorFailed
)  # fmt: skip

TaskEvent = (
    AttemptStarted | AttemptDone | AttemptFailed | AttemptLost
    | AgentObserved | AttemptHalted | AttemptLimited | AttemptBlocked
    | ChecksStarted | TaskVerified | ChecksFailed | ChecksInterrupted
    | ChecksSucceeded | ValidationStarted | ValidatorScored | ValidationFailed | InterfacePublished | ProgressReported
    | LandingStarted | MergePrepared | MergeConflicted | MergeRefused | LandingInterrupted
    | TaskLanded | LandingVanished | LandingReplaced | TaskAbandoned | TaskSkipped | TaskReset | TaskRewound
    | TaskRestored | TaskInherited | SnapshotSaved
)  # fmt: skip


class Recorded(msgspec.Struct, frozen=True):
    """An event as the journal holds it: its place in the run and the wall-clock time, for people only."""

    seq: int
    at: float
    event: AnyEvent


_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)

encode_event = _encoder.encode
decode_event = _decoder.decode
encode_events = _encoder.encode
decode_events = msgspec.json.Decoder(list[AnyEvent]).decode


def storable(event: AnyEvent) -> AnyEvent:
    """Return the event with what is no Unicode spelled out (`\\udcff`); nearly always that is the event itself.

    It must be done before the event is applied, or the state would differ from the fold of what is stored.
    """
    try:
        encode_event(event)
    except UnicodeEncodeError:
        return decode_event(msgspec.json.encode(_spelled_out(msgspec.to_builtins(event))))
    return event


def _spelled_out(value: object) -> object:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {key: _spelled_out(item) for key, item in value.items()}
        case list() | tuple():
            return [_spelled_out(item) for item in value]
        case _:
            return value
