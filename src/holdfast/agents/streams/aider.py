"""What aider prints: plain lines. It always ends with status 0, so only they tell whether its last turn came to an end."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.agents.streams.dialect import PlainDialect
from holdfast.core.observations import AgentFinished, Observation, Usage

_USAGE = re.compile(
    r"Tokens: (?P<sent>[\d.,]+[kKM]?) sent, (?:[\d.,]+[kKM]? cache (?:write|hit), )*(?P<got>[\d.,]+[kKM]?) received\."
    r"(?: Cost: \$(?P<cost>[\d.]+)(?: message.*)?)?$"
)
_COMMIT = re.compile(r"Commit [0-9a-f]{7,40} ")
_SCALE = {"k": 1_000, "K": 1_000, "M": 1_000_000}


class AiderStream(PlainDialect):
    """A turn that was answered ends with what was sent and received; then its edits are applied and committed.

    An error after that is the last word unless a commit follows: without an answer to its request for a commit's message
    aider commits all the same. The line above what was sent and received is the end of the answer.
    """

    _before = ""

    def read_plain(self, line: str) -> Iterator[Observation]:
        """Yield what one line tells."""
        if usage := _USAGE.match(line):
            sent, got = _amount(usage["sent"]), _amount(usage["got"])
            if got:
                yield AgentFinished(self._before)
            yield Usage(sent + got, float(usage["cost"] or 0))
        elif _COMMIT.match(line):
            yield AgentFinished()
        else:
            self._before = line


def _amount(text: str) -> int:
    scale = _SCALE.get(text[-1], 1)
    return int(float(text.rstrip("kKM").replace(",", "")) * scale)
