"""Agents that speak the Agent Client Protocol: progress, permissions, cancel, usage and errors, through `holdfast acp`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.acp.permissions import NamedToolCall, PermissionPolicy, choose_option, is_allowed
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.agents.streams.reader import StreamReader
from holdfast.core.observations import AgentTrouble, StreamSummary
from holdfast.core.status import RunStatus
from tests.agents.agent_project import BuildProject, task
from tests.agents.real_agents import QWEN
from tests.scripted_model import Script, Write
from tests.support.command import Cli, eventually
from tests.support.preloaded_command import ACP, ForkedProcess, preloaded_command
from tests.support.repositories import Project
from tests.support.runs import Trial, stage as plan_stage

SCRIPTED = Path(__file__).with_name("acp_agent.py")
AGENT = [sys.executable, str(SCRIPTED)]
ADAPTER = [sys.executable, "-m", "holdfast", "acp"]


def adapter(folder: Path, behaviour: str, *options: str) -> ForkedProcess:
    """Start the adapter with the test's agent behind it. Both are forks: importing the library takes most of a second."""
    forking = preloaded_command(ACP)
    agent = forking.stand_in(f"import runpy; runpy.run_path({str(SCRIPTED)!r}, run_name='__main__')")
    words = ["acp", *options, "--", *agent, behaviour]
    return forking.start(folder, words, os.environ, text=b"Write the answer", told=True)


def told(folder: Path, behaviour: str, *options: str) -> tuple[int, list[dict[str, Any]]]:
    """Return how a conversation ended and the lines it printed."""
    process = adapter(folder, behaviour, *options)
    out = process.communicate(timeout=60)[0]
    return process.wait(), [json.loads(line) for line in out.splitlines()]


def heard(lines: list[dict[str, Any]], **patterns: list[str]) -> StreamSummary:
    """Return what the lines add up to, with these patterns of a preset."""
    reader = StreamReader(
        "acp", ErrorPatterns.of({AgentTrouble(name): some for name, some in patterns.items()}, {}, {})
    )
    found = StreamSummary()
    for line in lines:
        for seen in reader.feed(json.dumps(line).encode() + b"\n"):
            found.take(seen)
    return found


def test_progress_usage_and_the_end_are_told(tmp_path: Path) -> None:
    """The session's name, tools, tokens, money and the last word reach whoever reads the stream."""
    code, lines = told(tmp_path, "work")
    found = heard(lines)
    assert (code, found.finished, found.session, found.text) == (0, True, "session-1", "All done.")
    assert (found.tokens, found.cost_usd) == (1200, 0.25)
    assert (tmp_path / "answer.txt").read_text() == "Write the answer"


@pytest.mark.parametrize(("policy", "expected"), [("workspace", "no"), ("allow", "yes"), ("refuse", "no")])
def test_permission_is_answered_by_the_policy(tmp_path: Path, policy: str, expected: str) -> None:
    """Nobody is there to ask: the policy answers at once, and what was refused is told."""
    _, lines = told(tmp_path, "ask", "--permissions", policy)
    assert (tmp_path / "answer.txt").read_text() == expected
    assert heard(lines).denied == (() if expected == "yes" else ("Edit /etc/hosts",))


def test_a_usage_limit_is_known_by_its_type(tmp_path: Path) -> None:
    """The typed error of the protocol is enough; nobody greps what an agent says."""
    code, lines = told(tmp_path, "limit")
    assert code == 1
    assert heard(lines, limit=["usageLimitExceeded"]).trouble is AgentTrouble.LIMIT


def test_a_missing_login_is_known_by_its_code(tmp_path: Path) -> None:
    """The protocol has a code for it."""
    assert heard(told(tmp_path, "auth")[1]).trouble is AgentTrouble.AUTH


def test_an_agent_that_dies_in_its_turn_is_a_failure(tmp_path: Path) -> None:
    """Nothing hangs, and the error says what happened."""
    code, lines = told(tmp_path, "die")
    assert (code, heard(lines).trouble) == (1, AgentTrouble.ERROR)


