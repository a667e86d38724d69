"""Spans are made from events: what took how long, inside what, and how it ended."""

from __future__ import annotations

from holdfast.core import events as ev
from holdfast.core.status import FailureKind
from holdfast.reporting.spans import SpanFold, TraceSpan
from tests.core.builders import STARTED, done, start

_LANDED = ev.TaskLanded(task="a", attempt=1, commit="c" * 40, head="h" * 40)
_TASK_LIFE: tuple[ev.Event, ...] = (
    STARTED,
    start("a", 1, agent="claude", provider="anthropic"),
    ev.AgentObserved(task="a", attempt=1, tokens=1200, cost_usd=0.5, session="s-1"),
    done("a", 1),
    ev.ChecksStarted(task="a", attempt=1),
    ev.TaskVerified(task="a", attempt=1),
    ev.LandingStarted(task="a", attempt=1),
    _LANDED,
    ev.RunCompleted(),
)


def _spans(*events: ev.Event) -> dict[str, TraceSpan]:
    fold = SpanFold()
    return {span.name: span for at, event in enumerate(events) for span in fold.add(float(at), event)}


def test_a_run_a_task_an_attempt_its_checks_and_its_landing_are_spans() -> None:
    """Each has its own times."""
    spans = _spans(*_TASK_LIFE)
    assert list(spans) == ["invoke_agent claude", "checks", "landing", "task a", "invoke_workflow 01-run"]
    assert [(span.begin, span.end) for span in spans.values()] == [(1, 3), (4, 5), (6, 7), (1, 7), (0, 8)]


def test_parts_of_a_task_are_inside_it_and_tasks_inside_their_run() -> None:
    """A trace is a tree with the run as its root."""
    spans = _spans(*_TASK_LIFE)
    run, task = spans["invoke_workflow 01-run"], spans["task a"]
    assert run.parent == ()
    assert task.parent == run.key
    assert {spans[name].parent for name in ("invoke_agent claude", "checks", "landing")} == {task.key}


def test_an_attempt_names_agent_provider_session_and_use_as_the_conventions_do() -> None:
    """What the conventions have no name for has one of ours."""
    attributes = _spans(*_TASK_LIFE)["invoke_agent claude"].attributes
    assert attributes["gen_ai.operation.name"] == "invoke_agent"
    assert attributes["gen_ai.agent.name"] == "claude"
    assert attributes["gen_ai.provider.name"] == "anthropic"
    assert attributes["gen_ai.conversation.id"] == "s-1"
    assert (attributes["holdfast.tokens"], attributes["holdfast.cost_usd"]) == (1200, 0.5)


def test_a_task_that_landed_names_its_commit() -> None:
    """So a trace leads to git."""
    assert _spans(*_TASK_LIFE)["task a"].attributes["holdfast.commit"] == _LANDED.commit


def test_a_failed_attempt_is_an_error_of_its_kind() -> None:
    """A command that is no agent has a plain name."""
    failed = ev.AttemptFailed(task="a", attempt=1, token="a1", failure=FailureKind.TIMEOUT, error="60 min")
    span = _spans(STARTED, start("a", 1), failed)["command"]
    assert span.error == span.attributes["error.type"] == "timeout"


def test_each_attempt_at_a_task_is_a_span_of_its_own() -> None:
    """All are inside the same task."""
    fold = SpanFold()
    lost = [ev.AttemptLost(task="a", attempt=number) for number in (1, 2)]
    events = (STARTED, start("a", 1), lost[0], start("a", 2), lost[1])
    spans = [span for at, event in enumerate(events) for span in fold.add(float(at), event)]
    assert len({span.key for span in spans}) == 2
    assert len({span.parent for span in spans}) == 1


def test_folding_the_same_events_again_makes_the_same_spans() -> None:
    """So what is sent twice is known to be the same."""
    assert _spans(*_TASK_LIFE) == _spans(*_TASK_LIFE)


def test_what_is_not_over_is_no_span_yet() -> None:
    """A span is sent once, when its end is known."""
    assert _spans(*_TASK_LIFE[:3]) == {}
