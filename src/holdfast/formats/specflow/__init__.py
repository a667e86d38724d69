"""Reads and writes SpecFlow: a run's state in waves, its specification, `.continue-here`, and STATE.md."""

from holdfast.formats.model import ForeignFormat
from holdfast.formats.specflow.layout import HOME, PLACES, TRACES, companions
from holdfast.formats.specflow.read import read, recognises
from holdfast.formats.specflow.write import write

__all__ = ["FORMAT", "companions", "read", "recognises", "write"]

FORMAT = ForeignFormat(
    title="SpecFlow",
    places=PLACES,
    traces=TRACES,
    recognises=recognises,
    companions=companions,
    read=read,
    write=write,
    locks=(f"{HOME}/.*.lock",),
)
