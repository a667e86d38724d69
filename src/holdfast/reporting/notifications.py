"""Notifications: the few events of a run that are sent to people elsewhere, each as one small JSON object."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from holdfast.core import events as ev
from holdfast.core.ids import short_name
from holdfast.core.people import needed_from_person
from holdfast.core.plan import Occasion, Plan
from holdfast.core.state import RunState
from holdfast.core.status import ParkReason, RunStatus, TaskStatus
from holdfast.reporting.needs_you import way_past_obstacle

OCCASIONS: dict[type[ev.Event], Occasion] = {
    ev.RunBlocked: "needs_decision",
    ev.RunCompleted: "finished",
    ev.RunStopped: "finished",
    ev.ProviderParked: "waiting_limit",
    ev.ProviderAnswered: "outage",
    ev.QuestionAsked: "question",
    ev.TaskAbandoned: "task_abandoned",
    ev.AttemptFailed: "task_failed",
    ev.ChecksFailed: "task_failed",
    ev.ValidationFailed: "task_failed",
    ev.MergeRefused: "task_failed",
}
"""The events that cause a notification if the plan wants it, each with the notification's name."""
_USUAL: tuple[Occasion, ...] = ("finished", "needs_decision", "waiting_limit", "outage", "question")


def occasions_of(plan: Plan) -> tuple[Occasion, ...]:
    """Return what a plan notifies about. An abandoned task stops a run, which tells enough, unless the rest goes on."""
    usual = (*_USUAL, "task_abandoned") if plan.limits.keep_going else _USUAL
    return plan.notify.on or usual


class TaskCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many tasks there are, have landed, and have failed."""

    tasks: int
    completed: int
    failed: int


class Notification(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One notification. `task` and `attempt` are there if it is about a task."""

    event: str
    run: str
    goal: str
    status: RunStatus
    reason: str
    branch: str
    counts: TaskCounts
    task: str = ""
    attempt: int = 0


def notification_of(event: ev.Event, state: RunState) -> Notification | None:
    """Return the notification for an event, or None if it causes none."""
    occasion = _occasion(event)
    if occasion is None or occasion not in occasions_of(state.plan):
        return None
    task = event.task if isinstance(event, ev.TaskEvent) else ""
    statuses = [task.status for task in state.tasks.values()]
    return Notification(
        event=occasion,
        run=state.row.run,
        goal=state.plan.goal,
        status=state.row.status,
        reason=_reason(event, state),
        branch=short_name(state.row.branch),
        counts=TaskCounts(
            tasks=len(statuses),
            completed=statuses.count(TaskStatus.COMPLETED),
            failed=statuses.count(TaskStatus.FAILED) + statuses.count(TaskStatus.ABANDONED),
        ),
        task=task,
        # By now the next attempt may have begun.
        attempt=getattr(event, "attempt", state.tasks[task].attempt) if task else 0,
    )


def _occasion(event: ev.Event) -> Occasion | None:
    """Return the occasion of an event, if people are told of it: of an outage once, when it lasts, and when it is over."""
    if isinstance(event, ev.ProviderAnswered) and not event.tell:
        return None
    if isinstance(event, ev.ProviderParked):
        if event.reason is ParkReason.OUTAGE:
            return "outage" if event.tell else None
        return None if event.reckoned else "waiting_limit"
    return OCCASIONS.get(type(event))


def _reason(event: ev.Event, state: RunState) -> str:
    """Return why people are told: a provider's own words, an agent's question with the command to answer, what went wrong
    with a task, or why the run rests."""
    match event:
        case ev.ProviderParked(words=words) | ev.ProviderAnswered(words=words):
            return words
        case ev.QuestionAsked(task=task):
            return needed_from_person(state.row.run, state.tasks[task])
        case ev.TaskEvent():
            return str(getattr(event, "error", ""))
    return " ".join(filter(None, (state.row.reason, way_past_obstacle(state))))


def displayed_webhook(url: str) -> str:
    """Return a webhook's address without its secret part: knowing the path is enough to post there.

    A variable that holds the address is shown by its name.
    """
    if url.startswith("$"):
        return url
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}/…"


def without_secrets(plan: Plan) -> Plan:
    """Return a plan that may be shown: the webhook's address is cut."""
    if not plan.notify.webhook:
        return plan
    notify = msgspec.structs.replace(plan.notify, webhook=displayed_webhook(plan.notify.webhook))
    return msgspec.structs.replace(plan, notify=notify)
