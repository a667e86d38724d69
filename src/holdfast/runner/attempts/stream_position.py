"""The ear at one attempt's event stream: how far it was read, and what was heard."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.agents.streams.reader import StreamReader
from holdfast.core.observations import AgentTrouble, StreamSummary
from holdfast.fleet.protocol import Fleet, LaunchKey

PIECE_BYTES = 512 * 1024
"""How much of a stream is read at once, so that a flood of output holds nobody up."""
BACKLOG_BYTES_MAX = 8 * 1024 * 1024
"""Who is further behind than this goes on near the end: what an agent says last says how it stands."""


@dataclass(slots=True)
class StreamListener:
    """One attempt's stream and how far it was read. `deaf`: there is nothing in it that could be understood.

    `recalled` is what is on record of the attempt, from whoever listened before.
    """

    reader: StreamReader
    signals: ErrorPatterns
    recalled: StreamSummary = field(default_factory=StreamSummary)
    deaf: bool = False
    heard: StreamSummary = field(default_factory=StreamSummary)
    offset: int = 0
    limited_since: float | None = None
    told_at: float = 0.0

    def listen(self, fleet: Fleet, key: LaunchKey) -> int:
        """Read a piece further; return how many bytes are left. Nothing new, nothing changes."""
        if self.deaf:
            return 0
        piece = fleet.output(key, self.offset, PIECE_BYTES)
        if piece.end - piece.start > BACKLOG_BYTES_MAX:
            piece = fleet.output(key, piece.end - PIECE_BYTES, PIECE_BYTES)
        if piece.start != self.offset:
            self.reader.skip()
            self.heard.recall(self.recalled)
        self.offset = piece.start + len(piece.data)
        for seen in self.reader.feed(piece.data):
            self.heard.take(seen)
        limited = self.heard.trouble is AgentTrouble.LIMIT
        self.limited_since = (self.limited_since or time.monotonic()) if limited else None
        return piece.end - self.offset if piece.data else 0

    def finish(self, fleet: Fleet, key: LaunchKey) -> StreamSummary:
        """Read to the end, a last line without an end included, and return all that was heard."""
        while self.listen(fleet, key):
            continue
        for seen in self.reader.close():
            self.heard.take(seen)
        return self.heard
