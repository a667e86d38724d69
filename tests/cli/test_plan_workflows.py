"""`plan workflows`: the workflows are listed, printed and checked."""

from __future__ import annotations

from tests.cli.workflow_project import WorkflowProject


def test_the_workflows_are_listed_and_printed_to_start_from(project: WorkflowProject) -> None:
    """What is printed is a workflow again."""
    assert "apex-init" in project("plan", "workflows").out
    project.write("copy.yaml", project("plan", "workflows", "apex").out)
    checked = project("plan", "workflows", "copy.yaml")
    assert "flag docker (off)" in checked.out
    assert "The workflow is valid" in checked.out
