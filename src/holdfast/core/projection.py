"""The stored shape of current state: one row for the run, one per task that ever left `pending`.

The journal keeps these beside the events, in the same transaction, so that reading costs O(tasks). They always equal
the fold of the events; `replay` in `state.py` is the proof. What changes them is in `task_transitions.py`.

A row is never part of a cycle, so the rows of tasks, of which there may be many, are hidden from the garbage collector.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.core.status import (
    AttemptKind,
    BaseStatus,
    FailureKind,
    Gate,
    NetworkAccess,
    ParkReason,
    RunStatus,
    SandboxLevel,
    SandboxMechanism,
    StageStatus,
    TaskStatus,
)
from holdfast.core.stored_names import BranchName, Id, ObjectName, RunBranch


class Report(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent says about its own progress, each part as last reported. For display and briefs, never proof."""

    progress: float | None = None
    file: str = ""
    line: int | None = None
    section_done: str = ""
    section_next: str = ""
    confidence: float | None = None
    blocked: str = ""
    summary: str = ""


class PastFailure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attempt that failed in another system: what went wrong, and the feedback for the next one."""

    attempt: int
    error: str
    feedback: str = ""


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One failed attempt: what went wrong and the evidence for the next one.

    `session_lost`: it resumed an agent's session that could not go on; it is not charged, and a fresh agent comes next.
    """

    attempt: int
    kind: FailureKind
    error: str
    detail: str = ""
    check: str = ""
    tree: ObjectName = ""
    session_lost: bool = False


class AttemptCommit(msgspec.Struct, frozen=True, kw_only=True):
    """The commit that one attempt produced."""

    attempt: int
    commit: ObjectName
    kind: AttemptKind


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one validator said about the latest attempt."""

    score: float
    feedback: str = ""


class NoScore(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A validator that gave no score: how often in a row, why the last time, and what it printed then."""

    tries: int
    error: str
    detail: str = ""


class Parked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A provider through which nothing starts: until the run's clock is at `not_before`, or for all of one epoch.

    `probe`: then one agent tries first, and the others wait for what it finds. An outage lasts `since` that wall time, and
    `began` at that time on the run's clock; it ended the last agent with `error`, and people were `told` of it if it lasts.
    `answered`: it is in nobody's way, but not proven to be over; the next one is the same outage.
    """

    until: float = 0.0
    not_before: float = 0.0
    wait_s: float = 0.0
    hits: int = 0
    words: str = ""
    shut_in: int = -1
    reason: ParkReason = ParkReason.LIMIT
    probe: bool = False
    since: float = 0.0
    began: float = 0.0
    error: str = ""
    told: bool = False
    answered: bool = False

    def ends_after(self, clock: float) -> bool:
        """Tell whether it is a limit that is known to last beyond a time on the run's clock. A time of 0 is not known."""
        known = self.reason is ParkReason.LIMIT and not self.probe and self.shut_in < 0
        return known and 0.0 < clock < self.not_before


class Halt(msgspec.Struct, frozen=True, kw_only=True):
    """Why we end an attempt's agent before it is done. `for_run`: because the run rests, whatever the attempt did."""

    failure: FailureKind
    error: str
    for_run: bool = False


class Spent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tokens and money, as far as agents say; 0 is unknown. `cache_read` are the tokens that came from a cache."""

    tokens: int = 0
    cost_usd: float = 0.0
    cache_read: int = 0

    def plus(self, more: Spent) -> Spent:
        """Return the sum of both."""
        return Spent(
            tokens=self.tokens + more.tokens,
            cost_usd=self.cost_usd + more.cost_usd,
            cache_read=self.cache_read + more.cache_read,
        )

    def beyond(self, known: Spent) -> Spent:
        """Return what this has more than `known`, never less than nothing."""
        return Spent(
            tokens=max(0, self.tokens - known.tokens),
            cost_usd=max(0.0, self.cost_usd - known.cost_usd),
            cache_read=max(0, self.cache_read - known.cache_read),
        )


class PastAttempt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an attempt before the latest used. A time of 0 is unknown."""

    attempt: int
    agent: str = ""
    spent: Spent = Spent()
    worked_s: float = 0.0


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an agent asked a person, and the answer. `closed` without one: nobody answers it any more."""

    attempt: int
    question: str
    options: tuple[str, ...] = ()
    answer: str = ""
    closed: bool = False


class Taken(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a task stands that a person took: the commit that the person's workspace begins with, and what was given."""

    start: ObjectName = ""
    """Empty until the workspace is being made."""
    ready: bool = False
    """Whether the workspace was made: from then on it is the person's, and nothing else writes to it."""
    place: str = ""
    """Where it is, for people: a path below the checkout."""
    given: Literal["", "check", "back"] = ""
    message: str = ""
    """What the person said of the work when it was given last. It stays until the work lands."""


