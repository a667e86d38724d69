"""Event streams: what real agents wrote, cut anywhere, and what nobody should ever write."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from holdfast.agents.presets import agent_names, builtin_presets
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.agents.streams.reader import DIALECTS, LINE_BYTES_MAX, StreamReader
from holdfast.core.observations import AgentTrouble, StreamSummary, TroubleSeen
from holdfast.core.outcome import OutcomeKind
from holdfast.core.plan import STREAMS
from tests.agents.recordings import (
    agent_of,
    case_of,
    did_without,
    heard,
    heard_in,
    outcome_of,
    recorded,
)

ENDED_WELL = (
    *("ok", "patch", "failing-tool", "no-tool", "rate-limit-once", "limit-warning", "resumed", "overage"),
    *("session-begun", "session-resumed", "killed-session-resumed"),
    *("session-begun-2-1-197", "session-resumed-2-1-197"),
)
NO_SESSION = ("aider", "mini-swe-agent", "cline", "openhands")
NO_TOKENS = ("copilot", "vibe", "mini-swe-agent", "openhands")
GAVE_UP = ("codex-acp-rate-limit-once.jsonl",)
"""It repeats no request that met a limit."""
NO_LAST_WORD = ("mini-swe-agent",)


def _that(ended_well: bool) -> list[str]:
    well = {n for n in recorded() if case_of(n) in ENDED_WELL or did_without(n)} - set(GAVE_UP)
    return [n for n in recorded() if (n in well) is ended_well]


def lines(*events: Any) -> bytes:
    """Return events as a stream."""
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def test_there_is_a_reader_for_every_stream_that_a_plan_may_name() -> None:
    """The plan's list and the readers are the same list."""
    assert set(STREAMS) == {"raw", *DIALECTS}


@pytest.mark.parametrize("name", _that(ended_well=True))
def test_an_agent_that_ended_well_is_understood(name: str) -> None:
    """Its last word, its tokens and its session are read, and a trouble it got over is forgotten."""
    told, agent = heard_in(name), agent_of(name)
    assert told.trouble is None
    assert (told.tokens > 0) is (agent not in NO_TOKENS)
    assert bool(told.session) is (agent not in NO_SESSION)
    assert bool(told.text) is (agent not in NO_LAST_WORD)


@pytest.mark.parametrize("name", [name for name in _that(ended_well=False) if case_of(name) != "permission"])
def test_an_agent_that_did_not_end_well_is_not_taken_for_one_that_did(name: str) -> None:
    """Nothing that went wrong is judged as an end that went well."""
    assert outcome_of(name).end is not OutcomeKind.DONE


@pytest.mark.parametrize("name", list(recorded()))
@pytest.mark.parametrize("chunk", [1, 7, 4096])
def test_a_stream_cut_anywhere_tells_the_same(name: str, chunk: int) -> None:
    """Output comes as the pipe gives it; no byte boundary changes what is understood."""
    assert heard_in(name, chunk=chunk) == heard_in(name)


def test_reading_again_from_the_beginning_counts_nothing_twice() -> None:
    """A restarted runner reads the whole log again and arrives at the same totals."""
    assert heard_in("codex-ok.jsonl").tokens == heard_in("codex-ok.jsonl").tokens == 3150


def test_parts_of_one_message_count_once() -> None:
    """Claude Code repeats a message's usage for each of its parts."""
    part = {"type": "assistant", "message": {"id": "m1", "usage": {"input_tokens": 10, "output_tokens": 5}}}
    assert heard(lines(part, part, part), "claude").tokens == 15


def test_what_the_model_says_is_never_taken_for_a_limit() -> None:
    """Prose about limits is prose; only the agent's own error events and error lines count."""
    said = "You've hit your usage limit. 429 Too Many Requests. litellm.RateLimitError: no"
    message = {"type": "item.completed", "item": {"type": "agent_message", "text": said}}
    assert heard(lines(message), "codex").trouble is None
    assert heard(f"I see: {said}\n".encode(), "aider").trouble is None


