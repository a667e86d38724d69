"""The closing line: an agent that prints the same after a good and after a failed last answer must end with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.core import events as ev
from holdfast.core.status import FailureKind, RunStatus
from tests.support.repositories import Project
from tests.support.runs import Trial
from tests.support.scripted_agents import trial

HALF = "echo half > work.txt"
WHOLE = "echo whole >> work.txt"


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
    run = one_task(tmp_path, f"{HALF}; {goose('I will begin by')}", f"{WHOLE}; {goose('Done.$line')}")
    assert run.execute() is RunStatus.COMPLETED
    task = run.state().tasks["t"]
    assert [one.kind for one in task.failures] == [FailureKind.UNFINISHED]
    assert "`closing_line: false`" in task.failures[0].error
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
    run = one_task(tmp_path, f"{WHOLE}; {goose('Wrote it.' + chr(10) + '$line')}", "false")
    assert run.execute() is RunStatus.COMPLETED
    assert run.of_kind(ev.AttemptDone)[0].summary == "Wrote it."


@pytest.mark.parametrize("agent", [{"closing_line": False}, {"stream": "raw"}])
def test_no_line_is_asked_of_an_agent_that_needs_none(tmp_path: Path, agent: dict[str, Any]) -> None:
    """The user knows that its model never writes one, or its output is plain."""
    run = one_task(tmp_path, f"{WHOLE}; {goose('Done.')}", "false", **agent)
    assert run.execute() is RunStatus.COMPLETED
    assert "HOLDFAST: " not in run.brief("t", 1)
