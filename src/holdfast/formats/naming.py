"""Ids for what other systems name as they like: valid, unique whatever the case, and the same every time."""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.core.ids import is_valid_id

_ID_CHARS_MAX = 64


def task_ids(natives: Iterable[str], fallback: str = "task") -> list[str]:
    """Return one id for each native name, in order. A missing name becomes `fallback` and its number."""
    taken: set[str] = set()
    return [_free(_plain(native) or f"{fallback}-{place}", taken) for place, native in enumerate(natives, 1)]


def distinct(natives: Iterable[str], fallback: str) -> list[str]:
    """Return the names as they are, each once: a missing one is `fallback` and its place, a second one is numbered."""
    taken: dict[str, None] = {}
    for place, native in enumerate(natives, 1):
        name = base = native or f"{fallback}-{place}"
        number = 2
        while name in taken:
            name, number = f"{base} ({number})", number + 1
        taken[name] = None
    return list(taken)


def _plain(native: str) -> str:
    """Return the name itself where it may be an id, else what of it may be part of one."""
    if is_valid_id(native):
        return native
    return re.sub(r"[^A-Za-z0-9._-]+", "-", native).strip("._-")[:_ID_CHARS_MAX]


def _free(name: str, taken: set[str]) -> str:
    """Return the name, numbered if it is taken; ids that differ only in case are the same to some file systems."""
    candidate, number = name, 2
    while candidate.casefold() in taken:
        ending = f"-{number}"
        candidate = name[: _ID_CHARS_MAX - len(ending)] + ending
        number += 1
    taken.add(candidate.casefold())
    return candidate
