"""Needs that can be met: what names nothing, comes later or closes a circle is dropped and told, never followed."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.plan import find_cycle

Edges = dict[str, tuple[str, ...]]
Dropped = list[tuple[str, str]]
"""The needs that were given up, as (who needed, what)."""


def acyclic(edges: Mapping[str, tuple[str, ...]]) -> tuple[Edges, Dropped]:
    """Return the edges without those that close a circle, and those. Which one goes is the same every time."""
    kept: Edges = {name: tuple(dict.fromkeys(needs)) for name, needs in edges.items()}
    dropped: Dropped = []
    while circle := find_cycle(kept):
        who, what = circle[-2], circle[-1]
        kept[who] = tuple(need for need in kept[who] if need != what)
        dropped.append((who, what))
    return kept, dropped


def in_order(edges: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the names so that each comes after what it needs, and otherwise as they were. There is no circle."""
    placed: dict[str, None] = {}
    for name in edges:
        waiting = [name]
        while waiting:
            missing = [need for need in edges[waiting[-1]] if need in edges and need not in placed]
            if missing:
                waiting.append(missing[0])
            else:
                placed.setdefault(waiting.pop())
    return list(placed)
