"""Real agents, each pointed at a scripted model: where they are installed and how they are started.

`make test` installs Codex, Qwen Code and Claude Code, `make test-agents` the rest. Nothing here reaches beyond loopback: keys are
dummies, telemetry and updates are off, and each agent has a home of its own.
"""

from __future__ import annotations

import functools
import json
import platform
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from holdfast.core.plan import AgentSpec

HERE = Path(__file__).parent
MORE = HERE / "more"
KEY = "dummy-key"
_MODEL = "fake-1"
CLAUDE_MODEL = "claude-sonnet-4-5"
"""A model whose price Claude Code knows."""


@dataclass(frozen=True, slots=True)
class RealAgent:
    """A coding agent that may be installed. `start` takes its program, a model's address and a home folder.

    `node` is the oldest Node that it was seen to work with; 0 for an agent that needs none. A `plain` one prints no
    events, only text. `resume` are the words that stand before the prompt to resume a `{session}`; none for an agent that
    cannot. `shell` are those by which an agent without tools runs a `{command}` after its work. `hasty` are variables
    with which it gives up sooner when its model fails.
    """

    name: str
    program: Path
    start: Callable[[Path, str, Path], AgentSpec]
    node: int = 0
    plain: bool = False
    resume: tuple[str, ...] = ()
    shell: tuple[str, ...] = ()
    hasty: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> str:
        """Why the agent cannot be used, or an empty string."""
        if not self.program.exists():
            return f"{self.name} is not installed: {self.program} is missing"
        return "" if node_version() >= self.node else f"{self.name} needs Node {self.node} or newer"

    def spec(self, url: str, home: Path) -> AgentSpec:
        """Return how a plan starts the agent, with `{brief}` for the prompt."""
        for folder in (home, home / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        return self.start(self.program, url, home)

    def resuming(self, spec: AgentSpec, session: str) -> AgentSpec:
        """Return how a plan has the agent resume a session."""
        return _with_words(spec, *(word.replace("{session}", session) for word in self.resume))

    def running(self, spec: AgentSpec, command: str) -> AgentSpec:
        """Return how a plan has an agent without tools run a command; one with tools is told by its model."""
        return _with_words(spec, *(word.replace("{command}", command) for word in self.shell))


def _with_words(spec: AgentSpec, *words: str) -> AgentSpec:
    """Put more words before the prompt."""
    prompt = -2 if spec.command[-2] in ("-p", "-i", "--message-file") else -1
    if "--" in spec.command:  # what comes behind it is the command of another program
        prompt = spec.command.index("--")
    return msgspec.structs.replace(spec, command=(*spec.command[:prompt], *words, *spec.command[prompt:]))


@functools.cache
def node_version() -> int:
    """Return the major version of Node, or 0 without one."""
    if shutil.which("node") is None:
        return 0
    done = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    return int(done.stdout.lstrip("v").partition(".")[0])


def _env(home: Path, **more: str) -> dict[str, str]:
    """Return what every agent gets. Codex wants its home outside of $TMPDIR, which is why that lies inside of it."""
    return {"HOME": str(home), "TMPDIR": str(home / "tmp"), "TERM": "dumb", **more}


def _codex(program: Path, url: str, home: Path) -> AgentSpec:
    provider = {"name": "fake", "base_url": f"{url}/v1", "env_key": "FAKE_KEY", "wire_api": "responses"}
    fields = [*(f"{key}={json.dumps(value)}" for key, value in provider.items())]
    fields += ["request_max_retries=2", "stream_max_retries=2"]
    settings = [
        "model_provider=fake",
        f"model_providers.fake={{{','.join(fields)}}}",
        "check_for_update_on_startup=false",
        "analytics.enabled=false",
    ]
    options = [word for setting in settings for word in ("-c", setting)]
    fixed = ("exec", "--json", "--disable", "plugins", "-s", "danger-full-access", "-m", _MODEL)
    command = (str(program), *fixed, "-C", "{workspace}", *options, "{brief}")
    env = _env(home, CODEX_HOME=str(home / "codex"), FAKE_KEY=KEY)
    (home / "codex").mkdir(exist_ok=True)
    return AgentSpec(command=command, prompt="arg", env=env)


def _qwen(program: Path, url: str, home: Path) -> AgentSpec:
    fixed = ("--auth-type", "openai", "-m", _MODEL, "-y", "--output-format", "stream-json")
    env = _env(home, OPENAI_BASE_URL=f"{url}/v1", OPENAI_API_KEY=KEY)
    env |= {"QWEN_CODE_NO_RELAUNCH": "true", "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1", "OPENAI_LOG": "info"}
    settings = {"general": {"disableAutoUpdate": True}, "privacy": {"usageStatisticsEnabled": False}}
    _settings(home / ".qwen", settings)
    return AgentSpec(command=(str(program), *fixed, "{brief}"), prompt="arg", env=env)


def _claude(program: Path, url: str, home: Path) -> AgentSpec:
    fixed = ("-p", "--output-format", "stream-json", "--verbose", "--model", CLAUDE_MODEL)
    permissions = ("--permission-mode", "bypassPermissions")
    # As root it wants to be told that it is in a sandbox, whatever the machine of the tests says.
    env = _env(home, **claude_variables(url), IS_SANDBOX="1")
    return AgentSpec(command=(str(program), *fixed, *permissions, "{brief}"), prompt="arg", env=env)


def claude_variables(url: str) -> dict[str, str]:
    """Return what points Claude Code at a model, with a key, and keeps it from everything else."""
    quiet = (
        "DISABLE_TELEMETRY",
        "DISABLE_AUTOUPDATER",
        "DISABLE_ERROR_REPORTING",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    )
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, **dict.fromkeys(quiet, "1")}