@pytest.mark.parametrize("resets_at", [1794790000, 1794790000000])
def test_a_rejected_rate_limit_event_carries_its_reset_time(resets_at: int) -> None:
    """The best signal of all is a number, in seconds or in milliseconds."""
    event = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": resets_at}}
    told = heard(lines(event), "claude")
    assert (told.trouble, told.until) == (AgentTrouble.LIMIT, 1794790000.0)


@pytest.mark.parametrize("status", ["allowed", "allowed_warning"])
def test_a_warning_is_no_limit(status: str) -> None:
    """An agent that is told to slow down still works."""
    event = {"type": "rate_limit_event", "rate_limit_info": {"status": status, "resetsAt": 1794790000}}
    assert heard(lines(event), "claude").trouble is None


def test_success_in_name_with_is_error_is_an_error() -> None:
    """An API failure may come as subtype "success"."""
    event = {"type": "result", "subtype": "success", "is_error": True, "result": "oops"}
    assert heard(lines(event), "claude").trouble is AgentTrouble.ERROR


def test_an_http_status_tells_where_words_do_not() -> None:
    """The status of the failed request is structured, so it counts."""
    event = {
        "type": "result",
        "subtype": "success",
        "is_error": True,
        "result": "no",
        "api_error_status": 429,
    }
    assert heard(lines(event), "claude").trouble is AgentTrouble.LIMIT


def test_refused_permissions_are_named() -> None:
    """Who reads the report must know what was wanted."""
    denial = {"tool_name": "Bash", "tool_input": {"command": "rm -rf /"}}
    event = {"type": "result", "subtype": "success", "result": "done", "permission_denials": [denial]}
    assert heard(lines(event), "claude").denied == ("Bash (rm -rf /)",)


def test_a_result_with_status_error_is_an_error_whatever_the_exit_code() -> None:
    """Gemini ends with 0 when its stream is cut cleanly."""
    event = {"type": "result", "status": "error", "error": {"type": "Error", "message": "no finish reason"}}
    assert heard(lines(event), "gemini").trouble is AgentTrouble.ERROR


def test_opencode_adds_up_steps() -> None:
    """Tokens and cost come per step."""
    part = {"reason": "stop", "cost": 0.25, "tokens": {"input": 10, "output": 5, "cache": {"read": 1}}}
    step = {"type": "step_finish", "sessionID": "s", "part": part}
    told = heard(lines(step, step), "opencode")
    assert (told.tokens, told.cost_usd, told.session, told.finished) == (32, 0.5, "s", True)


def test_opencode_names_an_overflow() -> None:
    """Its errors have types."""
    event = {"type": "error", "error": {"name": "ContextOverflowError", "data": {"message": "too long"}}}
    assert heard(lines(event), "opencode").trouble is AgentTrouble.CONTEXT


def test_goose_that_asks_waits_for_nobody() -> None:
    """A question to a person is seen as such."""
    part = {"type": "toolConfirmationRequest", "toolName": "shell"}
    told = heard(lines({"type": "message", "message": {"content": [part]}}), "goose")
    assert (told.trouble, told.waits) == (AgentTrouble.PERMISSION, True)


def test_copilot_errors_have_kinds() -> None:
    """Its session errors say what they are about."""
    event = {"type": "session.error", "data": {"errorType": "quota", "message": "used up"}}
    assert heard(lines(event), "copilot").trouble is AgentTrouble.LIMIT


def test_aiders_own_error_lines_are_read() -> None:
    """aider ends with 0 whatever happens; its error lines begin with the library's name."""
    output = (
        b"litellm.RateLimitError: RateLimitError: OpenAIException - slow down\nRetrying in 0.2 seconds...\n"
    )
    assert heard(output, "aider").trouble is AgentTrouble.LIMIT


