"""An agent's whole output as words: for people, for the next agent, and for whoever waits for an answer in it."""

from __future__ import annotations

from holdfast.agents.preset import Preset
from holdfast.agents.streams.reader import StreamReader
from holdfast.core.observations import Heard

_BESIDE_CHARS = 64_000


def hear(agent: Preset | None, output: bytes) -> Heard:
    """Return what a whole output tells."""
    heard = Heard()
    if agent is not None:
        reader = StreamReader(agent.stream, agent.signals())
        for seen in (*reader.feed(output), *reader.close()):
            heard.take(seen)
    return heard


def in_words(agent: Preset | None, output: bytes, heard: Heard) -> str:
    """Return what can be read of an output: all of it if it is plain, else what is no event, and the last word."""
    text = output.decode(errors="replace")
    if agent is None or agent.stream == "raw":
        return text
    beside = [line for line in text[-_BESIDE_CHARS:].splitlines() if not line.lstrip().startswith("{")]
    return "\n".join(part for part in (*beside, heard.message, heard.text) if part)
