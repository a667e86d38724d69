"""Agents of `make test-agents` that print events of their own in JSON: Cline, Droid, pi and OpenHands.

Each is pointed at the scripted model by its own settings, as a user with a model of their own would do it. OpenHands
needs Python 3.12; where there is none, it is not installed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from holdfast.core.plan import AgentSpec
from tests.agents.real_agents import KEY, MORE, RealAgent, _env, _native

_MODEL = "fake-1"


def _cline(program: Path, url: str, home: Path) -> AgentSpec:
    name = "openai-compatible"
    settings = {"provider": name, "apiKey": KEY, "model": _MODEL, "baseUrl": f"{url}/v1"}
    provider = {"settings": settings, "updatedAt": "2026-01-01T00:00:00.000Z", "tokenSource": "manual"}
    known = {"version": 1, "lastUsedProvider": name, "modes": {}, "providers": {name: provider}}
    _write(home / ".cline" / "data" / "settings" / "providers.json", known)
    env = _env(home, CLINE_SESSION_BACKEND_MODE="local", CLINE_NO_AUTO_UPDATE="1", DO_NOT_TRACK="1")
    return AgentSpec(command=(str(program), "--json", "{brief}"), prompt="arg", env=env)


def _droid(program: Path, url: str, home: Path) -> AgentSpec:
    model = {
        "model": _MODEL,
        "displayName": "fake",
        "baseUrl": f"{url}/v1",
        "apiKey": KEY,
        "provider": "generic-chat-completion-api",
        "maxOutputTokens": 8_000,
    }
    _write(home / ".factory" / "settings.json", {"customModels": [model], "cloudSessionSync": False})
    fixed = ("exec", "-o", "stream-json", "--skip-permissions-unsafe", "-m", f"custom:{_MODEL}")
    # With a model of one's own it needs no key and no login of its maker.
    quiet = {"FACTORY_DROID_AUTO_UPDATE_ENABLED": "false", "FACTORY_OTEL_ENABLED": "false"}
    env = _env(home, OTEL_SDK_DISABLED="true", **quiet)
    return AgentSpec(command=(str(program), *fixed, "-f", "{brief}"), prompt="file", env=env)


def _pi(program: Path, url: str, home: Path) -> AgentSpec:
    prices = {"input": 1, "output": 2, "cacheRead": 0, "cacheWrite": 0}
    sizes = {"contextWindow": 100_000, "maxTokens": 8_000}
    model = {"id": _MODEL, "name": "fake", "reasoning": False, "input": ["text"], "cost": prices, **sizes}
    provider = {"baseUrl": f"{url}/v1", "apiKey": "FAKE_KEY", "api": "openai-completions", "models": [model]}
    _write(home / ".pi" / "agent" / "models.json", {"providers": {"fake": provider}})
    fixed = ("-p", "--mode", "json", "--provider", "fake", "--model", _MODEL)
    env = _env(home, FAKE_KEY=KEY, PI_OFFLINE="1", PI_TELEMETRY="0")
    return AgentSpec(command=(str(program), *fixed, "{brief}"), prompt="arg", env=env)


def _openhands(program: Path, url: str, home: Path) -> AgentSpec:
    env = _env(home, LLM_API_KEY=KEY, LLM_BASE_URL=f"{url}/v1", LLM_MODEL=f"openai/{_MODEL}")
    env |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENHANDS_SUPPRESS_BANNER": "1", "DO_NOT_TRACK": "1"}
    # It would fetch skills from GitHub.
    env |= {"GIT_ALLOW_PROTOCOL": "file"}
    # Its results name the Python that they find, which is the machine's own business.
    env |= {"PYTHONWARNINGS": "ignore", "PATH": f"{program.parent}:/usr/local/bin:/usr/bin:/bin"}
    fixed = ("--headless", "--json", "--override-with-envs", "-f", "{brief}")
    return AgentSpec(command=(str(program), *fixed), prompt="file", env=env)


def _write(path: Path, settings: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings))


CLINE = RealAgent("cline", _native(MORE, "@cline/cli", "bin/cline"), _cline)
DROID = RealAgent("droid", _native(MORE, "@factory/cli", "bin/droid"), _droid)
PI = RealAgent("pi", MORE / "node_modules" / ".bin" / "pi", _pi, node=20, resume=("--session", "{session}"))
OPENHANDS = RealAgent("openhands", MORE / "openhands" / "bin" / "openhands", _openhands)
