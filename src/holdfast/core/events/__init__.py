"""Every event: a past-tense fact about a run, and its JSON codec.

The journal stores exactly these. Fields are only ever added, with defaults, so old journals stay readable.
An event that announces an effect (an intent) is durable before that effect starts; its result follows.
"""

from __future__ import annotations

import msgspec

from holdfast.core.events.adoption import (
    MirrorEnded as MirrorEnded,
    MirrorFailed as MirrorFailed,
    MirrorKept as MirrorKept,
    RunAdopted as RunAdopted,
    TaskInherited as TaskInherited,
)
from holdfast.core.events.attempts import (
    AttemptDone as AttemptDone,
    AttemptFailed as AttemptFailed,
    AttemptLost as AttemptLost,
    AttemptStarted as AttemptStarted,
    ChecksFailed as ChecksFailed,
    ChecksInterrupted as ChecksInterrupted,
    ChecksPassed as ChecksPassed,
    ChecksStarted as ChecksStarted,
    InterfacePublished as InterfacePublished,
    ProgressReported as ProgressReported,
    TestsPassed as TestsPassed,
    ValidationFailed as ValidationFailed,
    ValidationStarted as ValidationStarted,
    ValidatorScored as ValidatorScored,
    WipSaved as WipSaved,
)
from holdfast.core.events.base import (
    AttemptKind as AttemptKind,
    Event as Event,
    FailureKind as FailureKind,
    Gate as Gate,
)
from holdfast.core.events.landings import (
    LandingInterrupted as LandingInterrupted,
    LandingReplaced as LandingReplaced,
    LandingStarted as LandingStarted,
    LandingVanished as LandingVanished,
    MergeConflicted as MergeConflicted,
    MergePrepared as MergePrepared,
    MergeRefused as MergeRefused,
    TaskLanded as TaskLanded,
)
from holdfast.core.events.limits import (
    AgentObserved as AgentObserved,
    AttemptBlocked as AttemptBlocked,
    AttemptHalted as AttemptHalted,
    AttemptLimited as AttemptLimited,
    ProviderParked as ProviderParked,
    ProviderShut as ProviderShut,
)
from holdfast.core.events.runs import (
    AgentsAdopted as AgentsAdopted,
    BranchMoved as BranchMoved,
    IntrusionNoticed as IntrusionNoticed,
    NotificationFailed as NotificationFailed,
    PauseRequested as PauseRequested,
    RunAbandoned as RunAbandoned,
    RunBlocked as RunBlocked,
    RunCompleted as RunCompleted,
    RunnerAttached as RunnerAttached,
    RunPaused as RunPaused,
    RunRestored as RunRestored,
    RunStarted as RunStarted,
    RunStopped as RunStopped,
    StopRequested as StopRequested,
)
from holdfast.core.events.stages import (
    StageClosed as StageClosed,
    StageClosing as StageClosing,
    StageGateFailed as StageGateFailed,
    StageGateReset as StageGateReset,
    StageGateWaived as StageGateWaived,
    StageOpened as StageOpened,
    StageOpening as StageOpening,
    StageRewound as StageRewound,
)
from holdfast.core.events.tasks import (
    TaskAbandoned as TaskAbandoned,
    TaskReset as TaskReset,
    TaskRestored as TaskRestored,
    TaskRewound as TaskRewound,
    TaskSkipped as TaskSkipped,
)

AnyEvent = (
    RunStarted | RunRestored | RunnerAttached | AgentsAdopted
    | StageOpening | StageOpened | StageClosing | StageClosed | StageGateFailed | StageGateReset | StageGateWaived
    | StageRewound
    | AttemptStarted | AttemptDone | AttemptFailed | AttemptLost
    | AgentObserved | AttemptHalted | AttemptLimited | AttemptBlocked | ProviderParked | ProviderShut
    | ChecksStarted | ChecksPassed | ChecksFailed | ChecksInterrupted
    | TestsPassed | ValidationStarted | ValidatorScored | ValidationFailed | InterfacePublished | ProgressReported
    | LandingStarted | MergePrepared | MergeConflicted | MergeRefused | LandingInterrupted
    | TaskLanded | LandingVanished | LandingReplaced | TaskAbandoned | TaskSkipped | TaskReset | TaskRewound
    | TaskRestored
    | WipSaved | IntrusionNoticed | NotificationFailed | BranchMoved
    | PauseRequested | StopRequested | RunPaused | RunStopped | RunBlocked | RunCompleted | RunAbandoned
    | RunAdopted | TaskInherited | MirrorKept | MirrorEnded | MirrorFailed
)  # fmt: skip

TaskEvent = (
    AttemptStarted | AttemptDone | AttemptFailed | AttemptLost
    | AgentObserved | AttemptHalted | AttemptLimited | AttemptBlocked
    | ChecksStarted | ChecksPassed | ChecksFailed | ChecksInterrupted
    | TestsPassed | ValidationStarted | ValidatorScored | ValidationFailed | InterfacePublished | ProgressReported
    | LandingStarted | MergePrepared | MergeConflicted | MergeRefused | LandingInterrupted
    | TaskLanded | LandingVanished | LandingReplaced | TaskAbandoned | TaskSkipped | TaskReset | TaskRewound
    | TaskRestored | TaskInherited | WipSaved
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
