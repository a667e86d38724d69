"""Events of agents that cannot work on for reasons outside of their task, and of what their streams tell meanwhile."""

from __future__ import annotations

from holdfast.core.events.base import Event, FailureKind


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
