"""The spans of a run, for tracing: the run, each task, and a task's attempts, checks, validations and landings.

Pure: made from the events alone. A span has the same key and the same times whoever folds the events, so one that is
made twice is the same span. Names follow the conventions of OpenTelemetry for generative AI where there are any.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec

from holdfast.core import events as ev

SpanKey = tuple[str, ...]
AttributeValue = str | int | float


class TraceSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Something that took a while and is over. `error` is empty if it went well; `parent` is empty for the run.

    `trace` tells the runs of all repositories apart, `key` the spans of one run.
    """

    trace: str
    key: SpanKey
    parent: SpanKey
    name: str
    begin: float
    end: float
    attributes: dict[str, AttributeValue]
    error: str = ""


_RUN, _TASK, _ATTEMPT, _CHECKS, _VALIDATION, _LANDING = (
    "run",
    "task",
    "attempt",
    "checks",
    "validation",
    "landing",
)
_OPENED_BY: dict[type[ev.Event], str] = {
    ev.AttemptStarted: _ATTEMPT,
    ev.ChecksStarted: _CHECKS,
    ev.ValidationStarted: _VALIDATION,
    ev.LandingStarted: _LANDING,
}
_ENDS: dict[type[ev.Event], tuple[tuple[str, ...], str]] = {
    ev.AttemptDone: ((_ATTEMPT,), "done"),
    ev.AttemptFailed: ((_ATTEMPT,), "failed"),
    ev.AttemptLimited: ((_ATTEMPT,), "limited"),
    ev.AttemptBlocked: ((_ATTEMPT,), "blocked"),
    ev.AttemptAsked: ((_ATTEMPT,), "asked"),
    ev.AttemptReturned: ((_ATTEMPT,), "returned"),
    ev.AttemptLost: ((_ATTEMPT,), "lost"),
    ev.ChecksSucceeded: ((_CHECKS,), "passed"),
    ev.ChecksFailed: ((_CHECKS,), "failed"),
    ev.ChecksInterrupted: ((_CHECKS,), "interrupted"),
    ev.ValidationFailed: ((_VALIDATION,), "failed"),
    ev.ValidationDelayed: ((_VALIDATION,), "delayed"),
    ev.VerificationBlocked: ((_CHECKS, _VALIDATION), "blocked"),
    ev.TaskVerified: ((_CHECKS, _VALIDATION), "passed"),
    ev.MergeConflicted: ((_LANDING,), "conflict"),
    ev.MergeRefused: ((_LANDING,), "failed"),
    ev.LandingInterrupted: ((_LANDING,), "interrupted"),
    ev.TaskLanded: ((_LANDING, _TASK), "landed"),
    ev.TaskAbandoned: ((_TASK,), "abandoned"),
    ev.TaskSkipped: ((_TASK,), "skipped"),
    ev.RunCompleted: ((_RUN,), "completed"),
    ev.RunAbandoned: ((_RUN,), "abandoned"),
}
"""Which spans an event ends, the inner ones first, and with which outcome."""
_GOOD = ("done", "asked", "returned", "passed", "landed", "skipped", "completed", "delayed")


class _OpenSpan(msgspec.Struct, kw_only=True):
    key: SpanKey
    parent: SpanKey
    name: str
    begin: float
    attributes: dict[str, AttributeValue]


