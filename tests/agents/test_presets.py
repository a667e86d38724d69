"""Presets: what comes with Holdfast, what users change of it, and the argv that comes of it all."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.agents.invocation import Placeholders, invoke_agent
from holdfast.agents.presets import agent_names, builtin_presets, find_agent, missing_credentials, presets_of
from holdfast.core.observations import AgentTrouble
from holdfast.core.plan import AgentSpec
from holdfast.errors import HoldfastError
from holdfast.process.programs import ask_program

KNOWN = [
    "claude",
    "codex",
    "gemini",
    "qwen",
    "opencode",
    "aider",
    "mini-swe-agent",
    "vibe",
    "goose",
    "copilot",
    "gemini-acp",
    "qwen-acp",
    "opencode-acp",
    "claude-agent-acp",
    "codex-acp",
    "cline",
    "droid",
    "pi",
    "openhands",
]
VALUES = Placeholders("/brief.md", "the brief", "/work", "a", 1, "01-run")


def _with(checkout: Path, text: str) -> Path:
    (checkout / ".holdfast").mkdir(parents=True)
    (checkout / ".holdfast" / "agents.toml").write_text(text)
    return checkout


def test_the_agents_of_the_mission_are_known() -> None:
    """Each can be named in a plan without describing it."""
    assert agent_names(builtin_presets()) == KNOWN


@pytest.mark.parametrize("name", KNOWN)
def test_a_preset_says_all_that_running_it_takes(name: str) -> None:
    """Argv, provider, version, keys, and the errors by which its limits are known."""
    preset = builtin_presets()[name]
    assert preset.needed_program == preset.version[0]
    assert preset.provider
    assert preset.keys
    assert preset.error_patterns().errors or preset.error_patterns().lines


@pytest.mark.parametrize("name", KNOWN)
def test_a_presets_argv_has_no_place_left_unfilled(name: str) -> None:
    """No template word reaches an agent, and the brief goes the way the preset says."""
    preset = builtin_presets()[name]
    how = invoke_agent(preset, VALUES)
    assert not [word for word in how.argv if "{" in word]
    assert {"stdin": how.stdin_brief, "arg": "the brief" in how.argv, "file": "/brief.md" in how.argv}[
        preset.prompt
    ]


@pytest.mark.parametrize("name", [name for name in KNOWN if builtin_presets()[name].resume])
def test_a_native_resume_names_the_session(name: str) -> None:
    """The agent's own session id is in the argv; permissions are the same as for a fresh start."""
    preset = builtin_presets()[name]
    words = invoke_agent(preset, Placeholders("/b", "b", "/w", "a", 2, "r", session="S-1")).argv
    assert [word for word in words if word.endswith("S-1")]
    assert set(preset.permissions) <= set(words)


def test_a_plan_changes_a_preset() -> None:
    """`preset: codex` with a model and more arguments is Codex with those."""
    spec = AgentSpec(preset="codex", model="gpt-x", args=("-c", "a=b"), env={"A": "1"})
    agent = find_agent("mine", {"mine": spec}, builtin_presets())
    assert agent is not None
    words = invoke_agent(agent, VALUES).argv
    assert words[words.index("-m") : words.index("-m") + 4] == ("-m", "gpt-x", "-c", "a=b")
    assert (agent.stream, agent.env) == ("codex", {"A": "1"})


def test_a_command_in_the_place_of_a_presets_needs_only_its_own_program() -> None:
    """The adapter may be wherever the plan says; nothing by the name that the preset knows must be installed."""
    spec = AgentSpec(preset="codex-acp", command=("holdfast", "acp", "--", "/opt/my-adapter"))
    agent = find_agent("mine", {"mine": spec}, builtin_presets())
    assert agent is not None
    assert (builtin_presets()["codex-acp"].needed_program, agent.needed_program) == ("codex-acp", "holdfast")


def test_a_command_of_the_plans_own_is_plain() -> None:
    """Nothing is known of it, so nothing is guessed."""
    agent = find_agent("mine", {"mine": AgentSpec(command=("x", "{brief}"))}, builtin_presets())
    assert agent is not None
    assert (agent.stream, agent.prompt, agent.errors, invoke_agent(agent, VALUES).argv) == (
        "raw", "file", {}, ("x", "/brief.md"),
    )  # fmt: skip


def test_a_command_that_speaks_a_known_stream_errs_in_its_words() -> None:
    """A wrapper around Codex needs only to say so."""
    agent = find_agent("mine", {"mine": AgentSpec(command=("x",), stream="codex")}, builtin_presets())
    assert agent is not None
    assert (agent.errors, agent.provider) == (builtin_presets()["codex"].errors, "openai")


def test_a_repository_changes_single_keys_of_a_preset(tmp_path: Path) -> None:
    """What the file leaves out stays as it was."""
    presets = presets_of(_with(tmp_path, '[codex]\nmodel = "gpt-x"\n[codex.env]\nA = "1"\n'))
    before = builtin_presets()["codex"]
    assert (presets["codex"].model, presets["codex"].command) == ("gpt-x", before.command)


