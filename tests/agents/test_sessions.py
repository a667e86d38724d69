"""Recorded streams of resumed sessions: what is new in them, and how each agent says that a session is gone."""

from __future__ import annotations

import pytest

from holdfast.agents.presets import builtin_presets
from holdfast.agents.streams.reader import StreamReader
from holdfast.core.observations import AgentTrouble
from holdfast.core.projection import Spent
from tests.agents.recordings import STREAMS, agent_of, case_of, heard_in, recorded

ANSWER = 1050
"""The tokens that each answer of the scripted model claims."""
FIRST_RUN = 3
"""The answers of the run whose session is resumed."""
RESUMED = {"qwen": 2}
"""The answers that count in the resumed one, if more than one: Qwen asks besides whose turn it is."""

NO_TOKENS = ("copilot", "vibe")


def _of_case(case: str) -> list[str]:
    return [name for name in recorded() if case_of(name) == case]


@pytest.mark.parametrize("name", [name for name in _of_case("resumed") if agent_of(name) not in NO_TOKENS])
def test_what_a_resumed_session_had_used_is_not_counted_again(name: str) -> None:
    """Codex, Qwen and goose go on counting where the session was left; Gemini and opencode begin anew."""
    preset = builtin_presets()[agent_of(name)]
    before = Spent(tokens=FIRST_RUN * ANSWER)
    reader = StreamReader(preset.stream, preset.error_patterns(), before)
    told = reader.new_summary()
    for seen in (*reader.feed((STREAMS / name).read_bytes()), *reader.close()):
        told.take(seen)
    assert told.finished
    assert told.tokens == RESUMED.get(agent_of(name), 1) * ANSWER


@pytest.mark.parametrize("name", _of_case("unknown-session"))
def test_a_session_that_is_gone_is_told_from_other_errors(name: str) -> None:
    """A fresh agent takes over then; an error would be charged, and the same session tried again."""
    assert heard_in(name).trouble is AgentTrouble.SESSION
