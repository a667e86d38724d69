"""Auto-Claude: `.auto-claude/specs/NNN-slug/` with its plan, its memory and its copies in worktrees, both ways."""

from holdfast.formats.auto_claude.layout import PLACES, TRACES, companions, recognises
from holdfast.formats.auto_claude.read import read
from holdfast.formats.auto_claude.write import write

__all__ = ["PLACES", "TRACES", "companions", "read", "recognises", "write"]
