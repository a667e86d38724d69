"""Secrets: agents get only what they need, and what they print, report or fail with is nowhere to be read."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.status import RunStatus
from holdfast.errors import PlanError
from tests.support.command import Cli
from tests.support.repositories import Project
from tests.support.runs import Trial, sh, stage

CANARY = "sk-ant-api03-Canary8Qw3Er5Ty7Ui9Op1As3Df5Gh7"
PASSWORD = "plain words as a pass phrase"


@pytest.fixture
def planted() -> Iterator[None]:
    """Secrets in the user's own environment, as they are on any developer's machine."""
    secrets = {"WORK_DATABASE_URL": "x://u:pw@h", "BUILD_API_KEY": CANARY, "VAULT_PASSWORD": PASSWORD}
    os.environ.update(secrets)
    yield
    for name in secrets:
        del os.environ[name]


def written(project: Project) -> bytes:
    """Return every byte that is stored below the project, git's objects unpacked."""
    found = []
    for path in (path for path in project.path.rglob("*") if path.is_file() and not path.is_symlink()):
        data = path.read_bytes()
        found.append(zlib.decompress(data) if ".git/objects/" in str(path) and data[:1] == b"x" else data)
    return b"\n".join(found)


@pytest.mark.usefixtures("planted")
def test_an_agent_gets_no_variable_that_nobody_gave_it(tmp_path: Path) -> None:
    """The environment is a list of what is allowed, not of what is forbidden."""
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "env > seen.txt")))
    assert trial.execute() is RunStatus.COMPLETED
    seen = {line.split("=")[0] for line in trial.show("seen.txt").splitlines()}
    assert {"PATH", "HOME", "HOLDFAST_TASK"} <= seen
    assert not {"WORK_DATABASE_URL", "BUILD_API_KEY", "VAULT_PASSWORD"} & seen


CREDENTIALS = {
    "NIX_CONFIG": "access-tokens = git.example=abcdefghij",
    "BUNDLE_GEMS__EXAMPLE__COM": "someone:open sesame",
    "PIP_INDEX_URL": "https://me:open-sesame@pip.example/simple",
    "UV_INDEX_URL": "https://me:open-sesame@uv.example/simple",
    "npm_config__auth": "bWU6b3BlbiBzZXNhbWU=",
    "npm_config_//r.example/:_authToken": "open-sesame",
    "HTTPS_PROXY": "http://me:open-sesame@proxy.example:3128",
    "CARGO_NOTE": CANARY,
}
"""Ordinary variables of tool chains, with credentials in them."""


def test_an_ordinary_variable_with_credentials_in_it_is_passed_only_if_the_plan_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Package indexes, proxies and settings are what tools need, and may hold a login."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", "env > seen.txt")),
        pass_env=["UV_INDEX_URL"],
    )
    assert trial.execute() is RunStatus.COMPLETED
    seen = {line.split("=")[0] for line in trial.show("seen.txt").splitlines()}
    assert seen & {*CREDENTIALS, "HTTP_PROXY"} == {"UV_INDEX_URL", "HTTP_PROXY"}


@pytest.mark.usefixtures("planted")
def test_a_plan_names_what_its_agents_and_checks_may_have(tmp_path: Path) -> None:
    """`pass_env` takes names and families of names."""
    script = (
        'test -n "$BUILD_API_KEY" && test -n "$WORK_DATABASE_URL" && test -z "$VAULT_PASSWORD" && echo a > A'
    )
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", script, verify=['test -n "$BUILD_API_KEY"'])),
        pass_env=["BUILD_API_KEY", "WORK_*"],
    )
    assert trial.execute() is RunStatus.COMPLETED


@pytest.mark.usefixtures("planted")
def test_a_plan_names_what_one_of_its_agents_may_have(tmp_path: Path) -> None:
    """The others and the checks do not get it."""
    has = {"command": ["sh", "-c", 'test -n "$BUILD_API_KEY" && echo a > A']}
    lacks = {"command": ["sh", "-c", 'test -z "$BUILD_API_KEY" && echo b > B']}
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one", {"id": "a", "prompt": "x", "agent": "has"}, {"id": "b", "prompt": "x", "agent": "lacks"}
        ),
        agents={"has": {**has, "pass_env": ["BUILD_API_KEY"]}, "lacks": lacks},
        verify=['test -z "$BUILD_API_KEY"'],
    )
    assert trial.execute() is RunStatus.COMPLETED


@pytest.mark.usefixtures("planted")
def test_what_an_agent_prints_reports_or_fails_with_is_stored_without_secrets(tmp_path: Path) -> None:
    """17: planted secrets are in no log, no record, no brief, no ref and no view, wherever they came out."""
    leak = 'echo "key $BUILD_API_KEY" "$VAULT_PASSWORD"; holdfast report summary "$BUILD_API_KEY, $VAULT_PASSWORD"'
    failing = f"{leak}; test $HOLDFAST_ATTEMPT_NUMBER -gt 1 || exit 3; echo a > A"
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", failing, verify=['echo "$BUILD_API_KEY"; test $HOLDFAST_ATTEMPT_NUMBER -gt 2'])),
        pass_env=["BUILD_API_KEY", "VAULT_PASSWORD"],
        limits={"attempts": 4, "retry_delay": "0s"},
    )
    assert trial.execute() is RunStatus.COMPLETED
    everything = written(trial.project)
    assert b"[redacted]" in everything
    assert CANARY.encode() not in everything
    assert PASSWORD.encode() not in everything


