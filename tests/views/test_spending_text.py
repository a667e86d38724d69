"""Money, tokens and time for people: in `status`, `list`, `recap`, `inspect` and the last line of `run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Cli, writes
from tests.support.scripted_agents import say


def _claude(tokens: int, cached: int, cost: float) -> dict[str, Any]:
    """Return an agent that speaks Claude Code's stream and says what it used."""
    usage = {"input_tokens": tokens - cached, "output_tokens": 0, "cache_read_input_tokens": cached}
    result = {
        "type": "result",
        "subtype": "success",
        "usage": usage,
        "total_cost_usd": cost,
        "result": "done",
    }
    script = f"echo x > $HOLDFAST_TASK.txt; {say(result)}"
    return {"command": ["sh", "-c", script], "stream": "claude"}


@pytest.fixture(scope="module")
def spent(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A completed run of two stages: one agent tells money and its cache, one only tokens, a command nothing."""
    silent = {"command": ["sh", "-c", "echo y > $HOLDFAST_TASK.txt; holdfast report tokens 1500"]}
    first = {"id": "one", "tasks": [{"id": "a", "prompt": "a"}, {"id": "b", "prompt": "b"}]}
    command = {"id": "d", "run": ["sh", "-c", "echo d > d.txt"]}
    second = {"id": "two", "tasks": [{"id": "c", "prompt": "c", "agent": "silent"}, command]}
    cli = Cli.of(
        tmp_path_factory.mktemp("spent") / "p",
        agent="rich",
        agents={"rich": _claude(200_000, 150_000, 1.23), "silent": silent},
        stages=[first, second],
    )
    done = cli("run", "--yes")
    assert done.code == 0
    assert (
        "4 of 4 landed, 0 failed; $2.46 (told by all but 1 attempt), 401,500 tokens (75 % from cache)"
        in done.out
    )
    return cli


def test_status_tells_what_each_task_stage_agent_and_the_run_used(spent: Cli) -> None:
    """In tables for people; what nobody told is a dash, never 0."""
    text = spent("status").out
    lines = {line.split()[0]: line for line in text.splitlines() if line.strip()}
    assert "$2.46 (told by all but 1 attempt), 401,500 tokens (75 % from cache), agents worked" in text
    told = {
        name: ("$" in line, "," in line) for name, line in lines.items() if name in ("a", "c", "d", "one")
    }
    assert told == {"a": (True, True), "c": (False, True), "d": (False, False), "one": (True, True)}
    assert "200,000  $1.23" in lines["a"]
    assert "400,000  $2.46" in lines["one"]
    assert "75 %" in lines["rich"]
    assert "silent" in lines


def test_status_for_programs_has_the_same_with_null_for_unknown(spent: Cli) -> None:
    """Of the run, each stage, each task, each attempt and each agent."""
    view = spent.json("status")
    tasks = {task["id"]: task for task in view["tasks"]}
    assert (tasks["a"]["cost_usd"], tasks["c"]["cost_usd"], tasks["c"]["tokens"]) == (1.23, None, 1500)
    (attempt,) = tasks["a"]["spending_by_attempt"]
    assert (attempt["attempt"], attempt["agent"], attempt["cache_read"]) == (1, "rich", 150_000)
    assert attempt["worked_s"] > 0
    assert [stage["spending"]["cost_usd"] for stage in view["stages"]] == [2.46, None]
    assert view["metrics"]["spending"]["untold"] == 1
    assert [(agent["agent"], agent["attempts"]) for agent in view["agents"]] == [("rich", 2), ("silent", 1)]


def test_list_and_recap_tell_it_too(spent: Cli) -> None:
    """One column each in the list of runs; per task and agent in the recap."""
    heading, row = spent("list").out.splitlines()
    assert ("TOKENS" in heading, "COST" in heading, "401,500" in row, "$2.46" in row) == (True,) * 4
    assert spent.json("list")[0]["spending"]["cost_usd"] == 2.46
    recap = spent("recap").out
    assert "  $2.46 (told by all but 1 attempt), 401,500 tokens (75 % from cache)" in recap.splitlines()
    assert recap.count("$1.23") == 2
    assert "  $1.23, 200,000 tokens (75 % from cache), agents worked" in spent("inspect", "1", "a").out


def test_without_any_word_on_money_nothing_is_said_about_it(tmp_path: Path) -> None:
    """No column, no sentence, no zero."""
    ended = Cli.of(tmp_path / "p", writes("a"))
    assert "$" not in ended("run", "--yes").out
    for command in ("status", "list", "recap"):
        text = ended(command).out
        assert "$" not in text
        assert "COST" not in text
        assert "TOKENS" not in text
    assert ended.json("status")["metrics"]["cost_usd"] is None
