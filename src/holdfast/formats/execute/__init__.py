"""Execute: layers of tasks, worktrees and a merge queue, in `execute-state.json`."""

from holdfast.formats.execute.layout import companions
from holdfast.formats.execute.read import read, recognises
from holdfast.formats.execute.write import write

__all__ = ["companions", "read", "recognises", "write"]
