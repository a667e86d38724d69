"""What the agent of a task prints, read as it grows: the latest attempt, its event stream as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.agents.presets import agent_of_attempt, presets_of
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.agents.streams.reader import LogReader
from holdfast.core.state import RunState
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import AGENT_STEP, LaunchKey
from holdfast.paths import StateDir
from holdfast.redaction import redact
from holdfast.views.log_text import entry_lines

_PIECE_BYTES = 256 * 1024
_FIRST_BYTES = 128 * 1024
"""How much of what was printed before is shown."""


class ShownLog:
    """The output of one attempt, as far as it was read."""

    def __init__(self, checkout: Path, state: RunState, task: str) -> None:
        row = state.tasks[task]
        self.key = LaunchKey(state.row.run, task, row.attempt, AGENT_STEP)
        self._fleet = open_fleet(StateDir.of_checkout(checkout).fleet)
        agent = agent_of_attempt(state, task, row.attempt, presets_of(checkout))
        self._reader = LogReader(
            "raw" if agent is None else agent.stream,
            ErrorPatterns() if agent is None else agent.error_patterns(),
        )
        end = self._fleet.output(self.key, 0, 1).end
        self._seen = max(0, end - _FIRST_BYTES)
        self.skipped, self.is_empty = self._seen, not end

    def new_lines(self) -> Iterator[str]:
        """Yield what was printed since the last call, at most a piece of it. What is not kept any more is left out."""
        piece = self._fleet.output(self.key, self._seen, _PIECE_BYTES)
        if piece.data and piece.start > self._seen:
            self._reader.skip()
        self._seen = piece.start + len(piece.data)
        for entry in self._reader.feed(piece.data):
            # What a stream wrote with escapes is spelled out here: it must not uncover a secret.
            yield from map(redact, entry_lines(entry))
