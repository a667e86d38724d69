"""Reads YAML with every scalar as its original text: dates and `yes` are not converted.

The files are somebody else's. Depth is bounded, because the library's fast loader crashes on deep nesting, and so is what
aliases expand to.
"""

from __future__ import annotations

from typing import Any

DEPTH_MAX = 100
VALUES_MAX = 1_000_000


def load(text: str) -> Any:
    """Return the texts, lists and mappings of a document. Raises ValueError with the reason in one line."""
    import yaml

    try:
        _require_bounded(text)
        # This loader can only return texts, lists and mappings.
        return yaml.load(text, _loader())  # noqa: S506
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ValueError(str(error).split("\n")[0]) from None


def compose(text: str) -> Any:
    """Return the nodes of a document that `load` accepted, each with its position in the text."""
    import yaml

    return yaml.compose(text, _loader())


def _require_bounded(text: str) -> None:
    """Raise ValueError if a document is nested too deeply, or too large once its aliases are filled in."""
    import yaml

    total, sizes = 0, dict[str, int]()
    open_at: list[tuple[str | None, int]] = []
    for event in yaml.parse(text, _loader()):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_at.pop()
            if anchor:
                sizes[anchor] = total - before
        elif isinstance(event, yaml.AliasEvent):
            # What is inside itself cannot be filled in at all.
            total += sizes.get(event.anchor or "", VALUES_MAX)
        elif isinstance(event, yaml.NodeEvent):
            total += 1
            if isinstance(event, yaml.CollectionStartEvent):
                open_at.append((event.anchor, total))
            elif event.anchor:
                sizes[event.anchor] = 1
        if len(open_at) > DEPTH_MAX:
            raise ValueError(f"{_place(event)}nested deeper than {DEPTH_MAX} levels")
        if total > VALUES_MAX:
            raise ValueError(f"{_place(event)}more than {VALUES_MAX} values once its aliases are filled in")


def _place(event: Any) -> str:
    return f"line {event.start_mark.line + 1}: " if event.start_mark else ""


def _loader() -> Any:
    """Return the one loader for all uses: the fast one accepts a little more than the slow one."""
    import yaml

    return getattr(yaml, "CBaseLoader", yaml.BaseLoader)
