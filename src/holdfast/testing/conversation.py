"""One exchange with a model in no provider's words: what was asked, what is answered, how it is refused.

The dialects translate from and to this; the server sees nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.testing.script import Fault

_TASK = re.compile(r"^\W*Task ([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the agent offers: the parameters it must be given, each with its JSON type. `freeform` takes text."""

    name: str
    required: Mapping[str, str] = field(default_factory=dict)
    accepts: frozenset[str] = frozenset()
    freeform: bool = False

    @classmethod
    def of_schema(cls, name: str, schema: Mapping[str, Any]) -> Tool:
        """Read a tool from the JSON schema of its parameters."""
        properties = schema.get("properties", {})
        required = {key: _type(properties.get(key, {})) for key in schema.get("required", ())}
        return cls(name, required, frozenset(properties))


@dataclass(frozen=True, slots=True)
class Turn:
    """A request as every dialect understands it. `made` counts the tool calls that the conversation holds so far."""

    prompt: str
    system: str
    tools: Mapping[str, Tool]
    made: int
    stream: bool
    model: str

    @property
    def task(self) -> str:
        """The task that the brief in the prompt is about, or an empty string."""
        found = _TASK.search(self.prompt)
        return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. `arguments` go to a tool with parameters, `text` to a freeform one."""

    id: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    freeform: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model answers: one tool call, or a text."""

    text: str
    call: Call | None
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Frames:
    """A streamed answer in two parts. Without `closing` the client cannot know that the answer is whole."""

    opening: tuple[bytes, ...]
    closing: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is an error. Most come with an HTTP status; some providers say it inside a stream."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = "application/json"


class Dialect(Protocol):
    """The language of one provider's API."""

    def read(self, path: str, body: Mapping[str, Any]) -> Turn:
        """Understand a request."""

    def stream(self, turn: Turn, reply: Reply) -> Frames:
        """Say a reply in server-sent events."""

    def whole(self, turn: Turn, reply: Reply) -> bytes:
        """Say a reply in one document."""

    def refuse(self, fault: Fault, resets_at: int, resets_in_s: int) -> Refusal:
        """Say that the request failed. `resets_at` is in seconds since the epoch."""


def encode(value: Any) -> bytes:
    """Return a JSON document."""
    return json.dumps(value).encode()


def event(value: Any, name: str = "") -> bytes:
    """Return one server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + encode(value) + b"\n\n"


def text_of(content: Any) -> str:
    """Return the text of a message's content, which is a string or a list of parts, in every dialect."""
    if isinstance(content, str):
        return content
    parts: Iterable[Any] = content or ()
    return "\n".join(
        part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
    )


def _type(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type", "string")
    return str(kind[0] if isinstance(kind, list) else kind).lower()
