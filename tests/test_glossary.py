"""docs/glossary.md: one word, one meaning. Each word points at real code, and retired words do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.test_architecture import names_in

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "holdfast"
PAGE = ROOT / "docs" / "glossary.md"
ENTRY = re.compile(r"^\| ([a-z ]+) \| (.+?) \| `([\w/]+\.\w+)`(?: `([\w.]+)`)? \|$", re.M)
RETIRED = re.compile(r"^\| ([a-z, ]+) \| (.+?) \|$", re.M)
PLACE = re.compile(r"^- `(\w+)`: (.+)$", re.M)
SECOND = re.compile(r"^\| ([a-z]+) \| (.+?) \| ((?:`[\w/]+\.py`(?:, )?)+) \|$", re.M)
ENDINGS = "|s|es|d|ed|er|ing|ion|ions"


@cache
def _section(title: str) -> str:
    text = PAGE.read_text()
    start = text.index(f"## {title}\n")
    return text[start:].split("\n## ", 1)[0]


def _vocabulary() -> list[tuple[str, str, str, str]]:
    return ENTRY.findall(_section("The vocabulary"))


def _words(name: str) -> set[str]:
    """Split an identifier into its words, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def _identifiers(path: Path) -> Iterator[str]:
    """Yield what a module names: itself, its classes, functions, parameters and fields."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


@cache
def _used() -> dict[str, set[str]]:
    """Return for each word the files whose names use it."""
    used: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for name in _identifiers(path):
            for word in _words(name):
                used.setdefault(word, set()).add(str(path.relative_to(SOURCE)))
    return used


def _forms(word: str) -> list[str]:
    """Return the forms of a word that are in use, such as `adopted` and `adoption` of `adopt`."""
    form = re.compile(
        f"{word.removesuffix('e')}e?({ENDINGS})" if word.endswith("e") else f"{word}({ENDINGS})"
    )
    return [used for used in _used() if form.fullmatch(used)]


def test_each_word_is_listed_once_in_order() -> None:
    """Two rows for one word would be two meanings."""
    words = [word for word, *_ in _vocabulary()]
    assert len(words) > 40
    assert words == sorted(set(words))


@pytest.mark.parametrize(("title", "pattern"), [("The vocabulary", ENTRY), ("Second meanings", SECOND)])
def test_no_row_is_left_unread(title: str, pattern: re.Pattern[str]) -> None:
    """A row that these checks cannot read could say anything."""
    rows = [line for line in _section(title).splitlines() if line.startswith("| ")]
    assert len(rows) - 1 == len(pattern.findall(_section(title)))


def test_a_second_meaning_is_one_of_a_listed_word_at_a_real_place() -> None:
    """The exceptions are few, and each can be looked at."""
    words = {word for word, *_ in _vocabulary()}
    for word, _, places in SECOND.findall(_section("Second meanings")):
        assert word in words
        files = re.findall(r"`([\w/.]+)`", places)
        assert [file for file in files if not (SOURCE / file).exists()] == []


@pytest.mark.parametrize("entry", _vocabulary(), ids=lambda entry: entry[0])
def test_each_word_points_at_code_that_exists(entry: tuple[str, str, str, str]) -> None:
    """Whoever looks a word up finds where it lives."""
    word, _, file, name = entry
    assert (SOURCE / file).exists(), f"{word}: {file} does not exist"
    assert not name or name in names_in(SOURCE / file), f"{word}: no {name} in {file}"


def test_no_retired_word_is_used_in_a_name() -> None:
    """Metaphors were replaced by the words of the field; they stay out of names."""
    retired = [word for words, _ in RETIRED.findall(_section("Retired words")) for word in words.split(", ")]
    assert len(retired) > 20
    found = {form: sorted(_used()[form]) for word in retired for form in _forms(word)}
    assert found == {}


@pytest.mark.parametrize(
    "entry", PLACE.findall(_section("Words with a fixed place")), ids=lambda entry: entry[0]
)
def test_a_word_with_a_fixed_place_stays_there(entry: tuple[str, str]) -> None:
    """A word that once had several meanings, or a form of it, is used in names only where it has its one meaning."""
    word, places = entry
    allowed = tuple(re.findall(r"`([\w/.]+)`", places))
    assert [place for place in allowed if not (SOURCE / place).exists()] == []
    used = {file for form in _forms(word) for file in _used()[form]}
    assert [file for file in sorted(used) if not file.startswith(allowed)] == []
