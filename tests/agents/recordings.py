"""Recorded streams of real agents, read by the presets that Holdfast comes with."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from holdfast.agents.presets import builtin_presets
from holdfast.agents.streams.reader import StreamReader
from holdfast.core.observations import StreamSummary

STREAMS = Path(__file__).parent / "streams"


@lru_cache(maxsize=1)
def recorded() -> dict[str, int | None]:
    """Return every recorded stream with the exit status of its agent; None where it had to be ended."""
    index = json.loads((STREAMS / "index.json").read_text())
    return {name: entry["exit"] for name, entry in index.items()}


def heard(stream: bytes, agent: str, *, chunk: int = 1 << 16) -> StreamSummary:
    """Return what an agent's bytes tell, fed in pieces of `chunk`."""
    preset = builtin_presets()[agent]
    reader = StreamReader(preset.stream, preset.error_patterns())
    total = reader.new_summary()
    for start in range(0, len(stream), chunk):
        for seen in reader.feed(stream[start : start + chunk]):
            total.take(seen)
    for seen in reader.close():
        total.take(seen)
    return total


def heard_in(name: str, *, chunk: int = 1 << 16) -> StreamSummary:
    """Return what a recorded stream tells."""
    return heard((STREAMS / name).read_bytes(), agent_of(name), chunk=chunk)


def agent_of(name: str) -> str:
    """Return the preset whose agent a recorded stream is of."""
    agent = name.partition("-")[0]
    return "mini-swe-agent" if agent == "mini" else agent


def case_of(name: str) -> str:
    """Return what a recorded agent was served."""
    return name.partition("-")[2].partition(".")[0]
