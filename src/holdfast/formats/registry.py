"""Which module speaks for which system. Each is imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import cast

from holdfast.formats.model import ForeignFormat, System

_MODULES = {
    System.AUTO_CLAUDE: "holdfast.formats.auto_claude",
    System.SPECFLOW: "holdfast.formats.specflow",
    System.EXECUTE: "holdfast.formats.execute",
    System.APEX: "holdfast.formats.apex",
    # Last: its files have no common shape, so it takes what nobody else recognises more surely.
    System.CFN: "holdfast.formats.cfn",
}


def format_of(system: System) -> ForeignFormat:
    """Return the reader and writer of a system's files."""
    return cast("ForeignFormat", import_module(_MODULES[system]))


def all_formats() -> Mapping[System, ForeignFormat]:
    """Return every system's reader and writer, in the order in which they are asked about a file."""
    return _Formats()


class _Formats(Mapping[System, ForeignFormat]):
    """All systems; one that is not asked for is not loaded."""

    def __getitem__(self, system: System) -> ForeignFormat:
        return format_of(system)

    def __iter__(self) -> Iterator[System]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)
