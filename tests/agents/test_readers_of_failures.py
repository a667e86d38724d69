"""How readers tell a failed request from an end: Qwen's brackets and log, opencode's steps, Gemini's last word, the lines of aider and mini-swe-agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.observations import AgentTrouble
from tests.agents.recordings import heard

SAID = "[API Error: 401 Incorrect API key provided: dummy.]"
TOKENS = {"input_tokens": 10, "output_tokens": 5}
ANSWERED = "[log_1] post http://127.0.0.1:8000/v1/chat/completions succeeded with status 200 in 6ms"
LIMITED = "[log_2, retryOf: log_1] post http://127.0.0.1:8000/v1/chat/completions failed with status 429 in 6ms - retrying"


def qwen(said: str, usage: dict[str, int]) -> bytes:
    """Return a stream of Qwen 0.15 that ends with this message and calls itself a success."""
    before = {"type": "assistant", "message": {"id": "1", "usage": TOKENS, "content": [{"type": "tool_use"}]}}
    message = {"id": "2", "usage": usage, "content": [{"type": "text", "text": said}]}
    result = {"type": "result", "subtype": "success", "is_error": False, "result": said, "usage": TOKENS}
    return stream(before, {"type": "assistant", "message": message}, result)


def uncounted(said: str) -> bytes:
    """Return a stream of Qwen 0.15 with a provider that counts no tokens; it ends with this message."""
    message = {"id": "1", "usage": {}, "content": [{"type": "text", "text": said}]}
    result = {"type": "result", "subtype": "success", "is_error": False, "result": said}
    return stream({"type": "assistant", "message": message}, result)


def opencode(*reasons: str) -> bytes:
    """Return a stream of opencode whose steps ended for these reasons."""
    start = {"type": "step_start", "part": {}}
    return stream(
        *(event for why in reasons for event in (start, {"type": "step_finish", "part": {"reason": why}}))
    )


def gemini(*events: dict[str, Any]) -> bytes:
    """Return a stream of Gemini that ends in success after these events."""
    return stream(*events, {"type": "result", "status": "success", "stats": {"total_tokens": 9}})


def stream(*events: dict[str, Any]) -> bytes:
    """Return events as lines."""
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def test_a_failed_request_that_qwen_calls_a_success_is_trouble() -> None:
    """It is told in brackets, in a message for which no tokens were counted."""
    assert heard(qwen(SAID, {}), "qwen").trouble is AgentTrouble.AUTH


def test_brackets_that_could_be_the_models_own_words_are_no_last_word() -> None:
    """A message with tokens is no proof of a failure, but the work does not land on it."""
    told = heard(qwen(f"The log said {SAID}", TOKENS), "qwen")
    assert (told.trouble, told.finished) == (None, False)


@pytest.mark.parametrize("before", ["I made it log ", "The log says:\n", "It prints `", 'He wrote "'])
def test_brackets_in_the_models_words_are_no_limit_where_the_provider_counts_no_tokens(before: str) -> None:
    """Nothing is parked for a sentence that quotes an error; but the work does not land on it either."""
    told = heard(uncounted(f"{before}[API Error: 429 rate limit]"), "qwen")
    assert (told.trouble, told.finished) == (None, False)


@pytest.mark.parametrize("before", ["", "I will begin by", "Done."])
def test_brackets_alone_or_right_after_a_cut_answer_are_a_failed_request(before: str) -> None:
    """So Qwen tells it where the provider counts no tokens, too: no space is between."""
    assert heard(uncounted(f"{before}[API Error: 429 rate limit]"), "qwen").trouble is AgentTrouble.LIMIT


def test_a_last_message_of_qwen_without_tokens_is_no_last_word() -> None:
    """Others had some: the answer broke off before the provider counted."""
    assert not heard(qwen("I will begin by", {}), "qwen").finished
    assert heard(qwen("All done.", TOKENS), "qwen").finished


def test_what_a_request_of_qwen_came_to_is_read_from_its_log() -> None:
    """At a limit it says nothing else; once a request is answered, the limit is over."""
    assert heard(f"{LIMITED}\n".encode(), "qwen").trouble is AgentTrouble.LIMIT
    assert heard(f"{LIMITED}\n{ANSWERED}\n".encode(), "qwen").trouble is None


def test_a_request_of_qwen_beside_the_work_does_not_undo_its_end() -> None:
    """What is asked after the result is not the work."""
    end = qwen("All done.", TOKENS)
    assert heard(end + f"{LIMITED}\n{ANSWERED}\n".encode(), "qwen").finished


def test_opencode_that_asks_again_for_ever_is_in_an_outage() -> None:
    """Its next step is no sign of life, unless it ends for a reason."""
    asks_again = opencode("tool-calls", "unknown") + stream({"type": "step_start", "part": {}})
    assert heard(asks_again, "opencode").trouble is AgentTrouble.OUTAGE
    assert heard(opencode("unknown", "stop"), "opencode").finished


def test_the_summary_after_an_overflow_is_not_the_last_word_of_opencode() -> None:
    """It shortens the conversation, in a step that stops, and goes on with the work."""
    full = stream({"type": "error", "error": {"name": "ContextOverflowError"}})
    assert not heard(full + opencode("stop"), "opencode").finished
    assert heard(full + opencode("stop", "stop"), "opencode").finished


def test_a_success_of_gemini_without_a_word_after_its_last_tool_is_none() -> None:
    """The answer to the tool's result was empty."""
    tool = ({"type": "tool_use", "tool_name": "write_file"}, {"type": "tool_result", "status": "success"})
    word = {"type": "message", "role": "assistant", "content": "Done.", "delta": True}
    assert not heard(gemini(word, *tool), "gemini").finished
    assert heard(gemini(*tool, word), "gemini").finished


