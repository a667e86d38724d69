"""The script of a model, in no provider's words: tool calls, a last text, and a way to fail."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


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


@dataclass(frozen=True, slots=True)
class Conversation:
    """What the model was told: the words of the user, and the text of every tool's result, oldest first."""

    prompt: str
    results: tuple[str, ...] = ()


ToolArguments = Mapping[str, Any] | Callable[[Conversation], Mapping[str, Any]]
"""The arguments of a tool, or a function that makes them of the conversation so far."""


@dataclass(frozen=True, slots=True)
class Call:
    """The model calls a tool by its name, such as one of an MCP server; required arguments that it lacks are filled in."""

    tool: str
    arguments: ToolArguments = field(default_factory=dict)


Action = Write | Shell | Call


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
    NO_CREDIT = "no-credit"
    """Nobody pays: the account has no credit left, as the provider itself says it."""
    PAYMENT_REQUIRED = "payment-required"
    """HTTP 402, as gateways say that there is no credit left."""
    BAD_MODEL = "bad-model"
    """The API is there, the model is not: HTTP 404 or 400 that names it."""
    NOT_FOUND = "not-found"
    """HTTP 404 of the API itself, as a wrong address or a broken gateway gives it."""
    SERVER_ERROR = "server-error"
    """HTTP 500."""
    REFUSED = "refused"
    """Nobody listens at the port."""
    CUT = "cut"
    """The connection is reset in the middle of the answer."""
    EOF = "eof"
    """The answer ends cleanly, but early: no finish reason."""
    REFUSAL = "refusal"
    """The model or a filter behind it declines: HTTP 200 with a stop reason that says so."""


@dataclass(frozen=True, slots=True)
class Script:
    """What the model does in one conversation: its actions one by one, then the text `say`.

    With a `fault`, the first `times` requests fail, or all of them when `times` is None. `after` lets that many
    actions be done before. `resets_in_s` is how far ahead a usage limit's reset lies. `hold` makes the model slow: an
    answer waits until the test sets the event. `think_s` is how long it thinks before each answer, for measurements
    rather than for tests, which should not wait for clocks. `tokens` are the input and output tokens that every answer
    claims; with `running_usage`, every event of a stream claims those so far, as some gateways do. `headers` come with
    every answer, failures too.
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
    running_usage: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
