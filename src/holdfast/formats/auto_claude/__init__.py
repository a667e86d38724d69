"""Reads and writes Auto-Claude: `.auto-claude/specs/NNN-slug/` with plan, memory and worktree copies."""

from holdfast.formats.auto_claude.layout import PLACES, TRACES, companions, recognises, staging_worktree
from holdfast.formats.auto_claude.read import read
from holdfast.formats.auto_claude.write import write
from holdfast.formats.model import ForeignFormat

__all__ = ["FORMAT", "companions", "read", "recognises", "write"]

FORMAT = ForeignFormat(
    title="Auto-Claude",
    places=PLACES,
    traces=TRACES,
    recognises=recognises,
    companions=companions,
    read=read,
    write=write,
    staging_worktree=staging_worktree,
)