class AttemptRow(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The latest attempt at a task, at work or over. The next attempt replaces it whole."""

    token: str = ""
    """Proves that a result belongs to this attempt and to no earlier one."""
    workspace_number: int = -1
    """The workspace that the attempt occupies; -1 once it has left it."""
    start: ObjectName = ""
    """The commit that its workspace began with."""
    kind: AttemptKind = AttemptKind.IMPLEMENTATION
    agent: str = ""
    provider: str = ""
    resumed_session: str = ""
    """The agent's session that the attempt continues; empty for a fresh agent."""
    session_before: Spent = Spent()
    """What that session had used, by its stream, when the attempt began: some agents count on from there."""
    closing_line: bool = False
    """Whether its work counts as done only if its last message ends with the closing line."""
    probes: bool = False
    """Whether it, or its validators, find out if a parked provider works again."""
    head: ObjectName = ""
    """The commit of its finished work: what is checked and merged."""
    tree: ObjectName = ""
    """The tree of `head`."""
    snapshot: ObjectName = ""
    """The commit of its last snapshot."""
    prepared: ObjectName = ""
    """The merge commit that the run branch is about to move to."""
    checking: bool = False
    """Whether its checks or validators run now."""
    checks_succeeded: bool = False
    """Whether its checks held, so that only validators are left."""
    scores: dict[str, Score] = {}
    without_score: dict[str, NoScore] = {}
    """The validators that gave no score when they were asked last."""
    validate_at: float = 0.0
    """When, on the run's clock, they may be asked again."""
    report: Report | None = None
    report_bytes: int = 0
    """How many bytes of the agent's report file have been read."""
    spent: Spent = Spent()
    """What the attempt used: of each part the larger of what its stream says and what it reported."""
    heard: Spent = Spent()
    """What its stream says."""
    reported: Spent = Spent()
    """What its reports add up to."""
    started_at: float = 0.0
    """The wall time of its start, for people."""
    worked_s: float = 0.0
    """How long its agent worked, as far as is known; 0 while it works, and if nothing is known."""
    session: str = ""
    """The agent's own name for its conversation."""
    session_workspace: int = -1
    """The workspace that the session knows."""
    session_commit: ObjectName = ""
    """The commit that the session left that workspace at."""
    activity: str = ""
    in_tool: bool = False
    trouble: str = ""
    active_at: float = 0.0
    """The wall time of the last sign in its stream, for people."""
    halt: Halt | None = None
    restart: bool = False
    """Whether its agent is to be ended because its task was amended; the next attempt begins with what it is now."""
    outdated: bool = False
    """Whether something else is asked of its task since its agent began."""


class TaskRow(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """Everything the core knows about one task."""

    id: Id
    status: TaskStatus = TaskStatus.PENDING
    attempt: int = 0
    """The number of the latest attempt. Numbers name launches, folders and refs: none is given out twice."""
    latest: AttemptRow = msgspec.field(default_factory=AttemptRow)
    charged: int = 0
    """Failures that count against the limit of attempts."""
    crash_count: int = 0
    """Attempts lost to crashes since the user last reset the task."""
    wasted: int = 0
    """Attempts that left nothing for the next one."""
    base: ObjectName = ""
    """The commit below all work on the task."""
    carry: ObjectName = ""
    """The commit with the work that the next attempt continues from."""
    set_aside: ObjectName = ""
    """The commit with the half-done work of the last attempt that was cut short, if the next one starts without it."""
    summary: str = ""
    last_report: Report | None = None
    """The last report of an attempt before the latest."""
    conflict: ObjectName = ""
    """The commit with both sides of a merge conflict and its markers."""
    conflict_files: tuple[str, ...] = ()
    interfaces: dict[str, str] = {}
    cost_usd: float = 0.0
    tokens: int = 0
    cache_read: int = 0
    past: list[PastAttempt] = []
    """What each attempt before the latest used."""
    validation_spent: dict[str, Spent] = {}
    """What the task's validators used, by agent; `cost_usd`, `tokens` and `cache_read` include it."""
    limited: int = 0
    """Attempts that ended at a limit of their provider."""
    blocked_in: int = -1
    """The epoch in which an attempt was found to need a person."""
    hint: str = ""
    """What a person wants the next agents to know, until the task lands."""
    agent: str = ""
    """Whom a person wants to work on it instead of its agent, until it lands."""
    recheck: bool = False
    """Whether the finished work of the latest attempt waits to be verified again, instead of being done again."""
    forgiven: int = 0
    """How many of `failures` the user's last reset covers."""
    forgiven_spending: Spent = Spent()
    queue_number: int = 0
    """The place in the merge queue: tasks land in the order in which they were verified."""
    merge_commit: ObjectName = ""
    replaced: ObjectName = ""
    """The commit that holds a squashed or rebased landing."""
    ticked: bool = False
    """Whether its points were ticked in the list that the plan was made from."""
    not_before: float = 0.0
    """When, on the run's clock, the next attempt may start."""
    worked_s: float = 0.0
    error: str = ""
    failures: list[Failure] = []
    commits: list[AttemptCommit] = []
    questions: tuple[Question, ...] = ()
    """What agents asked a person, oldest first, with the answers."""
    taken: Taken | None = None
    """Set while a person has the task."""


class StageRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything the core knows about one stage."""

    id: Id
    status: StageStatus = StageStatus.PENDING
    gate: Gate = "entry"
    error: str = ""
    detail: str = ""
    waived: tuple[Gate, ...] = ()


class BaseCheck(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The check of the base. What failed, if so, and in which epoch. `unrunnable`: that command cannot be executed at all.

    `setup`: it is a command of set-up.
    """

    status: BaseStatus = BaseStatus.UNASKED
    check: str = ""
    error: str = ""
    detail: str = ""
    unrunnable: bool = False
    setup: bool = False
    epoch: int = -1


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an adopted run comes from: the system, the run's name there, and its state file."""

    system: str
    name: str
    main: str
    digest: str


class LandingConflict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run is for whose only task resolves a conflict at `land`: the result of another run with the target branch.

    `tip` is where that run's branch was, `commit` the merge with the markers of `files`, with the target as first parent.
    """

    run: Id
    tip: ObjectName
    task: Id
    commit: ObjectName
    files: tuple[str, ...]


class RunRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything the core knows about the run as a whole."""

    run: Id
    goal: str
    plan_hash: str
    base: ObjectName
    branch: RunBranch
    target: BranchName = ""
    plan_source: str = ""
    status: RunStatus = RunStatus.PENDING
    tip: ObjectName = ""
    """The commit that the run branch is at."""
    epoch: int = 0
    """Which runner writes: each take-over of the lease raises it."""
    boot_id: str = ""
    sandbox: SandboxLevel = SandboxLevel.OFF
    sandbox_by: SandboxMechanism = SandboxMechanism.BUBBLEWRAP
    network: NetworkAccess = NetworkAccess.ON
    """What was in force for the launches of the last runner."""
    clock: float = 0.0
    """The latest known time on the run's own clock, which stands still while no runner lives."""
    queue_number: int = msgspec.field(name="queued", default=0)
    """The last place in the merge queue that was given out."""
    pausing: bool = False
    stopping: bool = False
    reason: str = ""
    """Why the run rests."""
    intrusions: int = 0
    cost_usd: float = 0.0
    tokens: int = 0
    cache_read: int = 0
    worked_s: float = 0.0
    """How long agents worked, all together."""
    parked: dict[str, Parked] = {}
    """The providers through which nothing starts, or that nothing went well through since."""
    shut_agents: dict[str, Parked] = {}
    """The agents that do not start although others of their provider may."""
    reattached: int = msgspec.field(name="adopted", default=0)
    """How many agents a later runner took over."""
    adopting: str = ""
    """The digest of another system's files, until the run has taken in all that they tell."""
    moving: str = ""
    """The journal from which the run is being copied here, until the copy is whole. No event says it."""
    origin: Origin | None = None
    resolves: LandingConflict | None = None
    mirrors: dict[str, str] = {}
    """Systems whose native files are kept up to date, each with its folder below the project ("" is its own place)."""
    base_check: BaseCheck = BaseCheck()
    ticking: bool | None = None
    """Whether the user wants points ticked in the list that the plan was made from; None is as the plan says."""
    stages: dict[str, StageRow] = {}
    first_plan: str = ""
    """The digest of the plan that the run began with, if it was amended since."""
    dropped: dict[str, int] = {}
    """The tasks that amendments took out of the plan, each with its last attempt: no number is given out twice."""

    def is_of_earlier_boot(self, boot_id: str) -> bool:
        """Tell whether the machine was restarted since the last runner began. An unknown boot id proves no reboot."""
        return bool(self.boot_id and boot_id) and self.boot_id != boot_id


encode_row = msgspec.json.Encoder().encode
decode_task_row = msgspec.json.Decoder(TaskRow).decode
decode_run_row = msgspec.json.Decoder(RunRow).decode
