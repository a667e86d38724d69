"""Real files of the other systems as the input of their workflows, and the example of the manual."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.core.plan_rules import broken_rules
from holdfast.formats.lenient_json import BrokenFileError
from holdfast.formats.model import format_of
from holdfast.formats.registry import System
from holdfast.workflows import InputDocument, parse_workflow
from tests.workflows.examples import DOCUMENT, builtin, ids, plan_of

ROOT = Path(__file__).parents[2]
CORPUS = ROOT.parent / "shared" / "corpus"
LISTS = ("spec-kit", "task-master", "backlog", "checklist", "plan")


@pytest.mark.parametrize("name", ["execute", "cfn", "auto-claude", "specflow"])
def test_every_readable_file_of_a_system_goes_through_its_workflow(name: str) -> None:
    """Each task of each real file is a task of the plan, and the plan breaks no rule."""
    folder = CORPUS / name
    if not folder.is_dir():
        pytest.skip("the corpus is not beside this checkout")
    system, made, seen = format_of(System(name)), builtin(name), 0
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        if not system.recognises(path.name, data):
            continue
        try:
            run = system.read(path.name, {path.name: data})
        except BrokenFileError:
            continue
        tasks = [task.id for _, task in run.plan.tasks()]
        if not tasks:
            continue
        plan = plan_of(
            made, document=InputDocument(run.name, run.plan), off=tuple(f for f in made.flags if f == "qa")
        )
        assert ids(plan) == tasks, path.name
        assert not list(broken_rules(plan, ("claude",))), path.name
        seen += 1
    assert seen


def test_the_workflow_of_the_manual_is_a_workflow() -> None:
    """What people copy from the manual works."""
    text = (ROOT / "docs" / "workflows.md").read_text()
    (example,) = re.findall(r"```yaml\n(workflow: 1\n.*?)```", text, re.DOTALL)
    made = parse_workflow(example.encode(), "mine.yaml", LISTS)
    assert ids(plan_of(made, document=DOCUMENT, check="make test")) == ["saw", "glue", "paint", "review"]
