"""One plan text as values (fast, always) or as lines (slow, only to word an error). Chooses the syntax."""

from __future__ import annotations

from typing import Any

from holdfast.plans.json_text import build_json, load_json
from holdfast.plans.source import Source
from holdfast.plans.tree import Marks, TreeBuilder
from holdfast.plans.yaml_text import build_yaml


def load(source: Source) -> tuple[Any, bool]:
    """Return the plain value of a text, and whether any of its mappings has a key twice."""
    if source.is_json:
        return load_json(source)
    builder = TreeBuilder(source)
    build_yaml(source, builder)
    return builder.root, builder.has_duplicates


def locate(source: Source) -> Marks:
    """Return the line of every value in a text that `load` accepted."""
    marks = Marks()
    build = build_json if source.is_json else build_yaml
    build(source, TreeBuilder(source, marks))
    return marks