def _gemini(program: Path, url: str, home: Path) -> AgentSpec:
    fixed = ("--approval-mode", "yolo", "--skip-trust", "-m", "gemini-2.5-pro", "-o", "stream-json", "-p")
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "general": {"enableAutoUpdate": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
    _settings(home / ".gemini", settings)
    env = _env(home, GOOGLE_GEMINI_BASE_URL=url, GEMINI_API_KEY=KEY, GEMINI_CLI_NO_RELAUNCH="true")
    return AgentSpec(command=(str(program), *fixed, "{brief}"), prompt="arg", env=env)


def _opencode(program: Path, url: str, home: Path) -> AgentSpec:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
        "models": {_MODEL: {"limit": {"context": 100_000, "output": 8_000}}},
    }
    names = {"model": f"fake/{_MODEL}", "small_model": f"fake/{_MODEL}"}
    config = {"provider": {"fake": provider}, "autoupdate": False, "share": "disabled", **names}
    env = _env(home, OPENCODE_CONFIG_CONTENT=json.dumps(config), OPENCODE_DISABLE_MODELS_FETCH="1")
    logs = ("--print-logs", "--log-level", "ERROR")
    command = (str(program), "run", "--format", "json", *logs, "--auto", "--dir", "{workspace}", "{brief}")
    return AgentSpec(command=command, prompt="arg", env=env)


def _aider(program: Path, url: str, home: Path) -> AgentSpec:
    switches = (
        "yes-always",
        "no-stream",
        "no-pretty",
        "no-check-update",
        "analytics-disable",
        "no-gitignore",
        "no-show-release-notes",
    )
    fixed = [f"--{switch}" for switch in (*switches, "no-show-model-warnings", "no-auto-lint")]
    values = ("--model", f"openai/{_MODEL}", "--edit-format", "whole", "--map-tokens", "0")
    # Its notes would otherwise become part of the work.
    for history in ("chat-history-file", "input-history-file"):
        fixed += [f"--{history}", str(home / history)]
    # It asks the network what an unknown model costs, unless it remembers.
    prices = {"max_input_tokens": 100_000, "input_cost_per_token": 1e-6, "output_cost_per_token": 2e-6}
    caches = home / ".aider" / "caches"
    caches.mkdir(parents=True, exist_ok=True)
    (caches / "model_prices_and_context_window.json").write_text(json.dumps({f"openai/{_MODEL}": prices}))
    env = _env(home, OPENAI_API_BASE=f"{url}/v1", OPENAI_API_KEY=KEY, LITELLM_LOCAL_MODEL_COST_MAP="True")
    command = (str(program), *fixed, *values, "--message-file", "{brief}")
    return AgentSpec(command=command, prompt="file", env=env)


def _goose(program: Path, url: str, home: Path) -> AgentSpec:
    env = _env(home, GOOSE_PROVIDER="openai", GOOSE_MODEL=_MODEL, OPENAI_HOST=url, OPENAI_API_KEY=KEY)
    env |= {"GOOSE_MODE": "auto", "GOOSE_TELEMETRY_ENABLED": "false", "GOOSE_DISABLE_KEYRING": "1"}
    env |= {"GOOSE_DISABLE_SESSION_NAMING": "true"}
    command = (str(program), "run", "--output-format", "stream-json", "-i", "{brief}")
    return AgentSpec(command=command, prompt="file", env=env)


