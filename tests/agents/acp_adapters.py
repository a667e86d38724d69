"""Agents of the Agent Client Protocol, behind `holdfast acp`: two adapters, and three agents that speak it themselves.

Each adapter brings its agent along: the one a native Claude Code, the other Codex in its own binary.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from holdfast.core.plan import AgentSpec
from tests.agents.real_agents import GEMINI, KEY, MORE, OPENCODE, QWEN, RealAgent, _env, _native

_DRIVER = (sys.executable, "-m", "holdfast", "acp", "--permissions", "allow", "--brief", "{brief}", "--")


def _claude_agent_acp(program: Path, url: str, home: Path) -> AgentSpec:
    env = _env(home, ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY=KEY, CLAUDE_CONFIG_DIR=str(home / ".claude"))
    # Without a bound it repeats a refused request for minutes and says nothing.
    env |= {"CLAUDE_CODE_MAX_RETRIES": "1", "ANTHROPIC_MODEL": "claude-sonnet-4-5"}
    env |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1", "IS_SANDBOX": "1"}
    return AgentSpec(command=(*_DRIVER, str(program)), prompt="file", env=env)


def _codex_acp(program: Path, url: str, home: Path) -> AgentSpec:
    provider = {"name": "fake", "base_url": f"{url}/v1", "env_key": "FAKE_KEY", "wire_api": "responses"}
    fields = [*(f"{key}={json.dumps(value)}" for key, value in provider.items())]
    fields += ["request_max_retries=2", "stream_max_retries=2"]
    settings = [
        "model=fake-1",
        "model_provider=fake",
        f"model_providers.fake={{{','.join(fields)}}}",
        "check_for_update_on_startup=false",
        "analytics.enabled=false",
        "features.plugins=false",
        'sandbox_mode="danger-full-access"',
        'approval_policy="never"',
    ]
    options = [word for setting in settings for word in ("-c", setting)]
    (home / "codex").mkdir(exist_ok=True)
    env = _env(home, CODEX_HOME=str(home / "codex"), FAKE_KEY=KEY, NO_BROWSER="1", RUST_LOG="off")
    return AgentSpec(command=(*_DRIVER, str(program), *options), prompt="file", env=env)


def _gemini_acp(program: Path, url: str, home: Path) -> AgentSpec:
    command = (*_DRIVER, str(program), "--acp", "-m", "gemini-2.5-pro")
    return AgentSpec(command=command, prompt="file", env=GEMINI.spec(url, home).env)


def _qwen_acp(program: Path, url: str, home: Path) -> AgentSpec:
    command = (*_DRIVER, str(program), "--acp", "--auth-type", "openai", "-m", "fake-1")
    return AgentSpec(command=command, prompt="file", env=QWEN.spec(url, home).env)


def _opencode_acp(program: Path, url: str, home: Path) -> AgentSpec:
    return AgentSpec(command=(*_DRIVER, str(program), "acp"), prompt="file", env=OPENCODE.spec(url, home).env)


_RESUME = ("--session", "{session}")
CLAUDE_AGENT_ACP = RealAgent(
    "claude-agent-acp",
    MORE / "node_modules" / ".bin" / "claude-agent-acp",
    _claude_agent_acp,
    node=20,
    resume=_RESUME,
)
CODEX_ACP = RealAgent(
    "codex-acp",
    _native(MORE, "@zed-industries/codex-acp", "bin/codex-acp"),
    _codex_acp,
    resume=_RESUME,
)
GEMINI_ACP = RealAgent("gemini-acp", GEMINI.program, _gemini_acp, node=20)
QWEN_ACP = RealAgent("qwen-acp", QWEN.program, _qwen_acp, node=20, resume=_RESUME)
OPENCODE_ACP = RealAgent("opencode-acp", OPENCODE.program, _opencode_acp, resume=_RESUME)
