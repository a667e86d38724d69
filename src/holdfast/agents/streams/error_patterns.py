"""What an agent's errors mean: a usage limit, an outage, a full context, a missing login. The patterns are data of the preset.

`errors` are searched in the message of an error event. `lines` must match a line of plain output from its first
character, which is how an agent prints an error of its own. What the model says is never searched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.core.observations import AgentTrouble

_STATUSES = {
    401: AgentTrouble.AUTH,
    402: AgentTrouble.CREDIT,
    403: AgentTrouble.AUTH,
    404: AgentTrouble.OUTAGE,
    408: AgentTrouble.OUTAGE,
    413: AgentTrouble.CONTEXT,
    429: AgentTrouble.LIMIT,
    529: AgentTrouble.LIMIT,
}
_SERVER_ERRORS = range(500, 600)
"""A server that fails says nothing of the request: the provider is out of order."""
_SEARCHED_CHARS = 4_000
"""An error gives its meaning early. A whole file may follow, and a pattern would search it for minutes."""
_Patterns = tuple[tuple[AgentTrouble, "re.Pattern[str]"], ...]


@dataclass(frozen=True, slots=True)
class ErrorPatterns:
    """How one agent words what went wrong."""

    errors: _Patterns = ()
    lines: _Patterns = ()
    exit_codes: tuple[tuple[int, AgentTrouble], ...] = ()

    @classmethod
    def of(
        cls,
        errors: Mapping[AgentTrouble, Sequence[str]],
        lines: Mapping[AgentTrouble, Sequence[str]],
        exit_codes: Mapping[str, AgentTrouble],
    ) -> ErrorPatterns:
        """Compile a preset's patterns. Raises re.error for an invalid one."""
        codes = tuple((int(code), trouble) for code, trouble in exit_codes.items())
        return cls(_compiled(errors), _compiled(lines), codes)

    def of_error(self, message: str, status: float = 0) -> AgentTrouble:
        """Return what an error of the agent means: by its message, else by its HTTP status, else it is just an error."""
        start = message[:_SEARCHED_CHARS]
        found = next((trouble for trouble, pattern in self.errors if pattern.search(start)), None)
        return found or _by_status(int(status))

    def of_line(self, line: str) -> AgentTrouble | None:
        """Return what a line of plain output means, if it is one of the agent's errors."""
        start = line[:_SEARCHED_CHARS]
        return next((trouble for trouble, pattern in self.lines if pattern.match(start)), None)

    def of_exit(self, code: int) -> AgentTrouble | None:
        """Return what an exit status means by the agent's own convention."""
        return next((trouble for known, trouble in self.exit_codes if known == code), None)


def _by_status(status: int) -> AgentTrouble:
    failed = AgentTrouble.OUTAGE if status in _SERVER_ERRORS else AgentTrouble.ERROR
    return _STATUSES.get(status, failed)


def _compiled(patterns: Mapping[AgentTrouble, Sequence[str]]) -> _Patterns:
    return tuple((trouble, re.compile(one)) for trouble, some in patterns.items() for one in some)
