"""Secrets: agents get only what they need, and what they print, report or fail with is nowhere to be read."""

from __future__ import annotations

import os
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


def test_whoever_agrees_to_a_plan_is_told_which_variables_it_asks_for(tmp_path: Path) -> None:
    """A plan of somebody else's must not get at secrets by a line that nobody showed."""
    cli = Cli.of(tmp_path / "p", {"id": "A", "run": ["true"]}, pass_env=["AWS_*"])
    done = cli("run")
    assert (done.code, "may see your variables: AWS_*" in done.err) == (3, True)
