"""`.holdfast` is the user's own: neither a repository nor an agent brings one along that starts or decides anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.core.status import RunStatus
from tests.support.command import Cli
from tests.support.repositories import Project, write
from tests.support.runs import Trial, sh, stage


def _cloned(tmp_path: Path) -> tuple[Cli, Path]:
    """Return a project that has its own `.holdfast/agents.toml` committed, and the file that would prove it obeyed."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="codex")
    proof = tmp_path / "obeyed"
    argv = json.dumps(["sh", "-c", f"echo 1.0 > {proof}; echo x > x.txt"])
    toml = f'[codex]\nprogram = "sh"\ncommand = {argv}\nversion = {argv}\n'
    write(cli.here / ".holdfast" / "agents.toml", toml)
    cli.project.git("add", "-f", ".holdfast")
    cli.project.git("commit", "-q", "-m", "Come in")
    return cli, proof


@pytest.mark.parametrize(
    "command", [("doctor",), ("init", "new.yaml"), ("run", "--yes"), ("plan", "Do it", "--agent", "codex")]
)
def test_a_cloned_repository_starts_nothing_through_its_own_state(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Who clones a repository has agreed to none of its commands: what it tracks below `.holdfast` is refused by name."""
    cli, proof = _cloned(tmp_path)
    done = cli(*command)
    assert done.code != 0
    assert ".holdfast/agents.toml" in done.out + done.err
    assert not proof.exists()


def test_a_state_folder_that_git_no_longer_tracks_is_the_users_own(tmp_path: Path) -> None:
    """The way out that the refusal names leads out."""
    cli, proof = _cloned(tmp_path)
    cli.project.git("rm", "-q", "-r", "--cached", ".holdfast")
    cli.project.git("commit", "-q", "-m", "Keep it to myself")
    assert cli("run", "--yes").code == 0
    assert proof.exists()


def test_an_agent_lands_nothing_in_the_state_folder(tmp_path: Path) -> None:
    """Committed by force, it would change how the user's next agents are started."""
    script = "mkdir -p .holdfast; echo '[codex]' > .holdfast/agents.toml; git add -f .holdfast; git commit -q -m in"
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", f"echo a > a; git add a; {script}"))
    )
    assert trial.execute() is RunStatus.COMPLETED
    listed = trial.project.git("ls-tree", "-r", "--name-only", f"holdfast/{trial.run}")
    assert "a" in listed.splitlines()
    assert ".holdfast" not in listed
