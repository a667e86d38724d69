"""The last word of agents that end well in name: what each must say besides before it is believed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.agents.streams.reader import LINE_BYTES_MAX
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


@pytest.mark.parametrize("stop", ["tool_use", "pause_turn", "something new"])
def test_claude_code_ended_well_only_if_its_model_did(stop: str) -> None:
    """It calls the whole a success, whatever the reason."""
    said = {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "Now the"}]}}
    result = {"type": "result", "subtype": "success", "is_error": False, "result": "Now the"}
    assert told("claude", said, {**result, "stop_reason": "end_turn"}).finished
    found = told("claude", said, {**result, "stop_reason": stop})
    assert (found.finished, found.trouble) == (False, AgentTrouble.ERROR)


def test_an_empty_answer_after_a_tool_call_is_no_end() -> None:
    """Codex and Claude Code complete their turn after it. A refusal of the Responses API looks like that, too."""
    tool = {"type": "item.completed", "item": {"type": "command_execution", "command": "ls", "exit_code": 0}}
    turn = {"type": "turn.completed", "usage": {"input_tokens": 9}}
    assert told("codex", tool, turn).is_cut
    said = {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}}
    assert not told("codex", tool, said, turn).is_cut
    used = {"type": "assistant", "message": {"id": "m", "content": [{"type": "tool_use", "name": "Write"}]}}
    assert told("claude", used, {"type": "result", "subtype": "success", "result": ""}).is_cut


def test_a_message_of_copilot_that_asks_for_tools_is_no_last_word() -> None:
    """They may never have been run, whatever it says besides and however the whole ends."""
    closed = "HOLDFAST: task T1 is done, attempt 1"
    said = {"type": "assistant.message", "data": {"content": closed, "toolRequests": []}}
    asked = {"type": "assistant.message", "data": {"content": closed, "toolRequests": [{"name": "bash"}]}}
    result = {"type": "result", "exitCode": 0}
    assert told("copilot", asked, said, result).finished
    assert told("copilot", said, asked, result).is_cut


AIDERS_TURN = "All done.\nTokens: 1k sent, 50 received.\nCommit 3519acc half.txt\n"


@pytest.mark.parametrize(
    "last",
    [
        "Only 3 reflections allowed, stopping.",
        "Tokens: 1k sent, 0 received.",
        "Traceback (most recent call last):",
    ],
)
def test_aider_that_gives_up_after_a_turn_did_not_end_well(last: str) -> None:
    """Edits that do not match are not applied, although the model says that it is done."""
    assert heard(AIDERS_TURN.encode(), "aider").finished
    found = heard(f"{AIDERS_TURN}{last}\n".encode(), "aider")
    assert (found.finished, found.trouble) == (False, AgentTrouble.ERROR)


def test_what_goose_repeats_of_its_brief_is_not_the_models_last_line() -> None:
    """The closing line stands in the brief."""
    brief = {"type": "text", "text": "end with this line:\n\nHOLDFAST: task T1 is done, attempt 1"}
    found = told("goose", {"type": "message", "message": {"role": "user", "id": "u", "content": [brief]}})
    assert found.last_line == ""


CODEX_END = b'{"type":"turn.completed","usage":{"input_tokens":9}}\n'
UNREADABLE = {
    "a lone surrogate": b'{"type":"turn.failed","error":{"message":"\\ud800"}}',
    "a byte that is no UTF-8": b'{"type":"turn.failed","error":{"message":"\xff"}}',
    "a NUL": b'{"type":"turn.failed","error":{"message":"\x00"}}',
    "cut": b'{"type":"turn.failed","err',
    "too long": b'{"type":"turn.failed","error":{"message":"' + b"x" * LINE_BYTES_MAX + b'"}}',
}


@pytest.mark.parametrize("line", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_an_event_that_cannot_be_read_takes_the_last_word_back(line: bytes, end: bytes) -> None:
    """It may have been the error that the agent ended in. Who says after it that it ended is believed."""
    assert heard(CODEX_END, "codex").finished
    assert heard(CODEX_END + line + end, "codex").is_cut
    assert heard(CODEX_END + line + b"\n" + CODEX_END, "codex").finished


def test_an_event_that_cannot_be_read_ends_no_trouble() -> None:
    """Nobody knows that the agent got over it."""
    failed = b'{"type":"turn.failed","error":{"message":"429 Too Many Requests"}}\n'
    assert heard(failed + UNREADABLE["cut"], "codex").trouble is AgentTrouble.LIMIT


def test_plain_lines_beside_the_events_take_nothing_back() -> None:
    """Agents print warnings beside their events, and a stream without events may print anything in braces."""
    assert heard(CODEX_END + b"(node:12) Warning: old API\n[cut\n} cut\n", "codex").finished
    assert heard(f"{AIDERS_TURN}{{cut\n".encode(), "aider").finished
