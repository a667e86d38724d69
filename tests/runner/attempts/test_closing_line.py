"""The closing line: an agent that prints the same after a good and after a failed last answer must end with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.presets import builtin_presets, presets_of
from holdfast.core import events as ev
from holdfast.core.status import FailureKind, RunStatus
from holdfast.errors import HoldfastError
from tests.support.repositories import Project
from tests.support.runs import Trial
from tests.support.scripted_agents import trial

HALF = "echo half > work.txt"
WHOLE = "echo whole >> work.txt"
CLOSED = "Wrote it.\n$line"


def goose(text: str) -> str:
    """Return a shell command that prints what goose does around a model's last answer. `$line` in it is the closing line."""
    message = {
        "id": "chatcmpl-1",
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "metadata": {"inference": {"provider": "openai"}},
    }
    events = [{"type": "message", "message": message}, {"type": "complete", "total_tokens": 10}]
    quoted = "\n".join(json.dumps(event) for event in events).replace('"', '\\"')
    return f'line=$(grep "^HOLDFAST: " "$0"); printf "%s\\n" "{quoted}"'


def one_task(tmp_path: Path, first: str, then: str, **agent: Any) -> Trial:
    """Return a run of one agent that reads its brief: the first attempt does one thing, later ones another."""
    script = f"if [ $HOLDFAST_ATTEMPT_NUMBER = 1 ]; then {first}; else {then}; fi"
    mine = {"command": ["sh", "-c", script, "{brief}"], "stream": "goose", **agent}
    return trial(Project.create(tmp_path / "p"), "t", agents={"a": mine}, limits={"attempts": 2})


def test_work_without_the_closing_line_does_not_land_and_a_fresh_agent_continues_it(tmp_path: Path) -> None:
    """The first answer broke off or was a refusal, which nobody can see; the second one is whole."""
    run = one_task(tmp_path, f"{HALF}; {goose('I will begin by')}", f"{WHOLE}; {goose(CLOSED)}")
    assert run.execute() is RunStatus.COMPLETED
    task = run.state().tasks["t"]
    assert [one.kind for one in task.failures] == [FailureKind.UNFINISHED]
    assert "closing line" in task.failures[0].error
    assert run.show("work.txt") == "half\nwhole"
    assert run.brief("t", 2).endswith("HOLDFAST: task t is done, attempt 2\n")


def test_the_line_of_an_earlier_attempt_closes_nothing(tmp_path: Path) -> None:
    """A resumed session knows it still."""
    earlier = goose("HOLDFAST: task t is done, attempt 1")
    run = one_task(tmp_path, f"{HALF}; {goose('oops')}", f"{WHOLE}; {earlier}")
    assert run.execute() is RunStatus.BLOCKED
    assert [one.kind for one in run.state().tasks["t"].failures] == [FailureKind.UNFINISHED] * 2
    assert run.landed() == []


def test_the_closing_line_is_no_summary_of_the_work(tmp_path: Path) -> None:
    """What is told of a landed task are the agent's words before it."""
    run = one_task(tmp_path, f"{WHOLE}; {goose(CLOSED)}", "false")
    assert run.execute() is RunStatus.COMPLETED
    assert run.of_kind(ev.AttemptDone)[0].summary == "Wrote it."


@pytest.mark.parametrize("agent", [{"closing_line": False}, {"stream": "raw"}])
def test_no_line_is_asked_of_an_agent_that_needs_none(tmp_path: Path, agent: dict[str, Any]) -> None:
    """The user knows that its model never writes one, or its output is plain."""
    run = one_task(tmp_path, f"{WHOLE}; {goose('Done.')}", "false", **agent)
    assert run.execute() is RunStatus.COMPLETED
    assert "HOLDFAST: " not in run.brief("t", 1)


def test_an_agent_of_the_users_file_has_the_rules_of_its_stream(tmp_path: Path) -> None:
    """Whether it is described in the plan or beside it: the closing line, and how its provider's errors are worded."""
    project = Project.create(tmp_path / "p")
    state = project.path / ".holdfast"
    state.mkdir()
    command = json.dumps(["sh", "-c", f"{HALF}; {goose('I will begin by')}", "{brief}"])
    (state / "agents.toml").write_text(f'[mine]\ncommand = {command}\nstream = "goose"\n')
    agents = {"a": {"preset": "mine"}}
    run = trial(project, "t", agents=agents, known=["mine"], limits={"attempts": 1})
    assert run.execute() is RunStatus.BLOCKED
    assert [one.kind for one in run.state().tasks["t"].failures] == [FailureKind.UNFINISHED]
    assert presets_of(project.path)["mine"].errors == builtin_presets()["goose"].errors


def test_a_closing_line_is_not_asked_of_plain_output(tmp_path: Path) -> None:
    """Nobody could find it there; the error says what to do."""
    (tmp_path / ".holdfast").mkdir()
    (tmp_path / ".holdfast/agents.toml").write_text('[mine]\ncommand = ["x"]\nclosing_line = true\n')
    with pytest.raises(HoldfastError, match="closing_line needs a stream") as refused:
        presets_of(tmp_path)
    assert "name its stream" in refused.value.hint
