"""The table of promises: its page and its stored results have all agents and all promises, and nothing else."""

from __future__ import annotations

import pytest

from holdfast.agents.presets import builtin_presets
from tests.agents.all_agents import AGENTS
from tests.agents.failure_table import PAGE
from tests.agents.promise_table import STORED, WRITE, merged, read, table, with_table, word_for
from tests.agents.promises import CANNOT, Promise, obstacle
from tests.agents.recordings import agent_of, case_of, heard_in, index, preset_of
from tests.agents.test_promises import ANSWER_TOKENS


def test_the_page_has_the_table_of_promises() -> None:
    """`make test-agents`, then `python -m tests.agents.promise_table`, writes it."""
    assert "<!-- promises -->" in PAGE.read_text()
    assert PAGE.read_text() == with_table(PAGE.read_text()), f"{WRITE} writes the table"


def test_every_agent_was_run_for_every_promise() -> None:
    """A new agent or a new promise has its cells before it is believed."""
    expected = {agent: [promise.value for promise in Promise] for agent in AGENTS}
    assert {agent: list(row) for agent, row in read(STORED).items()} == expected


def test_what_an_agent_cannot_do_is_what_is_stored() -> None:
    """The data says so in one word; a promise that was kept is none that cannot be kept."""
    told = {
        (agent, promise): word.removeprefix("cannot: ")
        for agent, row in read(STORED).items()
        for promise, word in row.items()
        if word.startswith("cannot: ")
    }
    assert told == {(agent, promise): why for promise, row in CANNOT.items() for agent, why in row.items()}


def test_only_agents_that_no_preset_can_resume_have_no_session() -> None:
    """The preset says how a session is resumed; nothing else may keep a test of it away."""
    without = {name for name in AGENTS if not builtin_presets()[preset_of(name)].resume}
    assert set(CANNOT[Promise.SESSION]) == without
    assert not any(agent.resume for name, agent in AGENTS.items() if name in without)


def test_an_agent_whose_tokens_cannot_be_counted_was_recorded_like_that() -> None:
    """Once a recording tells them, the agent can."""
    recorded = [
        name for name in index() if agent_of(name) in CANNOT[Promise.TOKENS] and case_of(name) == "ok"
    ]
    assert recorded
    assert all(heard_in(name).tokens < 3 * ANSWER_TOKENS for name in recorded)


@pytest.mark.parametrize(
    ("failed", "reason", "word"),
    [
        (False, None, "yes"),
        (True, None, "no"),
        (False, "Skipped: cannot: untold", "cannot: untold"),
        (False, "Skipped: goose is not installed: /x is missing", "not installed"),
        (False, "Skipped: qwen needs Node 20 or newer", "not installed"),
        (False, "Skipped: there is no bubblewrap", "skipped"),
    ],
)
def test_the_table_says_how_a_test_ended(failed: bool, reason: str | None, word: str) -> None:
    """A skip says whether the agent cannot, or is not there, or the machine lacks something."""
    assert word_for(failed=failed, skipped_because=reason) == word


def test_what_did_not_run_stays_as_it_was() -> None:
    """A part of the tests replaces a part of the table; in the table of a part, the rest says that it did not run."""
    known, newer = {"codex": {Promise.PLAN: "yes", Promise.STOP: "no"}}, {"codex": {Promise.STOP: "yes"}}
    assert merged(known, newer)["codex"] == {Promise.PLAN: "yes", Promise.STOP: "yes"}
    row = next(line for line in table(newer).splitlines() if line.startswith("| `codex`"))
    assert row.split(" | ")[1:3] == ["not run", "yes"]
    assert obstacle(Promise.TOKENS, "vibe") in table({})
