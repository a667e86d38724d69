"""The stored shape of current state: one row for the run, one per task that ever left `pending`.

The journal keeps these beside the events, in the same transaction, so that reading costs O(tasks).
They are always equal to the fold of the events; `replay` in `state.py` is the proof.
"""

from __future__ import annotations

import msgspec

from holdfast.core.claims import Report as Report
from holdfast.core.events import AttemptKind, FailureKind, Gate
from holdfast.core.status import RunStatus, StageStatus, TaskStatus


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One failed attempt: what went wrong and the evidence for the next one."""

    attempt: int
    kind: FailureKind
    error: str
    detail: str = ""
    check: str = ""
    tree: str = ""


class AttemptCommit(msgspec.Struct, frozen=True, kw_only=True):
    """The commit that one attempt produced."""

    attempt: int
    commit: str
    kind: AttemptKind


class Score(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one validator said about the present attempt."""

    score: float
    feedback: str = ""


class Parked(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A provider through which nothing starts: until the run's clock is at `not_before`, or for all of one epoch."""

    until: float = 0.0
    not_before: float = 0.0
    wait_s: float = 0.0
    hits: int = 0
    words: str = ""
    shut_in: int = -1


class Halt(msgspec.Struct, frozen=True, kw_only=True):
    """Why an attempt's agent is being ended before it is done."""

    failure: FailureKind
    error: str


class Spent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the present attempt has used, as far as its stream told."""

    tokens: int = 0
    cost_usd: float = 0.0


class TaskRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything the core knows about one task.

    `agent`, `provider` and what follows them down to `halt` are of the present or last attempt: what its stream told,
    the session with which it could go on, and the workspace and commit that session knew. `resumes` is the session
    that the attempt itself goes on with. `blocked_in` is the epoch in which it was found that a person is needed.
    """

    id: str
    status: TaskStatus = TaskStatus.PENDING
    attempt: int = 0
    charged: int = 0
    lost: int = 0
    wasted: int = 0
    token: str = ""
    slot: int = -1
    base: str = ""
    start: str = ""
    reason: AttemptKind = AttemptKind.IMPLEMENTATION
    head: str = ""
    tree: str = ""
    summary: str = ""
    carry: str = ""
    wip: str = ""
    conflict: str = ""
    conflict_files: tuple[str, ...] = ()
    checking: bool = False
    tested: bool = False
    scores: dict[str, Score] = {}
    report: Report | None = None
    last_report: Report | None = None
    heard: int = 0
    interfaces: dict[str, str] = {}
    cost_usd: float = 0.0
    tokens: int = 0
    spent: Spent = Spent()
    agent: str = ""
    provider: str = ""
    session: str = ""
    session_slot: int = -1
    session_left: str = ""
    resumes: str = ""
    activity: str = ""
    in_tool: bool = False
    trouble: str = ""
    active_at: float = 0.0
    halt: Halt | None = None
    limited: int = 0
    blocked_in: int = -1
    forgiven: int = 0
    forgiven_spending: Spent = Spent()
    replaced: str = ""
    queued: int = 0
    prepared: str = ""
    merge_commit: str = ""
    not_before: float = 0.0
    worked_s: float = 0.0
    error: str = ""
    failures: list[Failure] = []
    commits: list[AttemptCommit] = []


class StageRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything the core knows about one stage."""

    id: str
    status: StageStatus = StageStatus.PENDING
    gate: Gate = "entry"
    error: str = ""
    detail: str = ""
    waived: tuple[Gate, ...] = ()


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where an adopted run comes from: the system, what it is called there, and its state file."""

    system: str
    name: str
    main: str
    digest: str


class RunRow(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Everything the core knows about the run as a whole.

    `adopted` counts agents that a runner took over; `adopting` is the digest of another system's files from the
    moment the run exists until all that they tell is taken in, and `origin` is where they came from. `mirrors` are
    the systems whose native files are kept up to date, each with the folder below the project ("" is their own place).
    """

    run: str
    goal: str
    plan_hash: str
    base: str
    branch: str
    target: str = ""
    plan_source: str = ""
    status: RunStatus = RunStatus.PENDING
    tip: str = ""
    epoch: int = 0
    boot_id: str = ""
    clock: float = 0.0
    queued: int = 0
    pausing: bool = False
    stopping: bool = False
    reason: str = ""
    intrusions: int = 0
    cost_usd: float = 0.0
    tokens: int = 0
    parked: dict[str, Parked] = {}
    adopted: int = 0
    adopting: str = ""
    origin: Origin | None = None
    mirrors: dict[str, str] = {}
    stages: dict[str, StageRow] = {}


encode_row = msgspec.json.Encoder().encode
_task_decoder = msgspec.json.Decoder(TaskRow)
_run_decoder = msgspec.json.Decoder(RunRow)
decode_task_row = _task_decoder.decode
decode_run_row = _run_decoder.decode
