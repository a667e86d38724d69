"""Plain output: agents without an event stream, and what the others print beside theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.agents.streams.signals import Signals
from holdfast.core.observations import Finished, Observation, Usage, Wrong

_AIDER_USAGE = re.compile(
    r"Tokens: (?P<sent>[\d.,]+[kKM]?) sent, (?:[\d.,]+[kKM]? cache (?:write|hit), )*(?P<got>[\d.,]+[kKM]?) received\."
    r"(?: Cost: \$(?P<cost>[\d.]+) message)?"
)
_SCALE = {"k": 1_000, "K": 1_000, "M": 1_000_000}


def plain_line(line: str, signals: Signals) -> Iterator[Observation]:
    """Yield what a line of plain output tells: an error of the agent's own, or what a turn cost."""
    trouble = signals.of_line(line)
    usage = _AIDER_USAGE.match(line)
    if trouble is not None:
        yield Wrong(trouble, line)
    elif usage is not None:
        # A turn that was paid for is a turn that went well, whatever went wrong before it.
        yield Finished()
        yield Usage(_amount(usage["sent"]) + _amount(usage["got"]), float(usage["cost"] or 0))


def _amount(text: str) -> int:
    scale = _SCALE.get(text[-1], 1)
    return int(float(text.rstrip("kKM").replace(",", "")) * scale)