def _copilot(program: Path, url: str, home: Path) -> AgentSpec:
    env = _env(
        home, COPILOT_PROVIDER_BASE_URL=f"{url}/v1", COPILOT_PROVIDER_API_KEY=KEY, COPILOT_MODEL=_MODEL
    )
    env |= {"COPILOT_OFFLINE": "true", "COPILOT_AUTO_UPDATE": "false"}
    command = (str(program), "--output-format", "json", "--allow-all", "-p", "{brief}")
    return AgentSpec(command=command, prompt="arg", env=env)


def _vibe(program: Path, url: str, home: Path) -> AgentSpec:
    tables = {
        "providers": {"name": "fake", "api_base": f"{url}/v1", "api_key_env_var": "MISTRAL_API_KEY"},
        "models": {"name": _MODEL, "provider": "fake", "alias": "fake"},
    }
    lines = ['active_model = "fake"']
    lines += [f"{one} = false" for one in ("enable_telemetry", "enable_update_checks", "enable_auto_update")]
    for name, table in tables.items():
        lines += [f"[[{name}]]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    (home / ".vibe").mkdir(exist_ok=True)
    (home / ".vibe" / "config.toml").write_text("\n".join(lines))
    env = _env(home, MISTRAL_API_KEY=KEY, VIBE_API_RETRY_MAX_ELAPSED_TIME="10")
    command = (str(program), "-p", "{brief}", "--output", "streaming", "--auto-approve", "--trust")
    return AgentSpec(command=command, prompt="arg", env=env)


def _mini(program: Path, url: str, home: Path) -> AgentSpec:
    env = _env(home, OPENAI_API_BASE=f"{url}/v1", OPENAI_API_KEY=KEY, LITELLM_LOCAL_MODEL_COST_MAP="True")
    env |= {"MSWEA_CONFIGURED": "true", "TYPER_STANDARD_TRACEBACK": "1"}
    env |= {"MSWEA_COST_TRACKING": "ignore_errors", "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "3"}
    # It puts words before the task; the model looks for the brief at the beginning of a line.
    fixed = ("-y", "--exit-immediately", "-m", f"openai/{_MODEL}", "-t", "\n{brief}")
    return AgentSpec(command=(str(program), *fixed), prompt="arg", env=env)


def _settings(folder: Path, settings: Mapping[str, object]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "settings.json").write_text(json.dumps(settings))


def _native(packages: Path, package: str, binary: str) -> Path:
    """Return the program itself rather than its Node launcher, which outlives nothing and passes no signal on."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return packages / "node_modules" / f"{package}-linux-{machine}" / binary


CODEX = RealAgent(
    "codex",
    _native(HERE, "@openai/codex", f"vendor/{platform.machine()}-unknown-linux-musl/bin/codex"),
    _codex,
    resume=("resume", "{session}"),
)
_RESUME = ("--resume", "{session}")
QWEN = RealAgent("qwen", HERE / "node_modules" / ".bin" / "qwen", _qwen, node=20, resume=_RESUME)
CLAUDE = RealAgent(
    "claude",
    _native(HERE, "@anthropic-ai/claude-code", "claude"),
    _claude,
    resume=_RESUME,
    hasty={"CLAUDE_CODE_MAX_RETRIES": "1"},
)
QWEN_0_15 = RealAgent(
    "qwen-0.15.10", MORE / "older" / "node_modules" / ".bin" / "qwen", _qwen, node=20, resume=_RESUME
)
GEMINI = RealAgent("gemini", MORE / "node_modules" / ".bin" / "gemini", _gemini, node=20, resume=_RESUME)
OPENCODE = RealAgent(
    "opencode", _native(MORE, "opencode", "bin/opencode"), _opencode, resume=("-s", "{session}")
)
AIDER = RealAgent(
    "aider",
    MORE / "aider" / "bin" / "aider",
    _aider,
    plain=True,
    shell=("--auto-test", "--test-cmd", "{command}"),
)
GOOSE = RealAgent(
    "goose",
    _native(MORE, "@aaif/goose-binary", "bin/goose"),
    _goose,
    resume=("--resume", "--session-id", "{session}"),
)
COPILOT = RealAgent(
    "copilot", _native(MORE, "@github/copilot", "copilot"), _copilot, resume=("--resume={session}",)
)
VIBE = RealAgent("vibe", MORE / "vibe" / "bin" / "vibe", _vibe, resume=_RESUME)
MINI = RealAgent("mini-swe-agent", MORE / "mini" / "bin" / "mini", _mini, plain=True)
