"""Reads YAML with every scalar as its original text: dates and `yes` are not converted."""

from __future__ import annotations

from typing import Any


def load(text: str) -> Any:
    """Return the texts, lists and mappings of a document. Raises ValueError with the reason in one line."""
    import yaml

    try:
        # This loader can only return texts, lists and mappings.
        return yaml.load(text, _loader())  # noqa: S506
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(str(error).split("\n")[0]) from None


def compose(text: str) -> Any:
    """Return the nodes of a document that `load` accepted, each with its position in the text."""
    import yaml

    return yaml.compose(text, _loader())


def _loader() -> Any:
    """Return the one loader for all uses: the fast one accepts a little more than the slow one."""
    import yaml

    return getattr(yaml, "CBaseLoader", yaml.BaseLoader)
