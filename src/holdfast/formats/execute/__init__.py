"""Execute: layers of tasks, worktrees and a merge queue, in `execute-state.json`."""

from holdfast.formats.execute.documents import PLACES, TRACES, companions, recognises
from holdfast.formats.execute.read import read
from holdfast.formats.execute.write import write
from holdfast.formats.model import ForeignFormat

__all__ = ["FORMAT", "companions", "read", "recognises", "write"]

FORMAT = ForeignFormat(
    title="Execute",
    places=PLACES,
    traces=TRACES,
    recognises=recognises,
    companions=companions,
    read=read,
    write=write,
)