class SpanFold:
    """Folds the events of a run, from its first one on, and returns the spans that each of them ends."""

    def __init__(self) -> None:
        self._run = self._trace = ""
        self._open: dict[SpanKey, _OpenSpan] = {}
        self._count: Counter[SpanKey] = Counter()

    def add(self, at: float, event: ev.Event) -> list[TraceSpan]:
        """Take in the next event, recorded at that wall time."""
        if isinstance(event, ev.RunStarted):
            self._begin_run(at, event)
        elif isinstance(event, ev.AgentObserved):
            self._observe(event)
        elif isinstance(event, ev.TaskEvent) and (part := _OPENED_BY.get(type(event))):
            self._begin(part, at, event)
        parts, outcome = _ENDS.get(type(event), ((), ""))
        places = [(part, getattr(event, "task", "")) for part in parts]
        return [self._end(place, at, event, outcome) for place in places if place in self._open]

    def _begin_run(self, at: float, event: ev.RunStarted) -> None:
        self._run = event.run
        self._trace = f"{event.run} {event.plan_hash} {event.base} {at}"
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "invoke_workflow",
            "gen_ai.workflow.name": event.run,
            "holdfast.plan": event.plan_hash,
            "holdfast.branch": event.branch,
        }
        self._put((_RUN, ""), at, f"invoke_workflow {event.run}", (), attributes)

    def _begin(self, part: str, at: float, event: ev.TaskEvent) -> None:
        """Begin a part of a task, and the task with its first part."""
        task = event.task
        if (_TASK, task) not in self._open:
            self._put((_TASK, task), at, f"task {task}", (_RUN, ""), {"holdfast.task": task})
        attributes: dict[str, AttributeValue] = {
            "holdfast.task": task,
            "holdfast.attempt": getattr(event, "attempt", 0),
        }
        name = part
        if isinstance(event, ev.AttemptStarted):
            name, attributes = _agent_name(event), attributes | _agent_attributes(event)
        self._put((part, task), at, name, (_TASK, task), attributes)

    def _put(
        self, place: SpanKey, at: float, name: str, parent: SpanKey, attributes: dict[str, AttributeValue]
    ) -> None:
        """Open a span. The number in its key tells it from an earlier one at the same place."""
        self._count[place] += 1
        self._open[place] = _OpenSpan(
            key=(*place, str(self._count[place])),
            parent=self._open[parent].key if parent in self._open else (),
            name=name,
            begin=at,
            attributes={"holdfast.run": self._run, **attributes},
        )

    def _observe(self, event: ev.AgentObserved) -> None:
        if (span := self._open.get((_ATTEMPT, event.task))) is not None:
            span.attributes |= {name: value for name, read in _OBSERVED if (value := read(event))}

    def _end(self, place: SpanKey, at: float, event: ev.Event, outcome: str) -> TraceSpan:
        span = self._open.pop(place)
        error = "" if outcome in _GOOD else str(getattr(event, "failure", outcome))
        told: dict[str, AttributeValue] = {"holdfast.outcome": outcome}
        if isinstance(event, ev.TaskLanded):
            told["holdfast.commit"] = event.commit
        if error:
            told["error.type"] = error
        return TraceSpan(
            trace=self._trace,
            key=span.key,
            parent=span.parent,
            name=span.name,
            begin=span.begin,
            end=max(at, span.begin),
            attributes=span.attributes | told,
            error=error,
        )


_OBSERVED: tuple[tuple[str, Callable[[ev.AgentObserved], AttributeValue]], ...] = (
    ("holdfast.tokens", lambda event: event.tokens),
    ("holdfast.cost_usd", lambda event: event.cost_usd),
    ("gen_ai.usage.cache_read.input_tokens", lambda event: event.cache_read),
    ("gen_ai.conversation.id", lambda event: event.session),
)
"""What agents tell of themselves. Holdfast knows the sum of their tokens, which the conventions have no name for."""


def _agent_name(event: ev.AttemptStarted) -> str:
    return f"invoke_agent {event.agent}" if event.agent else "command"


def _agent_attributes(event: ev.AttemptStarted) -> dict[str, AttributeValue]:
    """Return what is known of an attempt at its start. A command is no agent."""
    kind: dict[str, AttributeValue] = {"holdfast.attempt.kind": event.attempt_kind.value}
    if not event.agent:
        return kind
    return kind | {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": event.agent,
        "gen_ai.provider.name": event.provider or "_OTHER",
    }
