"""docs/architecture.md and CONTRIBUTING.md name only files and functions that exist, and the way of a task is short."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "holdfast"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
WALK_FILES_MAX = 20
STEP = re.compile(r"`([\w/]+\.(?:py|toml|yaml))`((?:[ ,]+(?:and )?`[\w.]+`)*)")


@cache
def names_in(file: Path) -> set[str]:
    """Return the functions and classes of a module, methods as `Class.method`, and its constants."""
    names = set()
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{one.name}"
                for one in node.body
                if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
            }
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


def _steps(text: str) -> list[tuple[str, list[str]]]:
    return [(file, re.findall(r"`([\w.]+)`", more)) for file, more in STEP.findall(text)]


def _walks() -> dict[str, str]:
    """Return the numbered walks of docs/architecture.md by their headings."""
    parts = re.split(r"^## (The way of .*)$", ARCHITECTURE.read_text(), flags=re.M)
    return {head: text.split("\n## ")[0] for head, text in zip(parts[1::2], parts[2::2], strict=True)}


@pytest.mark.parametrize("page", [ARCHITECTURE, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_each_named_file_and_function_exists(page: Path) -> None:
    """A walk that names a function which is gone leads nowhere."""
    steps = _steps(page.read_text())
    assert len(steps) > 5
    for file, names in steps:
        path = next((one for one in (SOURCE / file, ROOT / file) if one.exists()), None)
        assert path is not None, f"{page.name}: {file} does not exist"
        if path.suffix == ".py":
            assert set(names) <= names_in(path), f"{page.name}: {file} has no {set(names) - names_in(path)}"


def test_the_ways_of_a_task_of_resume_and_of_adopt_are_walked() -> None:
    """Each step of a walk is numbered and names its file."""
    walks = _walks()
    assert [head.split("`")[1] if "`" in head else head for head in walks] == [
        "The way of a task",
        "resume",
        "adopt",
    ]
    for text in walks.values():
        steps = re.findall(r"^\d+\. (.*(?:\n   .*)*)", text, re.M)
        assert len(steps) > 5
        assert [step for step in steps if not STEP.search(step)] == []


def test_the_way_of_a_task_is_short() -> None:
    """From the plan to the landed merge a reader opens few files."""
    files = {file for file, _ in _steps(_walks()["The way of a task"])}
    assert len(files) <= WALK_FILES_MAX
