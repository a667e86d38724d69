"""Documents and docstrings name only files and functions that exist, and the way of a task is short."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.test_tidy import ALLOWED

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "holdfast"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
INVARIANTS = ROOT / "docs" / "invariants.md"
WALK_FILES_MAX = 20
MODULE = re.compile(r"(?<![\w/.<])(?:\w+/)*\w+\.py\b")
PACKAGE = re.compile(r"^\| `(\w+)/` \| .+? \| (.+?) \|$", re.M)
ROW = re.compile(r"^\| (\d+) \| (.+) \|$", re.M)
VIOLATION = re.compile(r"(?:Violation|violated)\((\d+),")
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


@pytest.mark.parametrize(
    "page", [ARCHITECTURE, INVARIANTS, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name
)
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


def test_the_table_of_packages_is_the_one_that_is_enforced() -> None:
    """What a reader is told about imports is what the tests refuse."""
    every = set(ALLOWED) - {"cli", "testing", "__main__"}
    told = {
        name: set() if row == "nothing" else every if row.startswith("everything") else set(row.split(", "))
        for name, row in PACKAGE.findall(ARCHITECTURE.read_text())
    }
    assert told == {name: parts for name, parts in ALLOWED.items() if name != "__main__"}


def test_each_number_of_an_invariant_is_explained_with_the_files_that_use_it() -> None:
    """`doctor`, the crash sweep and the simulation print numbers; one table says what each means."""
    rows = dict(ROW.findall(INVARIANTS.read_text()))
    assert list(rows) == [str(number) for number in range(1, len(rows) + 1)]
    judges = [SOURCE / "core" / "invariants.py", ROOT / "tests" / "core" / "simulation" / "judge.py"]
    for path in [*judges, *sorted((ROOT / "tests" / "crash").glob("*.py"))]:
        name = str(path.relative_to(SOURCE if path.is_relative_to(SOURCE) else ROOT))
        numbers = set(VIOLATION.findall(path.read_text()))
        assert [number for number in sorted(numbers) if f"`{name}`" not in rows[number]] == [], name


def _prose(path: Path) -> Iterator[str]:
    """Yield the comments and docstrings of a module, also those below a constant."""
    text = path.read_text()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield str(node.value.value)


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_named_in_a_comment_or_docstring_exists(path: Path) -> None:
    """A name that a renamed module left behind sends the reader nowhere."""
    named = {name for text in _prose(path) for name in MODULE.findall(text)}
    assert sorted(name for name in named if not _exists(name)) == []


def _exists(name: str) -> bool:
    return (ROOT / name).exists() or any(f"/{file}".endswith(f"/{name}") for file in _modules())


@cache
def _modules() -> list[str]:
    return [
        str(path.relative_to(ROOT)) for folder in ("src", "tests") for path in (ROOT / folder).rglob("*.py")
    ]
