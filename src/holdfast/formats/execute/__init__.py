"""Execute: layers of tasks, worktrees and a merge queue, in `execute-state.json`."""

from holdfast.formats.execute.documents import PLACES, TRACES, companions
from holdfast.formats.execute.read import read, recognises
from holdfast.formats.execute.write import write

__all__ = ["PLACES", "TRACES", "companions", "read", "recognises", "write"]
