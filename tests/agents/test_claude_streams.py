"""What only Claude Code's recorded streams show: money over resumed sessions, credits, retries, and what ended a run."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.observations import AgentTrouble
from tests.agents.recordings import STREAMS, heard, heard_in

ANSWER_TOKENS = 1050
ANSWER_USD = 0.00375
"""What one answer of the scripted model uses, and what Claude Code reckons for it."""
LIMIT = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1794790000}}


def result_of(name: str) -> dict[str, Any]:
    """Return the result that a recorded stream ends with."""
    lines = (STREAMS / name).read_text().splitlines()
    found: dict[str, Any] = next(e for e in map(json.loads, reversed(lines)) if e["type"] == "result")
    return found


def retry(status: int | None, error: str) -> bytes:
    """Return the event of a request that is repeated."""
    event = {"type": "system", "subtype": "api_retry", "error_status": status, "error": error}
    return json.dumps(event).encode() + b"\n"


@pytest.mark.parametrize("version", ["", "-2-1-197"], ids=["2.1.325", "2.1.197"])
def test_a_resumed_session_counts_only_what_it_used_itself(version: str) -> None:
    """Three answers in the first run, two in the second: each run's own, whatever the version adds up."""
    first, second = (heard_in(f"claude-session-{part}{version}.jsonl") for part in ("begun", "resumed"))
    assert (first.tokens, second.tokens) == (3 * ANSWER_TOKENS, 2 * ANSWER_TOKENS)
    assert first.cost_usd == pytest.approx(3 * ANSWER_USD)
    assert second.cost_usd == pytest.approx(2 * ANSWER_USD)


def test_the_total_of_a_newer_result_is_the_sessions() -> None:
    """Which is why it is not what we count; the older version told what the process used."""
    newer, older = (result_of(f"claude-session-resumed{v}.jsonl") for v in ("", "-2-1-197"))
    assert newer["total_cost_usd"] == pytest.approx(5 * ANSWER_USD)
    assert older["total_cost_usd"] == pytest.approx(2 * ANSWER_USD)


def test_a_session_that_was_killed_counts_its_rest_once() -> None:
    """The first run has no result; the second one's has only its own two answers."""
    first, second = (heard_in(f"claude-killed-session-{part}.jsonl") for part in ("begun", "resumed"))
    assert (first.finished, first.tokens > 0, second.finished) == (False, True, True)
    assert second.cost_usd == pytest.approx(2 * ANSWER_USD)


def test_a_session_that_is_gone_is_told_as_such() -> None:
    """So the next attempt is a fresh agent, and does not look for it again."""
    assert heard_in("claude-unknown-session.jsonl").trouble is AgentTrouble.SESSION


def test_a_limit_that_credits_pay_for_is_none() -> None:
    """The same event is a limit without the credits."""
    paid = {**LIMIT, "rate_limit_info": {**LIMIT["rate_limit_info"], "isUsingOverage": True}}  # type: ignore[dict-item]
    told = [heard(json.dumps(event).encode(), "claude").trouble for event in (LIMIT, paid)]
    assert told == [AgentTrouble.LIMIT, None]


@pytest.mark.parametrize(
    ("status", "error", "trouble"),
    [
        (401, "authentication_failed", AgentTrouble.AUTH),
        (403, "oauth_org_not_allowed", AgentTrouble.AUTH),
        (429, "rate_limit", AgentTrouble.LIMIT),
        (529, "overloaded", AgentTrouble.LIMIT),
        (500, "server_error", AgentTrouble.OUTAGE),
        (503, "unknown", AgentTrouble.OUTAGE),
        (None, "unknown", AgentTrouble.OUTAGE),
    ],
)
def test_a_repeated_request_is_trouble_and_no_sign_of_life(
    status: int | None, error: str, trouble: AgentTrouble
) -> None:
    """Claude Code tries ten times, for minutes; whoever waits must know for what."""
    assert heard(retry(status, error), "claude").trouble is trouble


@pytest.mark.parametrize(
    ("case", "said"),
    [("max-turns", "Reached maximum number of turns (1)"), ("max-budget", "Reached maximum budget ($0.001)")],
)
def test_what_its_own_bounds_ended_is_said(case: str, said: str) -> None:
    """The words are in a list of errors, and nowhere else."""
    assert heard_in(f"claude-{case}.jsonl").message == said


@pytest.mark.parametrize("case", ["login-usage-limit", "login-weekly-limit"])
def test_with_a_login_the_end_of_a_limit_is_a_number(case: str) -> None:
    """The text gives it to the minute, the event to the second."""
    assert (heard_in(f"claude-{case}.jsonl").until or 0) > 1.7e9