def test_a_stop_cancels_the_turn(tmp_path: Path) -> None:
    """The agent is told to end its turn, so that it can end its own tools first."""
    process = adapter(tmp_path, "hang")
    eventually((tmp_path / "hanging.txt").exists, "the agent is in its turn")
    process.send_signal(signal.SIGTERM)
    out = process.communicate(timeout=60)[0]
    assert (tmp_path / "cancelled.txt").read_text() == "session-1"
    assert json.loads(out.splitlines()[-1]) == {"type": "acp.done", "stop_reason": "cancelled"}


def test_a_launcher_and_the_agent_behind_it_end_with_the_turn(tmp_path: Path) -> None:
    """A launcher passes no signal on; what it launched ends all the same, and nobody sees a traceback."""
    words = [*ADAPTER, "--", "sh", "-c", '"$@"; :', "launcher", *AGENT, "linger"]
    done = subprocess.run(words, cwd=tmp_path, input=b"Write the answer", capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert not Path("/proc", (tmp_path / "pid.txt").read_text()).exists()


@pytest.mark.parametrize("reason", ["refusal", "cancelled", "max_tokens", "max_turn_requests"])
def test_only_the_end_of_a_turn_is_a_success(tmp_path: Path, reason: str) -> None:
    """A turn that stopped for another reason is no last word, whatever had been done by then."""
    (tmp_path / "end.txt").write_text(reason)
    code, lines = told(tmp_path, "end")
    assert code != 0
    assert (heard(lines).finished, heard(lines).trouble is None) == (False, False)


def test_a_stop_reason_that_nobody_knows_is_no_success() -> None:
    """A newer protocol may have more of them; in doubt the work is not done."""
    found = heard([{"type": "acp.done", "stop_reason": "paused"}])
    assert (found.finished, found.trouble) == (False, AgentTrouble.ERROR)


def test_a_session_is_loaded_where_the_agent_can(tmp_path: Path) -> None:
    """Native resume: the agent goes on with its own conversation."""
    told(tmp_path, "work", "--session", "session-0")
    assert (tmp_path / "loaded.txt").read_text() == "session-0"


def test_what_an_agent_repeats_of_a_loaded_session_is_not_told_as_new(tmp_path: Path) -> None:
    """No model has answered yet: a limit met right after it is no sign that the provider works, and nothing was done."""
    _, lines = told(tmp_path, "limit", "--session", "session-0")
    assert lines[0] == {"type": "acp.session", "session": "session-0"}
    found = heard(lines)
    assert (found.text, found.tokens, lines[1].get("tool")) == ("", 0, "Write answer.txt")


def test_a_session_that_the_agent_forgot_is_known_by_its_code(tmp_path: Path) -> None:
    """A fresh agent can then go on instead."""
    code, lines = told(tmp_path, "forgotten", "--session", "session-0")
    assert (code, heard(lines).trouble) == (1, AgentTrouble.SESSION)


def test_the_usage_before_an_error_is_not_counted() -> None:
    """Codex calls its context full when a request did not fit; nobody was charged for that."""
    used: list[dict[str, Any]] = [
        {"type": "acp.usage", "tokens": 1050},
        {"type": "acp.usage", "tokens": 258400},
    ]
    assert heard([*used, {"type": "acp.error", "code": -32603, "message": "no room"}]).tokens == 1050
    assert heard([*used, {"type": "acp.done", "stop_reason": "end_turn"}]).tokens == 258400


def test_an_http_status_in_the_details_of_an_error_is_read() -> None:
    """Each agent names it in a way of its own; without telling words it says what went wrong."""
    for detail in ('{"http_status_code":503}', '{"status": 503}', '{"statusCode":503}'):
        error = {"type": "acp.error", "code": -32603, "message": "Internal error", "detail": detail}
        assert heard([error]).trouble is AgentTrouble.OUTAGE


def test_without_a_command_the_error_says_where_it_goes(tmp_path: Path) -> None:
    """Bad usage is answered with the way out."""
    done = subprocess.run(ADAPTER, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"after `--`" in done.stderr


def test_a_link_out_of_the_workspace_is_outside(tmp_path: Path) -> None:
    """A path counts for where it leads."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "link").symlink_to("/etc")
    where = str(tmp_path / "work")
    edit = NamedToolCall("edit", frozenset({"a/b.txt", f"{where}/c"}))
    assert is_allowed(PermissionPolicy.WORKSPACE, edit, where)
    for path in ("link/hosts", "../x", "a/../../x"):
        assert not is_allowed(PermissionPolicy.WORKSPACE, NamedToolCall("edit", edit.paths | {path}), where)


IN_WORKSPACE: list[dict[str, Any]] = [
    {"locations": [{"path": "a.txt"}]},
    {"content": [{"type": "diff", "path": "src/b.txt", "newText": "x"}]},
]
NOT_PLAINLY: list[dict[str, Any]] = [
    {},
    {"locations": []},
    {"locations": [{"path": "a.txt"}], "kind": "execute"},
    {"locations": [{"path": "a.txt"}], "kind": "fetch"},
    {"locations": [{"path": "a.txt"}], "kind": None},
    {"content": [{"type": "diff", "path": "/etc/passwd", "newText": "x"}]},
    {"locations": [{"path": "a.txt"}], "content": [{"type": "diff", "path": "/etc/passwd", "newText": "x"}]},
    {"locations": [{"path": "a.txt"}], "rawInput": {"file_path": "/etc/passwd"}},
    {"locations": [{"path": "~/.ssh/authorized_keys"}]},
    {"locations": [{"path": "$HOME/.bashrc"}]},
    {"locations": [{"path": "file:///etc/passwd"}]},
    {"locations": [{"path": "a/../../b.txt"}]},
]


def test_in_the_workspace_only_what_plainly_stays_there_is_allowed(tmp_path: Path) -> None:
    """Where nobody can be asked, a request that names no file, or not clearly one of the workspace, is refused."""
    (tmp_path / "requests.json").write_text(json.dumps(IN_WORKSPACE + NOT_PLAINLY))
    told(tmp_path, "ask", "--permissions", "workspace")
    answers = (tmp_path / "answer.txt").read_text().splitlines()
    assert answers == ["yes"] * len(IN_WORKSPACE) + ["no"] * len(NOT_PLAINLY)


def test_an_answer_for_once_is_preferred_to_one_for_ever() -> None:
    """A permanent rule would outlive its reason. Where no option fits, the request is cancelled."""
    allowing = {"allow_always": "a", "allow_once": "b"}
    assert choose_option({**allowing, "reject_always": "c"}, allowed=True) == "b"
    assert choose_option({**allowing, "reject_always": "c"}, allowed=False) == "c"
    assert choose_option(allowing, allowed=False) == ""


def test_a_plan_is_run_by_agents_that_speak_the_protocol(tmp_path: Path) -> None:
    """X5: any ACP agent works a task like every other agent; its usage is counted, its work lands."""
    command = [*ADAPTER, "--brief", "{brief}", "--", *AGENT, "work"]
    agents = {"spoken": {"command": command, "stream": "acp"}}
    work = {"id": "A", "prompt": "Write the answer"}
    trial = Trial.of(Project.create(tmp_path / "p"), plan_stage("one", work), agent="spoken", agents=agents)
    assert trial.execute() is RunStatus.COMPLETED
    assert "Write the answer" in trial.show("answer.txt")
    assert trial.state().row.cost_usd == 0.25


def test_a_real_agent_works_a_task_over_the_protocol(stage: BuildProject) -> None:
    """Qwen Code, started as the preset starts it, talks to the adapter; its session and its work are ours to see."""
    if QWEN.missing:
        pytest.skip(QWEN.missing)
    here = stage({"a": Script((Write("new/a.txt", "over the wire\n"),))})
    spec = QWEN.spec(here.model.url("ok"), here.place / "home")
    command = [
        *ADAPTER,
        "--brief",
        "{brief}",
        "--",
        str(QWEN.program),
        "--acp",
        "--auth-type",
        "openai",
        "-m",
        "fake-1",
    ]
    agents = {"qwen": {"command": command, "stream": "acp", "env": spec.env}}
    Cli.of(here.place / "p", task("a"), agent="qwen", agents=agents)
    assert here.execute() == 0
    assert here.show("new/a.txt") == "over the wire"
    assert '"type":"acp.session"' in here.log("a")
    here.nothing_lives()


def test_an_agent_that_says_nothing_gets_no_traceback(tmp_path: Path) -> None:
    """One line says what happened; the library's own log does not."""
    done = Cli(tmp_path).piped("a brief", "acp", "--", "true")
    assert (done.code, done.err) == (1, "")
    assert "acp.error" in done.out