def test_an_error_of_aider_is_its_last_word_unless_it_commits() -> None:
    """It does without a message for its commit."""
    turn = "Tokens: 1.0k sent, 50 received.\nApplied edit to a.txt\n"
    error = "litellm.AuthenticationError: AuthenticationError: OpenAIException - Incorrect\n"
    assert heard(f"{turn}{error}".encode(), "aider").trouble is AgentTrouble.AUTH
    assert heard(f"{turn}{error}Commit 1cf4d53 (no commit message provided)\n".encode(), "aider").finished


def test_a_turn_of_aider_that_received_nothing_is_no_end() -> None:
    """It prints what was sent also when the model did not answer."""
    assert not heard(b"Tokens: 602 sent, 0 received. Cost: $0.0 message, $0.0 session.\n", "aider").finished


RULE = "─" * 80
REFUSED = "openai.AuthenticationError: Error code: 401 - Incorrect API key provided: x"
LATER = "litellm.exceptions.RateLimitError: Rate limit reached, try again in 20h"
STEP = "mini-swe-agent (step 3, $0.10):"


@pytest.mark.parametrize("heading", ["System:", "User:", "Tool:", STEP])
@pytest.mark.parametrize("error", [REFUSED, LATER])
def test_errors_that_mini_swe_agent_quotes_are_not_its_own(heading: str, error: str) -> None:
    """A task, a tool's traceback and what the model says stand below headings: nothing is searched there."""
    quoted = f"{RULE}\n\n{STEP}\nI run the tests.\n\n{heading}\n<returncode>\n1\n<output>\n{error}\n"
    assert heard(quoted.encode(), "mini-swe-agent").trouble is None


def test_an_error_below_the_rule_that_mini_swe_agent_draws_is_its_own() -> None:
    """It draws one before it asks the model."""
    asked = f"{STEP}\nI run the tests.\n\nTool:\n<output>\nok\n\n{RULE}\n\n"
    assert heard(f"{asked}{REFUSED}\n".encode(), "mini-swe-agent").trouble is AgentTrouble.AUTH
    assert heard(f"{asked}Exit:\n{REFUSED}\n".encode(), "mini-swe-agent").trouble is AgentTrouble.AUTH


def test_an_error_before_the_first_heading_of_mini_swe_agent_is_its_own() -> None:
    """It may fail while it starts."""
    started = f"This is mini-swe-agent version 2.4.6.\n{REFUSED}\n"
    assert heard(started.encode(), "mini-swe-agent").trouble is AgentTrouble.AUTH