def test_a_repository_adds_an_agent_that_builds_on_another(tmp_path: Path) -> None:
    """A new name with `preset` is that agent with changes."""
    presets = presets_of(_with(tmp_path, '[cheap]\npreset = "claude"\nmodel = "small"\nfallback = "codex"\n'))
    assert (presets["cheap"].stream, presets["cheap"].fallback) == ("claude", "codex")
    assert "cheap" in agent_names(presets)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[codex]\nmodle = 1\n", "modle"),
        ('[x]\npreset = "codx"\n', 'did you mean "codex"'),
        ("[x]\nmodel = 'm'\n", "no command"),
        ('[x]\npreset = ["codex"]\n', "there is no preset"),
        ("[codex]\nfallback = 'nobody'\n", "falls back on"),
        ("[codex\n", "cannot be read"),
        ("codex = 3\n", "not a table"),
        ("[codex]\nstream = 'codx'\n", "no stream"),
        ("[codex.errors]\nlimit = ['(']\n", "agent"),
        ("[codex.errors]\nlimits = ['x']\n", "agent"),
        ("[codex]\nhome = ['.codex/x']\n", "not a file of the home"),
    ],
)
def test_a_file_with_a_mistake_is_refused_with_its_name(tmp_path: Path, text: str, said: str) -> None:
    """The error names the file and what is wrong in it."""
    with pytest.raises(HoldfastError) as caught:
        presets_of(_with(tmp_path, text))
    assert str(tmp_path) in caught.value.message
    assert said in caught.value.message


def test_an_agent_with_a_key_looks_ready() -> None:
    """A key in the environment is enough."""
    codex = builtin_presets()["codex"]
    assert missing_credentials(codex, {"OPENAI_API_KEY": "x"}) == ""


def test_an_agent_whose_own_env_has_the_key_looks_ready(tmp_path: Path) -> None:
    """Its table sets what it gets, so that counts wherever somebody looks."""
    codex = presets_of(_with(tmp_path, "[codex]\nenv = {OPENAI_API_KEY = 'x'}\n"))["codex"]
    assert missing_credentials(codex, {"HOME": "/nowhere"}) == ""


def test_an_agent_with_a_login_looks_ready(tmp_path: Path) -> None:
    """So is its own login on disk, wherever its variable says."""
    (tmp_path / "auth.json").write_text("{}")
    assert missing_credentials(builtin_presets()["codex"], {"CODEX_HOME": str(tmp_path)}) == ""


def test_an_agent_without_key_or_login_says_what_it_needs() -> None:
    """The way out is named."""
    vibe = builtin_presets()["vibe"]
    assert "MISTRAL_API_KEY" in missing_credentials(vibe, {"HOME": "/nowhere"})


def test_a_program_that_does_not_answer_is_ended(tmp_path: Path) -> None:
    """Looking for agents never hangs, and leaves nothing behind."""
    assert ask_program(["sh", "-c", f"echo $$ > {tmp_path / 'pid'}; sleep 600"], 0.3).code == -1
    assert not Path("/proc", (tmp_path / "pid").read_text().strip()).exists()


def test_a_program_that_is_not_there_has_no_version() -> None:
    """Nothing is raised for a program that cannot be run."""
    assert ask_program(["no-such-agent-here", "--version"], 5.0).code == -1


HARMLESS = (
    "Disk quota exceeded (os error 122)",
    "EDQUOT: disk quota exceeded, write",
    "max_tokens must be at least 512",
    "MCP server github timed out after 30 seconds",
    "MCP error -32000: Connection closed",
    "MCP client for docs failed to start: error sending request: connection refused (ECONNREFUSED)",
    *(f"settings.json has an error in line {number}" for number in (401, 402, 403, 404, 429, 500, 529)),
    "wrote 503 files in 543 ms",
    "FileNotFoundError: [Errno 2] No such file or directory: 'a.py'",
    "the process was terminated by signal 15",
)


@pytest.mark.parametrize("sentence", HARMLESS)
@pytest.mark.parametrize("name", sorted(builtin_presets()))
def test_an_error_of_the_machine_or_of_a_setting_is_not_the_providers(name: str, sentence: str) -> None:
    """It fails the attempt, which is charged: nobody waits for it, and no provider is parked or shut."""
    patterns = builtin_presets()[name].error_patterns()
    assert patterns.of_error(sentence) is AgentTrouble.ERROR
    assert patterns.of_line(sentence) is None


SAID = (
    "{} whatever follows",
    "unexpected status {}",
    "[API Error: {} whatever follows]",
    "Error code: {} - whatever follows",
    'Internal error {{"details":"{} whatever follows"}}',
    "it failed (HTTP {}).",
)


@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("name", [name for name, one in builtin_presets().items() if one.errors])
def test_the_status_of_a_request_is_known_by_the_words_around_it(name: str, said: str) -> None:
    """A number alone could be anything: a line, a count, a limit of tokens."""
    patterns = builtin_presets()[name].error_patterns()
    assert patterns.of_error(said.format(401)) is AgentTrouble.AUTH
    assert patterns.of_error(said.format(429)) is AgentTrouble.LIMIT
