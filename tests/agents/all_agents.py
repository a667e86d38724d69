"""Every real agent of the tests. `make test` installs the first three, `make test-agents` the rest."""

from __future__ import annotations

from tests.agents.acp_adapters import CLAUDE_AGENT_ACP, CODEX_ACP, GEMINI_ACP, OPENCODE_ACP, QWEN_ACP
from tests.agents.json_agents import CLINE, DROID, OPENHANDS, PI
from tests.agents.real_agents import (
    AIDER,
    CLAUDE,
    CODEX,
    COPILOT,
    GEMINI,
    GOOSE,
    MINI,
    OPENCODE,
    QWEN,
    QWEN_0_15,
    VIBE,
)

IN_EVERY_TEST = (CODEX, QWEN, CLAUDE)
MORE_AGENTS = (
    QWEN_0_15,
    GEMINI,
    OPENCODE,
    AIDER,
    GOOSE,
    COPILOT,
    VIBE,
    MINI,
    CLINE,
    DROID,
    PI,
    OPENHANDS,
    CLAUDE_AGENT_ACP,
    CODEX_ACP,
    GEMINI_ACP,
    QWEN_ACP,
    OPENCODE_ACP,
)
AGENTS = {agent.name: agent for agent in (*IN_EVERY_TEST, *MORE_AGENTS)}
