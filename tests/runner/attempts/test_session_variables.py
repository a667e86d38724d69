"""What belongs to an agent session around Holdfast reaches nobody that Holdfast starts, whatever a plan allows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.agents.presets import Preset, builtin_presets, presets_of
from holdfast.core.session_variables import is_of_session
from holdfast.core.status import RunStatus
from holdfast.errors import HoldfastError, PlanError
from holdfast.plans import parse_plan
from holdfast.plans.schema import schema_text
from holdfast.runner.planner import PlanningOrder, make_plan
from tests.support.repositories import Project, write
from tests.support.runs import Trial, sh, stage

GIVEN = {
    "claude": (
        "CLAUDECODE AI_AGENT CLAUDE_CODE_ENTRYPOINT CLAUDE_CODE_MESSAGING_SOCKET CLAUDE_CODE_MESSAGING_TOKEN "
        "CLAUDE_CODE_EXECPATH CLAUDE_CODE_SESSION_ID CLAUDE_CODE_CHILD_SESSION CLAUDE_CODE_SESSION_ATTENDED CLAUDE_PID "
        "CLAUDE_EFFORT CLAUDE_CODE_SSE_PORT CLAUDE_PROJECT_DIR CLAUDE_ENV_FILE"
    ),
    "a session of Claude Code in a host or in a cloud": (
        "CLAUDE_TRUSTED_DEVICE_TOKEN CLAUDE_CODE_MEMORY_API_TOKEN CLAUDE_CODE_ARTIFACTS_API_TOKEN CLAUDE_CODE_MCP_SERVE_AUTH_TOKEN "
        "CLAUDE_CODE_SLACK_TAG_TOKEN CLAUDE_CODE_HFI_BEARER_TOKEN CLAUDE_CODE_RESUME_FROM_SESSION CLAUDE_CODE_RESUME_PROMPT "
        "CLAUDE_CODE_RESUME_REASON CLAUDE_CODE_RESUME_SOURCE_ALIVE CLAUDE_CODE_RESUME_INTERRUPTED_TURN CLAUDE_CODE_TASK_LIST_ID "
        "CLAUDE_CODE_CONTAINER_ID CLAUDE_CODE_TRIGGER_ID CLAUDE_CODE_TOOL_USE_ID CLAUDE_CODE_WORKER_EPOCH CLAUDE_CODE_CCR_WORKER_SOCKET "
        "CLAUDE_CODE_ARTIFACT_FD CLAUDE_CODE_HOST_CREDS_FILE CLAUDE_CODE_HOST_HTTP_PROXY_PORT CLAUDE_CODE_SDK_HAS_OAUTH_REFRESH "
        "CLAUDE_CODE_ENVIRONMENT_KIND CLAUDE_CODE_PROJECTS_SESSION CLAUDE_CODE_USER_DELEGATED_SESSION CLAUDE_SSH_DAEMON_CHILD "
        "CLAUDE_PTY_HOST_EXEC CLAUDE_INTERNAL_ASSISTANT_TEAM_NAME ANTHROPIC_UNIX_SOCKET"
    ),
    "codex": (
        "CODEX_VERSION CODEX_SESSION_ID CODEX_THREAD_ID CODEX_CI CODEX_TOOL_CALL_ID CODEX_SANDBOX "
        "CODEX_SANDBOX_NETWORK_DISABLED CODEX_APPLY_PATCH_PRESERVE_LINE_ENDINGS"
    ),
    "qwen": (
        "QWEN_CODE QWEN_CODE_CLI QWEN_CODE_SESSION_ID QWEN_CODE_PROMPT_ID QWEN_CODE_AGENT_ID QWEN_CODE_MODEL "
        "QWEN_CODE_MODEL_IDENTITY QWEN_CODE_LAUNCHER_PID QWEN_CODE_MANAGED_NPM_PIN QWEN_CODE_PROJECT_DIR "
        "QWEN_CODE_PRIVATE_RELAUNCH_ENV_PROVENANCE QWEN_CODE_MESSAGING_SOCKET QWEN_CODE_MESSAGING_TOKEN"
    ),
    "gemini": "GEMINI_CLI GEMINI_CLI_IDE_SERVER_PORT GEMINI_CLI_IDE_AUTH_TOKEN GEMINI_CLI_TRUST_WORKSPACE",
    "opencode": "OPENCODE OPENCODE_PID OPENCODE_SERVER_PASSWORD OPENCODE_PRINT_LOGS OPENCODE_LOG_LEVEL",
    "holdfast": "HOLDFAST_RUN HOLDFAST_TASK HOLDFAST_ATTEMPT HOLDFAST_REPORT HOLDFAST_BRIEF",
}
"""What agents give to their shells, or what programs around them set for them."""
SETTINGS = (
    "CLAUDE_CODE_OAUTH_TOKEN CLAUDE_CODE_USE_BEDROCK CLAUDE_CODE_USE_VERTEX CLAUDE_CONFIG_DIR CLAUDE_CODE_MAX_OUTPUT_TOKENS "
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC CLAUDE_CODE_SUBAGENT_MODEL ANTHROPIC_API_KEY CODEX_HOME CODEX_API_KEY "
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN CLAUDE_CODE_GATEWAY_TOKEN CLAUDE_CODE_CLIENT_CERT CLAUDE_CODE_RESUME_TOKEN_THRESHOLD "
    "CLAUDE_CODE_ARTIFACT CLAUDE_CODE_PROXY_HOST CLAUDE_CODE_EFFORT_LEVEL ANTHROPIC_AUTH_TOKEN ANTHROPIC_BASE_URL ANTHROPIC_MODEL "
    "CODEX_ACCESS_TOKEN GEMINI_API_KEY GEMINI_MODEL GEMINI_CLI_HOME GEMINI_CLI_NO_RELAUNCH QWEN_HOME QWEN_API_KEY "
    "QWEN_CODE_NO_RELAUNCH OPENCODE_API_KEY OPENCODE_CONFIG OPENCODE_CONFIG_CONTENT OPENCODE_PERMISSION COPILOT_GITHUB_TOKEN "
    "COPILOT_HOME COPILOT_MODEL GOOSE_PROVIDER GOOSE_MODEL"
)
OUTER = {"CLAUDECODE": "1", "CLAUDE_CODE_MESSAGING_TOKEN": "open-sesame", "CLAUDE_CONFIG_DIR": "/settings"}
MARK = "CLAUDE"
SCORE = '{"score": 1.0, "feedback": ""}'


@pytest.fixture(autouse=True)
def outer_session() -> Iterator[None]:
    """Holdfast is started from an agent's shell."""
    os.environ.update(OUTER)
    yield
    for name in OUTER:
        del os.environ[name]


