"""The variables of an outer agent session: whatever a plan or a preset allows, no agent, check or set-up command gets them.

Holdfast is often started by an agent. That agent's shell has variables which say who it is, which conversation it belongs to,
and where to talk to it, with the token for that. An inner agent that saw them would take itself for a part of that session,
or could speak in its name. The names are those that the agents were seen to give to their shells, and what their programs
read besides. Settings that people make, such as CLAUDE_CODE_OAUTH_TOKEN, CLAUDE_CONFIG_DIR or CODEX_HOME, are not here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

DENIED = (
    # Holdfast's own: they would make a `holdfast` that an inner agent calls report for the outer attempt.
    "HOLDFAST_*",
    # The common markers.
    "AI_AGENT", "AGENT_SESSION_ID",
    # Claude Code. A descriptor means nothing in another process; a bridge, a remote or a background session is the outer one.
    "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_EXECPATH", "CLAUDE_CODE_SSE_PORT", "CLAUDE_CODE_MESSAGING_*",
    "CLAUDE_CODE_SESSION_*", "CLAUDE_CODE_CLOUD_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_EMIT_SESSION_*",
    "CLAUDE_CODE_TMUX_SESSION", "CLAUDE_CODE_SESSIONS_OAUTH_TOKEN", "CLAUDE_CODE_*_FILE_DESCRIPTOR", "CLAUDE_CODE_BRIDGE_*", "CLAUDE_CODE_REMOTE",
    "CLAUDE_CODE_REMOTE_*", "CLAUDE_BRIDGE_*", "CLAUDE_BG_*", "CLAUDE_RUNNER_*", "CLAUDE_SESSION_*", "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_PID", "CLAUDE_EFFORT", "CLAUDE_JOB_DIR", "CLAUDE_ENV_FILE", "CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT",
    "CLAUDE_PLUGIN_DATA",
    # What a host, a cloud or a device gives to one session of Claude Code: tokens and sockets that speak in its name, what it
    # is to go on with, whose worker it is, and that its host renews its login.
    "CLAUDE_TRUSTED_DEVICE_TOKEN", "CLAUDE_CODE_MEMORY_API_TOKEN", "CLAUDE_CODE_ARTIFACTS_API_TOKEN", "CLAUDE_CODE_MCP_SERVE_AUTH_TOKEN",
    "CLAUDE_CODE_SLACK_TAG_TOKEN", "CLAUDE_CODE_HFI_BEARER_TOKEN", "ANTHROPIC_UNIX_SOCKET", "CLAUDE_CODE_ARTIFACT_FD",
    "CLAUDE_CODE_RESUME_FROM_SESSION", "CLAUDE_CODE_RESUME_PROMPT", "CLAUDE_CODE_RESUME_REASON", "CLAUDE_CODE_RESUME_SOURCE_ALIVE",
    "CLAUDE_CODE_RESUME_INTERRUPTED_TURN", "CLAUDE_CODE_TASK_LIST_ID", "CLAUDE_CODE_TOOL_USE_ID", "CLAUDE_CODE_TRIGGER_ID",
    "CLAUDE_CODE_CONTAINER_ID", "CLAUDE_CODE_CCR_WORKER_SOCKET", "CLAUDE_CODE_WORKER_*", "CLAUDE_CODE_HOST_*",
    "CLAUDE_CODE_ENVIRONMENT_*", "CLAUDE_CODE_SDK_HAS_*", "CLAUDE_CODE_PROJECTS_SESSION", "CLAUDE_CODE_USER_DELEGATED_SESSION*",
    "CLAUDE_SSH_*", "CLAUDE_PTY_HOST_EXEC", "CLAUDE_INTERNAL_*",
    # Codex.
    "CODEX_SANDBOX", "CODEX_SANDBOX_*", "CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_TOOL_CALL_ID", "CODEX_CI",
    "CODEX_VERSION", "CODEX_APPLY_PATCH_*", "CODEX_INTERNAL_*", "CODEX_MANAGED_*", "CODEX_NETWORK_PROXY_*", "CODEX_SNAPSHOT_*",
    "CODEX_EXEC_SERVER_URL", "CODEX_ESCALATE_SOCKET",
    # Gemini CLI and Qwen Code; also the channel to the editor, whose files are not those of the workspace, and the trust
    # in a folder, which is that of the outer session.
    "GEMINI_CLI", "GEMINI_SESSION_ID", "GEMINI_PROJECT_DIR", "GEMINI_CLI_IDE_*", "GEMINI_CLI_TRUST_WORKSPACE",
    "QWEN_CODE", "QWEN_CODE_CLI", "QWEN_CODE_MESSAGING_*", "QWEN_CODE_SESSION_ID", "QWEN_CODE_PROMPT_ID", "QWEN_CODE_AGENT_ID", "QWEN_CODE_MODEL",
    "QWEN_CODE_MODEL_IDENTITY", "QWEN_CODE_PROJECT_DIR", "QWEN_PROJECT_DIR", "QWEN_CODE_LAUNCHER_PID", "QWEN_CODE_PRIVATE_*",
    "QWEN_CODE_MANAGED_NPM_*", "QWEN_CODE_STARTUP_VERSION", "QWEN_CODE_IDE_*", "QWEN_CODE_EXTERNAL_TOOL_GUARD_TOKEN",
    "QWEN_SERVER_TOKEN", "QWEN_DAEMON_*",
    # opencode.
    "OPENCODE", "OPENCODE_PID", "OPENCODE_CALLER", "OPENCODE_CLIENT", "OPENCODE_SESSION*", "OPENCODE_SERVER*",
    "OPENCODE_EDITOR_SSE_PORT", "OPENCODE_TERMINAL", "OPENCODE_WORKSPACE_ID", "OPENCODE_PRINT_LOGS", "OPENCODE_LOG_LEVEL",
    # Copilot, goose and Vibe.
    "COPILOT_CLI", "COPILOT_CLI_BINARY_VERSION", "COPILOT_CLI_RESOLVED_*", "COPILOT_AGENT*", "COPILOT_SESSION*",
    "GOOSE_TERMINAL", "GOOSE_SESSION*", "GOOSE_SERVER__*", "VIBE_APP_SERVER_*",
    # Cursor, Cline, Droid and pi.
    "CURSOR_AGENT", "CURSOR_TRACE_ID", "CLINE_ACTIVE", "CLINE_CONNECTOR_*",
    "FACTORY_EXEC_*", "FACTORY_DISABLE_SETTINGS_PERSISTENCE", "PI_CODING_AGENT", "PI_SKIP_VERSION_CHECK",
)  # fmt: skip
"""Names, or families of names as `NAME_*`. This is the only list; it stands above every `pass_env`."""


def is_of_session(name: str) -> bool:
    """Tell whether a variable belongs to an outer agent session."""
    return any(fnmatchcase(name, pattern) for pattern in DENIED)


def denied_names(wanted: Iterable[str]) -> Iterator[str]:
    """Yield those entries of a `pass_env` that name such a variable outright. A family may have others in it."""
    return (name for name in wanted if not set(name) & set("*?[") and is_of_session(name))


def refusal(name: str) -> str:
    """Return why a variable that somebody named is not passed, and what to do instead."""
    return f"{name} belongs to an agent session around Holdfast and is never passed on; take it out, or give it a value in `env`"
