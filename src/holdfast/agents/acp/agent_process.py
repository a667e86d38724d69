"""Starts an ACP agent and ends it with all that it started: many agents are launchers of the program that works.

The protocol's library ends only the process that it started. Here the agent gets a process group of its own, which is
ended as a whole. What leaves that group is left to the supervisor.
"""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import acp

_LINE_BYTES_MAX = 64 * 1024 * 1024
"""An agent sends whole files in one line; the default of 64 KiB would end the session."""
_GRACE_S = 2.0
_LOOK_S = 0.02
_STILL_THERE = 0
"""Not a signal: asks only whether there is anybody to send one to."""


class AgentProcess:
    """A running agent."""

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: SubprocessStreamProtocol) -> None:
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._process = asyncio.subprocess.Process(transport, protocol, loop)

    async def wait(self) -> int:
        """Wait until the agent has ended, and return its exit status."""
        return await self._process.wait()

    def connect(self, client: Any) -> acp.ClientSideConnection:
        """Return the agent's side of a conversation with this client."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return acp.connect_to_agent(client, self._process.stdin, self._process.stdout)

    async def end(self) -> None:
        """End the agent and its group: it may end by itself when its input ends, else it is told, else killed."""
        pipe = self._transport.get_pipe_transport(0)
        if pipe is not None:
            pipe.close()
        for asked in (_STILL_THERE, signal.SIGTERM, signal.SIGKILL):
            if await self._group_ends_after(asked):
                break
        # A process that left the group may still hold our pipes; they must not outlive the loop.
        self._transport.close()

    async def _group_ends_after(self, asked: int) -> bool:
        deadline = asyncio.get_running_loop().time() + _GRACE_S
        lives = _send(self._process.pid, asked)
        while lives and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_LOOK_S)
            lives = _send(self._process.pid, _STILL_THERE)
        return not lives


def _send(group: int, number: int) -> bool:
    """Send a signal to a process group and tell whether it still has members."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True


@asynccontextmanager
async def started_agent(argv: Sequence[str], workspace: str) -> AsyncIterator[AgentProcess]:
    """Run an agent for as long as the context lasts. Raises OSError if it cannot be started.

    It shares our environment and standard error, which the supervisor has bounded already.
    """
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(limit=_LINE_BYTES_MAX, loop=loop),
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=None,
        cwd=workspace,
        process_group=0,
    )
    agent = AgentProcess(transport, protocol)
    try:
        yield agent
    finally:
        await agent.end()
