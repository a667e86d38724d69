"""Reads and writes APEX: `state.json`, links, outputs, `docs/backlog.yaml`; a related `00-context.md`."""

from holdfast.formats.apex.layout import PLACES, TRACES, companions
from holdfast.formats.apex.read import read, recognises
from holdfast.formats.apex.state import list_runs
from holdfast.formats.apex.write import write
from holdfast.formats.model import ForeignFormat

__all__ = ["FORMAT", "companions", "list_runs", "read", "recognises", "write"]

FORMAT = ForeignFormat(
    title="APEX",
    places=PLACES,
    traces=TRACES,
    recognises=recognises,
    companions=companions,
    read=read,
    write=write,
    list_runs=list_runs,
)