def test_a_turn_that_aider_paid_for_ends_the_trouble_before_it() -> None:
    """A retry that worked leaves no limit behind."""
    told = heard(
        b"litellm.RateLimitError: slow\nTokens: 2.1k sent, 100 received. Cost: $0.01 message, $0.02 session.\n",
        "aider",
    )
    assert (told.trouble, told.tokens, told.cost_usd) == (None, 2200, 0.01)


def test_a_huge_line_is_passed_over_and_the_next_one_read() -> None:
    """No agent fills our memory with one line."""
    stream = b"{" + b"x" * (LINE_BYTES_MAX + 10) + b"\n" + lines({"type": "thread.started", "thread_id": "t"})
    assert heard(stream, "codex", chunk=1 << 20).session == "t"


def test_an_unfinished_last_line_counts() -> None:
    """An agent that was killed may have no newline left to give."""
    assert heard(lines({"type": "thread.started", "thread_id": "t"}).rstrip(), "codex").session == "t"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["type", "item", "message", "content", "usage", "error", "data", "part", "tokens", "result", "status",
             "stats", "subtype", "rate_limit_info", "permission_denials", "session_id", "id", "text", "cost"]
        )
        | st.text(max_size=5),
        inner,
        max_size=6,
    ),
    max_leaves=12,
)  # fmt: skip
_KINDS = st.sampled_from(
    ["assistant", "user", "system", "result", "rate_limit_event", "error", "turn.completed", "item.completed",
     "init", "tool_use", "step_finish", "complete", "session.error", "assistant.usage", "turn.failed"]
)  # fmt: skip


@pytest.mark.parametrize("stream", list(DIALECTS))
@settings(max_examples=60, deadline=None)
@given(kind=_KINDS, event=_JSON)
def test_no_event_makes_a_dialect_raise(stream: str, kind: str, event: Any) -> None:
    """Known names with values of any kind: each is read as far as it makes sense."""
    total = StreamSummary()
    fields = event if isinstance(event, dict) else {"message": event}
    for seen in DIALECTS[stream](ErrorPatterns()).read({**fields, "type": kind}):
        total.take(seen)
    assert total.tokens >= 0


@pytest.mark.parametrize("agent", agent_names(builtin_presets()))
@settings(max_examples=40, deadline=None)
@given(data=st.binary(max_size=400), cut=st.integers(0, 400))
def test_no_bytes_stop_a_reader(agent: str, data: bytes, cut: int) -> None:
    """Whatever comes, cut wherever: the reader goes on, and the next good line is read."""
    preset = builtin_presets()[agent]
    reader = StreamReader(preset.stream, preset.error_patterns())
    reader.feed(data[:cut])
    reader.feed(data[cut:])
    reader.feed(b"\n{" * 3 + b"[" * 5000 + b"\n")
    assert isinstance(reader.close(), list)


def test_the_more_telling_of_two_troubles_is_kept() -> None:
    """After a limit many agents add that the turn failed."""
    total = StreamSummary()
    total.take(TroubleSeen(AgentTrouble.LIMIT, "limit", 5.0))
    total.take(TroubleSeen(AgentTrouble.ERROR, "failed"))
    assert (total.trouble, total.message, total.until) == (AgentTrouble.LIMIT, "limit", 5.0)


def test_an_error_as_long_as_a_file_is_understood_without_searching_it_all() -> None:
    """A pattern in a long message would take minutes, and the runner with it; what an error means stands in front."""
    message = "it failed: " + "the file exceeds " * 200_000
    told = heard(lines({"type": "result", "is_error": True, "result": message}), "claude")
    assert told.trouble is AgentTrouble.ERROR


def test_a_session_that_looks_like_an_option_is_none() -> None:
    """To go on with it would be to add to the agent's command line what its output says."""
    assert not heard(lines({"type": "thread.started", "thread_id": "--yolo"}), "codex").session