def test_a_plan_with_a_key_in_it_is_refused(tmp_path: Path) -> None:
    """A plan is kept in git: the error says where the key is and what to write instead."""
    agents = {"mine": {"command": ["agent", "{brief}"], "env": {"ANTHROPIC_API_KEY": CANARY}}}
    task = {"id": "A", "prompt": "Do it"}
    with pytest.raises(PlanError, match=r"pass_env: \[ANTHROPIC_API_KEY\]"):
        Trial.of(Project.create(tmp_path / "p"), stage("one", task), agent="mine", agents=agents)


@pytest.mark.parametrize(
    "part", [{"verify": [f"curl -H 'Key: {CANARY}' x"]}, {"agents": {"m": {"command": ["a", CANARY]}}}]
)
def test_a_key_in_a_command_of_a_plan_is_refused_too(tmp_path: Path, part: dict[str, Any]) -> None:
    """Checks and arguments are kept with the plan like everything else."""
    with pytest.raises(PlanError, match="looks like a secret"):
        Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "true")), **part)


PASS = "hunter2hunter2"


@pytest.mark.parametrize(
    ("field", "part"),
    [
        (
            "notify.webhook",
            {"notify": {"webhook": "https://hooks.slack.com/services/T01/B02/Zx8Qw3Er5Ty7Ui9Op1As3Df5"}},
        ),
        ("notify.webhook", {"notify": {"webhook": f"https://me:{PASS}@ci.example/hook"}}),
        ("notify.command", {"notify": {"command": ["tell", "--api-key", PASS]}}),
        ("agents.m.env.MY_TOKEN", {"agents": {"m": {"command": ["a"], "env": {"MY_TOKEN": PASS}}}}),
        ("agents.m.env.URL", {"agents": {"m": {"command": ["a"], "env": {"URL": f"x://u:{PASS}@h"}}}}),
        ("agents.m.command", {"agents": {"m": {"command": ["a", f"--api-key={PASS}"]}}}),
        ("agents.m.args", {"agents": {"m": {"preset": "codex", "args": ["--token", PASS]}}}),
        ("verify", {"verify": [f"DB_PASSWORD={PASS} make test"]}),
        ("stages[0].exit", {"exit": [f"git push https://ci:{PASS}@git.example/x"]}),
        ("stages[0].tasks[0].prompt", {"prompt": f"Clone https://me:{PASS}@git.example/x and build it"}),
        ("stages[0].tasks[0].acceptance", {"acceptance": [CANARY]}),
        ("stages[0].tasks[0].title", {"title": f"Use {CANARY}"}),
    ],
)
def test_a_secret_in_any_field_of_a_plan_is_refused_with_its_place(
    tmp_path: Path, field: str, part: dict[str, Any]
) -> None:
    """The error names file, line and field, says what to write instead, and does not repeat the secret."""
    task: dict[str, Any] = {"id": "A", "run": ["true"]}
    one = stage("one", task)
    for key, value in part.items():
        (one if key == "exit" else task if key in ("prompt", "acceptance", "title") else {})[key] = value
    if "prompt" in part:
        del task["run"]
    top = {key: value for key, value in part.items() if key not in ("exit", "prompt", "acceptance", "title")}
    with pytest.raises(PlanError) as raised:
        Trial.of(
            Project.create(tmp_path / "p"), one, **{"agent": "claude", **top} if "prompt" in part else top
        )
    line = next(line for line in str(raised.value).splitlines() if f" {field}: " in line)
    assert re.search(r":\d+: ", line)
    assert "pass_env" in line or "webhook: $NAME" in line
    assert PASS not in str(raised.value)
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(
    "part",
    [
        {
            "verify": [
                "curl --token $CI_TOKEN x",
                'API_KEY="$KEY" make',
                "tool --max-tokens 100000000 --key-file /etc/k1",
            ]
        },
        {
            "agents": {
                "m": {"command": ["a"], "env": {"OPENAI_API_KEY": "ollama", "SSH_KEY": "/home/me/.ssh/id_1"}}
            }
        },
        {"notify": {"webhook": "$TEAM_WEBHOOK"}},
    ],
)
def test_a_plan_that_only_names_its_secrets_is_accepted(tmp_path: Path, part: dict[str, Any]) -> None:
    """Variables, paths, numbers and the dummies of local models are what a plan should hold."""
    assert Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", "true")), **part)


def test_whoever_agrees_to_a_plan_is_told_which_variables_it_asks_for(tmp_path: Path) -> None:
    """A plan of somebody else's must not get at secrets by a line that nobody showed."""
    cli = Cli.of(tmp_path / "p", {"id": "A", "run": ["true"]}, pass_env=["AWS_*"])
    done = cli("run")
    assert (done.code, "may see your variables: AWS_*" in done.err) == (3, True)
