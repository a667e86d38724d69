"""The last word of agents that end well in name: what each must say besides before it is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.observations import AgentTrouble, StreamSummary
from tests.agents.recordings import heard


def told(agent: str, *events: dict[str, Any]) -> StreamSummary:
    """Return what events of an agent add up to."""
    return heard(b"".join(json.dumps(event).encode() + b"\n" for event in events), agent)


def pi_message(stop: str, tokens: int, **more: Any) -> dict[str, Any]:
    """Return a message of pi's model."""
    content = [{"type": "text", "text": "Done."}]
    message = {"role": "assistant", "content": content, "usage": {"totalTokens": tokens}, "stopReason": stop}
    return {"type": "message_end", "message": message | more}


def completion(tokens: int) -> dict[str, Any]:
    """Return how Droid closes its stream."""
    return {
        "type": "completion",
        "finalText": "Done.",
        "usage": {"input_tokens": tokens, "output_tokens": tokens},
    }


def cline_usage(tokens: int) -> dict[str, Any]:
    """Return what Cline tells of one answer."""
    return {
        "type": "agent_event",
        "event": {"type": "usage", "outputTokens": tokens, "totalOutputTokens": 99},
    }


def test_a_provider_that_counts_no_tokens_is_believed_all_the_same() -> None:
    """Servers of local models often count none. Whether the answer was whole, the closing line tells."""
    assert told("pi", pi_message("stop", 0), {"type": "agent_end"}).finished
    assert told("droid", completion(0)).finished
    assert told("cline", {"type": "run_result", "finishReason": "completed", "text": "Done."}).finished


@pytest.mark.parametrize("stop", ["length", "aborted", "error", "something new"])
def test_pi_ended_well_only_if_its_model_stopped(stop: str) -> None:
    """It exits with status 0 whatever happened."""
    found = told("pi", pi_message("toolUse", 10), pi_message(stop, 10), {"type": "agent_end"})
    assert (found.finished, found.trouble) == (False, AgentTrouble.ERROR)


def test_a_retry_of_pi_does_not_hide_what_it_retries() -> None:
    """The limit stands until the model answers again."""
    failed = pi_message("error", 0, errorMessage="429 Rate limit reached.")
    again: list[dict[str, Any]] = [
        {"type": "auto_retry_start"},
        {"type": "agent_start"},
        {"type": "turn_start"},
    ]
    assert told("pi", failed, *again).trouble is AgentTrouble.LIMIT
    assert told("pi", failed, *again, pi_message("stop", 10), {"type": "agent_end"}).trouble is None


def test_an_error_after_droids_last_message_is_no_end() -> None:
    """A completion that follows is not believed."""
    said = {"type": "message", "role": "assistant", "text": "Done."}
    found = told("droid", said, {"type": "error", "message": "401 no"}, completion(10))
    assert (found.finished, found.trouble) == (False, AgentTrouble.AUTH)


@pytest.mark.parametrize("reason", ["aborted", "max_iterations", ""])
def test_cline_ended_well_only_if_its_run_completed(reason: str) -> None:
    """Every other reason is a failure, also one that nobody knows."""
    found = told("cline", cline_usage(50), {"type": "run_result", "finishReason": reason})
    assert (found.finished, found.trouble) == (False, AgentTrouble.ERROR)


def test_openhands_ends_with_its_tool_only() -> None:
    """Not with a message, for a refusal is one; the result of the tool is no new work, and an error comes after it."""
    message = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}
    assert not told("openhands", {"kind": "MessageEvent", "source": "agent", "llm_message": message}).finished
    action = {"kind": "ActionEvent", "tool_name": "finish", "action": {"message": "All done."}}
    result = {"kind": "ObservationEvent", "tool_name": "finish"}
    found = told("openhands", action, result)
    assert (found.finished, found.text) == (True, "All done.")
    error = {"kind": "ConversationErrorEvent", "code": "LLMRateLimitError", "detail": "429"}
    assert told("openhands", action, result, error).trouble is AgentTrouble.LIMIT
