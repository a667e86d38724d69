"""YAML of which every scalar is the text that was written: a date stays a date, and a `yes` a `yes`."""

from __future__ import annotations

from typing import Any


def load(text: str) -> Any:
    """Return the texts, lists and mappings that a document holds. Raises ValueError with the reason in one line."""
    import yaml

    try:
        # Nothing but texts, lists and mappings can come of this loader.
        return yaml.load(text, _loader())  # noqa: S506
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(str(error).split("\n")[0]) from None


def compose(text: str) -> Any:
    """Return the nodes of a document that `load` accepted, each with its place in the text."""
    import yaml

    return yaml.compose(text, _loader())


def _loader() -> Any:
    """Return the one loader for all: the fast one accepts a little more than the slow one."""
    import yaml

    return getattr(yaml, "CBaseLoader", yaml.BaseLoader)
