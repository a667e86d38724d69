"""Records what only Claude Code has: `python -m tests.agents.record_claude [CASE…]`, after its version has changed.

A login instead of a key, usage credits, options that end a run, root, and sessions that are resumed. Sessions are recorded in
two versions, because they count differently: `PROGRAM_BEFORE=/path/to/claude` names the binary of the version 2.1.197, which
no test installs. Everything else is as in `record.py`.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from holdfast.core.plan import AgentSpec
from tests.agents.real_agents import CLAUDE, RealAgent
from tests.agents.record import RecordingCase, record_case, record_run, scratch_folder
from tests.scripted_model import ModelFault, Script, ScriptedModel, Shell, Write
from tests.scripted_model.anthropic_api import subscription_headers

LOGIN = {"CLAUDE_CODE_OAUTH_TOKEN": "sk-ant-oat01-dummy", "ANTHROPIC_API_KEY": ""}
"""Variables of a subscriber, in place of a key."""
SESSION = "6f3f5a52-3c1e-4a7e-9d0a-0d2f6c0f2b11"
BEFORE = "2-1-197"
_RESET = int(time.time()) + 3600
_WORK = Script((Write("greeting.txt", "hello\n"), Shell("cat greeting.txt")), say="Wrote greeting.txt.")
_LIMITED = replace(_WORK, fault=ModelFault.USAGE_LIMIT)
_STUCK = replace(_WORK, actions=(_WORK.actions[0], Shell("echo $$ > begun; while :; do sleep 0.1; done")))
_NO_CREDITS = {"overage": "rejected", "disabled": "out_of_credits"}


@dataclass(frozen=True, slots=True)
class ClaudeCase:
    """One recording: what the model does, and how Claude Code is started otherwise than usual."""

    served: str
    script: Script = _WORK
    env: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


CASES: Mapping[str, ClaudeCase] = {
    "login-usage-limit": ClaudeCase(
        "a login; 429 whose headers name a reset an hour ahead",
        replace(_LIMITED, headers=subscription_headers("rejected", _RESET, **_NO_CREDITS)),
        LOGIN,
    ),
    "login-weekly-limit": ClaudeCase(
        "a login; a file, then 429 whose headers name the weekly limit",
        replace(
            _LIMITED, after=1, headers=subscription_headers("rejected", _RESET, window="7d", **_NO_CREDITS)
        ),
        LOGIN,
    ),
    "overage": ClaudeCase(
        "a login; every answer says that the limit is reached and that usage credits pay",
        replace(_WORK, headers=subscription_headers("rejected", _RESET, overage="allowed")),
        LOGIN,
    ),
    "limit-warning": ClaudeCase(
        "a login; every answer warns of the weekly limit",
        replace(_WORK, headers=subscription_headers("allowed_warning", _RESET, window="7d")),
        LOGIN,
    ),
    "login-bad-key": ClaudeCase("a login; 401", replace(_WORK, fault=ModelFault.BAD_KEY), LOGIN),
    "permission": ClaudeCase(
        "as ok, but it must ask before it writes", options=("--permission-mode", "default")
    ),
    "max-turns": ClaudeCase("as ok, but it may take one turn", options=("--max-turns", "1")),
    "max-budget": ClaudeCase("as ok, but it may spend nearly nothing", options=("--max-budget-usd", "0.001")),
    "root": ClaudeCase("as ok, but root starts it outside of a sandbox", env={"IS_SANDBOX": ""}),
}


def main(names: list[str]) -> None:
    """Record the named cases, or all."""
    for name, case in CASES.items():
        if not names or name in names:
            agent = replace(CLAUDE, start=partial(_started, case))
            served = RecordingCase(case.served, script=case.script)
            print(name, record_case(agent, name, served))
    if not names or "sessions" in names:
        before = os.environ.get("PROGRAM_BEFORE", "")
        _record_sessions(CLAUDE, "")
        if before:
            _record_sessions(replace(CLAUDE, program=Path(before)), f"-{BEFORE}")


def _started(case: ClaudeCase, program: Path, url: str, home: Path) -> AgentSpec:
    usual = CLAUDE.start(program, url, home)
    return _with_options(usual, *case.options, env=case.env)


def _with_options(spec: AgentSpec, *options: str, env: Mapping[str, str] | None = None) -> AgentSpec:
    """Return how it is started with more options and other variables; an empty one is not set."""
    told = {name: value for name, value in {**spec.env, **(env or {})}.items() if value}
    return AgentSpec(command=(*spec.command[:-1], *options, spec.command[-1]), prompt=spec.prompt, env=told)


def _record_sessions(agent: RealAgent, version: str) -> None:
    """Record a session that ends and, of the newer version, one that is killed, and how each is resumed."""
    firsts = {"session": _WORK} if version else {"session": _WORK, "killed-session": _STUCK}
    for name, first in firsts.items():
        with scratch_folder() as root, ScriptedModel(_script_of(first)) as model:
            begin = ClaudeCase("a session", options=("--session-id", SESSION))
            again = ClaudeCase("the same session, and one command more", options=("--resume", SESSION))
            if first is _STUCK:
                threading.Thread(target=_kill_when_begun, args=(root / "workspace",)).start()
            for part, case in (("begun", begin), ("resumed", again)):
                started = replace(agent, start=partial(_started, case))
                file = f"{name}-{part}{version}"
                print(file, record_run(started, file, RecordingCase(case.served), root, model))


def _script_of(first: Script) -> Callable[[str], Script]:
    """Return the model of a session: whoever asks again after the first prompt gets one action more."""
    more = Script((*first.actions, Shell("echo more")), say="Said more.")
    return lambda prompt: more if prompt.count("# Task T1") > 1 else first


def _kill_when_begun(workspace: Path) -> None:
    """Kill the agent and its tool once that has begun; the tool says which process group it is a child's of."""
    begun = workspace / "begun"
    while not (begun.exists() and begun.read_text().endswith("\n")):
        time.sleep(0.05)
    tool = int(begun.read_text())
    agent = int(Path(f"/proc/{tool}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(agent, signal.SIGKILL)
    os.kill(tool, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])
