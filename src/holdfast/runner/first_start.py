"""The first start of an agent: some make their home ready when they start, and fail if two do so at once.

The first one of a run starts alone. Others follow once its stream had its first event, for then its home is ready. A lock in the
home says who is first, also among several runs. The supervisor of the first one holds it, too: after a kill of the runner, the
next one waits for the same agent. All of it is bounded, and then the others start anyway: at worst it is as without it.

An agent in a sandbox has a home of its own, so nobody waits there.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from holdfast.agents.presets import Preset
from holdfast.agents.streams.reader import StreamReader
from holdfast.core.facts import Presence
from holdfast.fleet.protocol import LaunchKey, LaunchSpec
from holdfast.locks import open_lockable, try_lock, unlock
from holdfast.runner.context import RunContext
from holdfast.runner.launch import launch_when_possible

PATIENCE_S = 120.0
"""How long the others wait for an agent that is first, and how long an agent may take until it counts as ready."""
_POLL_S = 0.1


async def launch_agent(context: RunContext, spec: LaunchSpec, agent: Preset | None) -> None:
    """Launch an agent; if it is the first in its home, return once it has made that ready, or failed.

    Launches nothing if the run is to stop before its turn has come.
    """
    home = _lock_file(spec, agent)
    if agent is None or home is None or home in context.ready_homes:
        await launch_when_possible(context, spec)
        return
    async with context.home_turns.setdefault(home, asyncio.Lock()):
        if home not in context.ready_homes:
            await _launch_alone(context, spec, agent, home)
            return
    if not context.stopping.is_set():
        await launch_when_possible(context, spec)


async def _launch_alone(context: RunContext, spec: LaunchSpec, agent: Preset, home: Path) -> None:
    fd = await _locked(home, context.stopping)
    try:
        if context.stopping.is_set():
            return
        await context.require_lease()
        held = () if fd is None else (fd,)
        await launch_when_possible(context, replace(spec, holds=(*spec.holds, *held)))
        if await _is_ready(context, spec.key, agent):
            context.ready_homes.add(home)
    finally:
        if fd is not None:
            unlock(fd)
            os.close(fd)


def _lock_file(spec: LaunchSpec, agent: Preset | None) -> Path | None:
    """Return the file that is locked while an agent makes its home ready; None if there is nothing to wait for."""
    if agent is None or not agent.first_alone or spec.sandbox is not None:
        return None
    return _state_folder(spec.env) / "holdfast" / f"first-start-{Path(agent.needed_program).name}.lock"


def _state_folder(env: Mapping[str, str]) -> Path:
    return Path(env.get("XDG_STATE_HOME") or Path(env.get("HOME") or "/", ".local", "state"))


async def _locked(file: Path, stop: asyncio.Event) -> int | None:
    """Return a locked descriptor; None if that is not possible there, or if it takes too long."""
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = open_lockable(file)
    except OSError:
        return None  # a home that cannot be written to is not made ready either
    deadline = time.monotonic() + PATIENCE_S
    while not try_lock(fd):
        if stop.is_set() or time.monotonic() > deadline:
            os.close(fd)
            return None
        await _pause(stop)
    return fd


async def _is_ready(context: RunContext, key: LaunchKey, agent: Preset) -> bool:
    """Wait for the first event of an agent's stream. One that is only slow counts as ready; one that ended without does not."""
    if not context.fleet.last_sign(key):
        return False  # no process was started: an agent that leads may take it
    reader, offset = StreamReader(agent.stream, agent.error_patterns()), 0
    deadline = time.monotonic() + PATIENCE_S
    while True:
        lives = context.fleet.inspect(key).presence is Presence.ALIVE
        piece = context.fleet.output(key, offset)
        offset = piece.start + len(piece.data)
        if reader.feed(piece.data) or (agent.stream == "raw" and piece.data):
            return True
        if not lives or context.stopping.is_set():
            return False
        if time.monotonic() > deadline:
            return True
        await _pause(context.stopping)


async def _pause(stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(_POLL_S):
            await stop.wait()
