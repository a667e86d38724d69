"""`plan workflows`: the workflows are listed, printed and checked."""

from __future__ import annotations

from pathlib import Path

from tests.cli.workflow_project import WorkflowProject
from tests.support.command import Cli


def test_the_workflows_are_listed_and_printed_to_start_from(project: WorkflowProject) -> None:
    """What is printed is a workflow again."""
    assert "apex-init" in project("plan", "workflows").out
    project.write("copy.yaml", project("plan", "workflows", "apex").out)
    checked = project("plan", "workflows", "copy.yaml")
    assert "flag docker (off)" in checked.out
    assert "The workflow is valid" in checked.out


def test_a_program_gets_the_workflows_as_json(tmp_path: Path) -> None:
    """All of them with a line each; one by its name, with its text."""
    cli = Cli.of(tmp_path / "p")
    names = [one["name"] for one in cli.json("plan", "workflows")]
    assert "apex" in names
    assert "stages:" in cli.json("plan", "workflows", "apex")["text"]