@pytest.mark.parametrize("agent", GIVEN)
def test_what_an_agent_gives_its_shell_belongs_to_its_session(agent: str) -> None:
    """Another agent below that shell is no part of the session."""
    assert [name for name in GIVEN[agent].split() if not is_of_session(name)] == []


def test_settings_that_people_make_are_not_denied() -> None:
    """Without a login or a home an agent could not work."""
    assert [name for name in SETTINGS.split() if is_of_session(name)] == []
    keys = {key for preset in builtin_presets().values() for key in preset.keys}
    assert [name for name in keys if is_of_session(name)] == []


def test_agents_checks_validators_and_setup_get_nothing_of_an_outer_session(tmp_path: Path) -> None:
    """Not even where a plan passes the whole family; the settings among it come through."""
    see = f"env | grep ^{MARK} >> {tmp_path}/"
    critic = {"id": "critic", "run": ["sh", "-c", f"{see}validator; echo '{SCORE}'"]}
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", f"{see}command; echo a > A", verify=[f"{see}check"], validators=[critic])),
        stage("two", {"id": "B", "prompt": "x", "agent": "mine"}),
        agents={"mine": {"command": ["sh", "-c", f"{see}agent; echo b > B"]}},
        workspace={"setup": [f"{see}setup"]},
        pass_env=[f"{MARK}*"],
    )
    assert trial.execute() is RunStatus.COMPLETED
    for who in ("command", "agent", "check", "validator", "setup"):
        assert set((tmp_path / who).read_text().splitlines()) == {"CLAUDE_CONFIG_DIR=/settings"}, who


def test_a_planner_gets_nothing_of_an_outer_session(tmp_path: Path) -> None:
    """It is an agent like any other."""
    answer = 'holdfast: 1\ngoal: Greet\ntasks: [{id: a, run: ["true"]}]\n'
    script = f"env | grep ^{MARK} > {tmp_path}/seen; printf '%s' '{answer}' > plan.yaml"
    preset = Preset(command=("sh", "-c", script), pass_env=(f"{MARK}*",))
    order = PlanningOrder(
        goal="Greet",
        agent="mine",
        spec=preset,
        schema=schema_text(),
        read=lambda data: parse_plan(data, "plan.yaml", []),
    )
    make_plan(Project.create(tmp_path / "p").open(), order, lambda _: None)
    assert (tmp_path / "seen").read_text().splitlines() == ["CLAUDE_CONFIG_DIR=/settings"]


@pytest.mark.parametrize("entry", [{}, {"agents": {"mine": {"command": ["x"], "pass_env": ["CLAUDECODE"]}}}])
def test_a_plan_that_names_a_variable_of_the_session_is_refused(
    tmp_path: Path, entry: dict[str, object]
) -> None:
    """Silence would let its author believe that it is passed. The message says what to do."""
    given = entry or {"pass_env": ["CLAUDECODE"]}
    with pytest.raises(
        PlanError, match=r"pass_env: CLAUDECODE belongs to an agent session .* value in `env`"
    ):
        Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "echo a > A")), **given)


def test_a_file_of_agents_that_names_such_a_variable_is_refused(tmp_path: Path) -> None:
    """As a plan is."""
    write(tmp_path / ".holdfast" / "agents.toml", '[codex]\npass_env = ["CODEX_THREAD_ID"]\n')
    with pytest.raises(HoldfastError, match="CODEX_THREAD_ID belongs to an agent session") as refused:
        presets_of(tmp_path)
    assert "give it a value in `env`" in refused.value.hint


def test_a_value_in_env_is_the_users_own_word(tmp_path: Path) -> None:
    """An agent may need such a name; then its value is not the outer session's."""
    script = "echo $CLAUDE_CODE_ENTRYPOINT > A"
    mine = {"command": ["sh", "-c", script], "env": {"CLAUDE_CODE_ENTRYPOINT": "ours"}}
    task = {"id": "a", "prompt": "x", "agent": "mine"}
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", task), agents={"mine": mine})
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("A") == "ours"
