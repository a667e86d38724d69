"""Agents that word their own failures like work that is done: what tells both apart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.core.observations import AgentTrouble
from tests.agents.recordings import STREAMS, heard, heard_in

ERROR = "Ran into this error: Authentication error: Authentication failed. Status: 401 Unauthorized."
COMPLETE = {"type": "complete", "total_tokens": 1050}


def goose(*messages: dict[str, Any]) -> bytes:
    """Return a stream of goose with these messages and its end."""
    events = [{"type": "message", "message": {"role": "assistant", **one}} for one in messages]
    return b"".join(json.dumps(event).encode() + b"\n" for event in [*events, COMPLETE])


def says(words: str) -> list[dict[str, str]]:
    """Return the content of a message that is a text."""
    return [{"type": "text", "text": words}]


def mini(*lines: str) -> bytes:
    """Return what mini-swe-agent prints after a step."""
    return "\n".join(["mini-swe-agent (step 1, $0.02):", "```", "true", "```", *lines, ""]).encode()


@pytest.mark.parametrize("own", [None, "msg_a671637b-73f7-4316-a7f9-a1aeee326707"])
def test_gooses_own_error_is_no_last_word(own: str | None) -> None:
    """1.34 gives its own messages no id, 1.52 gives them one that it made."""
    told = heard(goose({"id": own, "content": says(ERROR)}), "goose")
    assert (told.trouble, told.finished) == (AgentTrouble.AUTH, False)


@pytest.mark.parametrize(
    "message", [{"id": "chatcmpl-7"}, {"id": "x", "metadata": {"inference": {"provider": "openai"}}}]
)
def test_what_gooses_model_says_of_an_error_is_none(message: dict[str, Any]) -> None:
    """The model's words are never searched."""
    told = heard(goose({**message, "content": says(ERROR)}), "goose")
    assert (told.trouble, told.finished) == (None, True)


def test_goose_that_asks_whether_to_go_on_is_not_done() -> None:
    """It reached the number of turns that it may take, and says so as itself."""
    marked = {
        "id": "chatcmpl-1",
        "metadata": {"inference": {"provider": "openai"}},
        "content": says("I begin."),
    }
    asks = {"id": "msg_1", "content": says("I've reached the maximum number of actions I can do.")}
    told = heard(goose(marked, asks), "goose")
    assert (told.trouble, told.finished, told.is_cut) == (None, False, True)


@pytest.mark.parametrize("limit", ["LimitsExceeded", "TimeExceeded", "RepeatedFormatError"])
def test_mini_swe_agents_own_limit_is_no_end(limit: str) -> None:
    """It ends with status 0 then, too."""
    told = heard(mini("", "Exit:", limit, "Saved trajectory to", "'/t.json'"), "mini-swe-agent")
    assert (told.trouble, told.finished) == (AgentTrouble.ERROR, False)
    assert limit in told.message


def test_a_heading_that_a_tool_printed_is_corrected_by_the_next_one() -> None:
    """An agent that works on such logs prints them; the work goes on after that."""
    told = heard(
        mini("", "Exit:", "", "Saved trajectory to", "'/t.json'") + mini("", "Tool:", "hello"),
        "mini-swe-agent",
    )
    assert (told.finished, told.cost_usd) == (False, 0.02)


def test_copilots_error_keeps_its_words() -> None:
    """The result that follows only repeats that it failed."""
    told = heard_in("copilot-late-bad-key.jsonl")
    assert "COPILOT_PROVIDER_API_KEY" in told.message


def test_copilots_404_is_told_by_the_words_of_the_provider() -> None:
    """Copilot itself calls each of them a model that was not found."""
    assert heard_in("copilot-bad-model.jsonl").trouble is AgentTrouble.MODEL
    assert heard_in("copilot-not-found.jsonl").trouble is AgentTrouble.OUTAGE


def test_copilot_that_ended_well_without_a_last_message_is_not_done() -> None:
    """Status 0 alone is no last word."""
    lines = (STREAMS / "copilot-ok.jsonl").read_bytes().splitlines(keepends=True)
    result = [line for line in lines if b'"type":"result"' in line]
    told = heard(b"".join([*lines[:12], *result]), "copilot")
    assert (told.trouble, told.finished) == (None, False)
