"""The registry of systems: a package and a row are all that a new system needs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.formats.model import ForeignFormat, all_formats, format_of
from holdfast.formats.registry import System

SOURCE = Path(__file__).parents[2] / "src" / "holdfast"


@pytest.mark.parametrize("system", System)
def test_each_row_of_the_registry_names_a_package_with_a_format(system: System) -> None:
    """The command line, the search and the mirror find a format by its row alone."""
    assert isinstance(format_of(system), ForeignFormat)
    assert all_formats()[system] is format_of(system)


def test_titles_differ() -> None:
    """People tell the systems apart by their titles."""
    titles = [one.title for one in all_formats().values()]
    assert len(titles) == len(set(titles))


def test_nothing_outside_the_formats_names_a_system() -> None:
    """Whoever adds a system edits no other package."""
    packages = "|".join(system.package.rpartition(".")[2] for system in System)
    named = re.compile(
        rf"\bSystem\.[A-Z]|holdfast\.formats\.({packages})\b|holdfast\.formats import .*\b({packages})\b"
    )
    outside = [path for path in SOURCE.rglob("*.py") if "formats" not in path.relative_to(SOURCE).parts]
    assert [path.name for path in outside if named.search(path.read_text())] == []
