"""The script of a model, in no provider's words: tool calls, a last text, and a way to fail."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Write:
    """The model has the agent write a file, by the path inside its workspace.

    Some agents refuse to overwrite a file that they have not read; a `Shell` command gets around that.
    """

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class Shell:
    """The model has the agent run a command in a shell."""

    command: str


Action = Write | Shell


class ModelFault(StrEnum):
    """A way for a provider to fail, each in the shape of the provider that is asked."""

    RATE_LIMIT = "rate-limit"
    """HTTP 429 that asks to come back in a second."""
    USAGE_LIMIT = "usage-limit"
    """HTTP 429 that names the time at which the quota is filled again."""
    OVERFLOW = "overflow"
    """The conversation is longer than the model's context."""
    BAD_KEY = "bad-key"
    """HTTP 401."""
    CUT = "cut"
    """The connection is reset in the middle of the answer."""
    EOF = "eof"
    """The answer ends cleanly, but early: no finish reason."""


@dataclass(frozen=True, slots=True)
class Script:
    """What the model does in one conversation: its actions one by one, then the text `say`.

    With a `fault`, the first `times` requests fail, or all of them when `times` is None. `after` lets that many
    actions be done before. `resets_in_s` is how far ahead a usage limit's reset lies. `hold` makes the model slow: an
    answer waits until the test sets the event. `think_s` is how long it thinks before each answer, for measurements
    rather than for tests, which should not wait for clocks. `tokens` are the input and output tokens that every answer claims.
    """

    actions: tuple[Action, ...] = ()
    say: str = "Done."
    fault: ModelFault | None = None
    times: int | None = None
    after: int = 0
    resets_in_s: int = 3600
    hold: threading.Event | None = None
    think_s: float = 0.0
    tokens: tuple[int, int] = (1000, 50)
