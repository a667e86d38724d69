"""Agents that speak a real dialect from a shell script: what a plan says of them and what they print."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.plans import parse_plan
from tests.support.repositories import Project
from tests.support.runs import Trial, sh

THREAD = {"type": "thread.started", "thread_id": "T-1"}
SAID = {"type": "item.completed", "item": {"type": "agent_message", "text": "It is done."}}
DONE = {"type": "turn.completed", "usage": {"input_tokens": 90, "output_tokens": 10}}


def say(*events: dict[str, Any]) -> str:
    """Return shell text that prints events as a stream."""
    return "; ".join(f"printf '%s\\n' {shlex.quote(json.dumps(event))}" for event in events)


def fails(message: str) -> dict[str, Any]:
    """Return the event with which Codex gives up."""
    return {"type": "turn.failed", "error": {"message": message}}


def uses(tokens: int) -> dict[str, Any]:
    """Return the event with which Codex tells what a turn used."""
    return {"type": "turn.completed", "usage": {"input_tokens": tokens, "output_tokens": 0}}


def codex(script: str, **more: Any) -> dict[str, Any]:
    """Return an agent of a plan that speaks Codex's stream."""
    return {"command": ["sh", "-c", script], "stream": "codex", **more}


def claude(script: str, **more: Any) -> dict[str, Any]:
    """Return an agent of a plan that speaks Claude Code's stream."""
    return {"command": ["sh", "-c", script], "stream": "claude", **more}


def answers(text: str = "on it", tokens: int = 5) -> dict[str, Any]:
    """Return the event with which Claude Code passes on what its model said."""
    message = {"id": text, "content": [{"type": "text", "text": text}], "usage": {"input_tokens": tokens}}
    return {"type": "assistant", "session_id": "S-1", "message": message}


def refused(status: int, words: str = "") -> dict[str, Any]:
    """Return the event with which Claude Code gives up after an answer with an HTTP status."""
    said = words or f"API Error: {status}"
    return {
        "type": "result",
        "subtype": "success",
        "is_error": True,
        "api_error_status": status,
        "result": said,
    }


def repeated(status: int) -> dict[str, Any]:
    """Return the event with which Claude Code repeats a request that failed with an HTTP status."""
    return {"type": "system", "subtype": "api_retry", "attempt": 1, "error_status": status}


FINISHED = {"type": "result", "subtype": "success", "is_error": False, "result": "done"}


def once(marker: Path, first: str, then: str) -> str:
    """Return shell text that does one thing the first time, ever, and another thing after."""
    return f"if mkdir {marker} 2>/dev/null; then {first}; else {then}; fi"


def work(name: str = "$HOLDFAST_TASK") -> str:
    """Return shell text that does a task well."""
    return f"{say(THREAD)}; echo done > {name}.txt; {say(SAID, DONE)}"


def judged_by(agent: str) -> dict[str, Any]:
    """Return a task that is done, and that an agent judges."""
    validators = [{"id": "critic", "prompt": "Judge it.", "agent": agent}]
    return sh("t", "echo x > t.txt", validators=validators)


def trial(
    project: Project, *names: str, agents: dict[str, Any], known: Sequence[str] = (), **plan: Any
) -> Trial:
    """Return a run of tasks that agents work on, by default agent a; a task `t:b` is agent b's."""
    tasks = [_task(*name.partition(":")[::2]) for name in names]
    document = {"holdfast": 1, "goal": "Try it", "agent": "a", "agents": agents, "tasks": tasks, **plan}
    return Trial.of_plan(project, parse_plan(json.dumps(document).encode(), "plan.json", known))


def _task(name: str, agent: str) -> dict[str, Any]:
    return {"id": name, "prompt": "do it", **({"agent": agent} if agent else {})}
