"""Plans in documents: each is valid as it is printed, and the reference has every key and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from holdfast.agents.presets import agent_names, presets_of
from holdfast.plans import parse_plan
from tests.plans.reference_page import PAGE, TABLE, WRITE, records, with_tables
from tests.support.command import Cli
from tests.support.repositories import Project, write

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "skills").rglob("*.md"))]
YAML = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
STAND_INS = {
    "holdfast": "holdfast: 1\n",
    "goal": "goal: An example\n",
    "agent": "agent: claude\n",
    "stages": 'tasks: [{id: one, prompt: "…"}]\n',
}
"""What an excerpt of a plan leaves out."""


def _plans() -> list[Any]:
    """Return every plan of the documents, and every excerpt of one, with what it leaves out."""
    found = []
    for page in PAGES:
        for number, (text,) in enumerate((match.groups() for match in YAML.finditer(page.read_text())), 1):
            if not re.search(r"^workflow: ", text, re.MULTILINE):
                found.append(pytest.param(_whole(text), id=f"{page.relative_to(ROOT)}-{number}"))
    return found


def _whole(text: str) -> str:
    keys = set(re.findall(r"^(\w+):", text, re.MULTILINE))
    keys |= {"stages"} if "tasks" in keys else set()
    return text + "".join(line for key, line in STAND_INS.items() if key not in keys)


@pytest.mark.parametrize("plan", _plans())
def test_every_plan_in_a_document_is_valid(plan: str) -> None:
    """What a document shows, the program takes."""
    parse_plan(plan.encode(), "plan.yaml", [*agent_names(presets_of(ROOT)), "codex", "mine", "builder"])


def test_the_program_itself_takes_a_plan_of_the_documents(tmp_path: Path) -> None:
    """The example of docs/secrets.md, with an agent's own `pass_env`, as a user would try it."""
    text = next(str(param.values[0]) for param in _plans() if str(param.id).startswith("docs/secrets.md"))
    assert "pass_env" in text
    cli = Cli(Project.create(tmp_path / "p").path)
    write(cli.here / "plan.yaml", text)
    checked = cli("run", "plan.yaml", "--dry-run")
    assert checked.code == 0, checked.err


def test_the_tables_of_the_reference_are_those_of_the_schema() -> None:
    """A key that was added, changed or removed shows here. The remedy is one command."""
    assert with_tables(PAGE.read_text()) == PAGE.read_text(), f"run `{WRITE}`, then look at docs/plan.md"


def test_the_reference_has_a_section_for_every_mapping() -> None:
    """A new mapping needs a heading, a table and an example."""
    page = PAGE.read_text()
    there = {found[1] for found in TABLE.finditer(page)}
    missing, gone = sorted(records().keys() - there), sorted(there - records().keys())
    for name in missing:
        heading = name.replace("_", "-")
        pytest.fail(
            f"docs/plan.md: add `## {heading}`, `<!-- keys of {name} -->`, `<!-- end -->`, an example; then run `{WRITE}`"
        )
    assert gone == [], "docs/plan.md has sections of what the schema does not know: remove them"


def test_every_key_of_the_schema_is_in_an_example_of_the_reference() -> None:
    """A key that nobody shows is a key that nobody uses rightly."""
    examples = "\n".join(found[1] for found in YAML.finditer(PAGE.read_text()))
    used = set(re.findall(r"(?:^|[\s{,-])(\w+):", examples))
    keys = {key for record in records().values() for key in record["properties"]}
    assert sorted(keys - used) == [], "docs/plan.md: show these keys in a YAML example"
