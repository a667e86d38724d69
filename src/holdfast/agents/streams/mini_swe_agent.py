"""What mini-swe-agent prints: headings and below them what was said, without events.

It ends with status 0 when it reached its own limits, too. Only what is below its last heading tells that apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.agents.streams.dialect import PlainDialect
from holdfast.core.observations import (
    Activity,
    AgentFinished,
    AgentTrouble,
    Observation,
    TroubleSeen,
    Usage,
)

_STEP = re.compile(r"mini-swe-agent \(step \d+, \$(\d+\.\d\d)\):")
_RESULT = "Tool:"
_QUOTES = ("System:", "User:", _RESULT)
_RULE = re.compile("─{20,}")
"""What it draws before it asks the model: its own errors are below."""
_EXIT = "Exit:"
_SAVED = "Saved trajectory to"
_GAVE_UP = {
    "LimitsExceeded": "it reached its own limit of cost or steps (LimitsExceeded)",
    "TimeExceeded": "it reached its own limit of time (TimeExceeded)",
    "RepeatedFormatError": "the model called no tool, several times in a row (RepeatedFormatError)",
}


class MiniSweAgentStream(PlainDialect):
    """A step, a tool's result and the exit have headings. Only the exit is followed by where the trajectory is.

    What the model or a tool prints may look like a heading; the next real one corrects what was read of it.
    """

    ends_with_words = False
    _exit: list[str] | None = None
    _quoted = False

    def is_quoted(self) -> bool:
        """Tell whether the line that was read last is the task's, the model's or a tool's."""
        return self._quoted

    def read_plain(self, line: str) -> Iterator[Observation]:
        """Yield what one line tells."""
        if line in _QUOTES or _STEP.fullmatch(line):
            self._quoted = True
        elif _RULE.fullmatch(line):
            self._quoted = False
        if step := _STEP.fullmatch(line):
            self._exit = None
            yield Activity(tool="bash")
            yield Usage(cost_usd=float(step[1]), whole=True)
        elif line == _RESULT:
            self._exit = None
            yield Activity(tool_done=True)
        elif line == _EXIT:
            self._exit = []
        elif self._exit is not None and line.startswith(_SAVED):
            yield _ended("\n".join(self._exit))
            self._exit = None
        elif self._exit is not None:
            self._exit.append(line)


def _ended(said: str) -> Observation:
    gave_up = _GAVE_UP.get(said)
    return AgentFinished(said) if gave_up is None else TroubleSeen(AgentTrouble.ERROR, gave_up)
