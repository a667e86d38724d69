"""An agent that leads a run: the real client of the MCP library, talking to the real server over pipes.

The server is a fork of a process that has imported its library, which takes a second. Who gives `STARTED` has one started.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from holdfast.journal.lease import holder
from tests.support.command import COMMAND
from tests.support.preloaded_command import MCP, preloaded_command
from tests.support.repositories import Project, write

STARTED = [*COMMAND, "mcp"]
DEADLINE_S = 60.0


class RefusedError(Exception):
    """What a tool said no to, with the type of Holdfast's error."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(f"{kind}: {message} ({hint})")
        self.kind, self.message, self.hint = kind, message, hint


class LeadClient:
    """The agent: `await leader("claim_task", task="a")`."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """Call a tool and return its answer."""
        result = await self.client.call_tool(tool, arguments)
        answer = result.structured_content
        assert answer is not None, result.content
        if result.is_error:
            error = answer["error"]
            raise RefusedError(error["type"], error["message"], error["hint"])
        return answer

    async def claim(self, task: str) -> Any:
        """Wait until a task is ready and claim it."""
        while task not in [ready["task"] for ready in (await self("list_ready", wait_s=DEADLINE_S))["ready"]]:
            continue
        return await self("claim_task", task=task)

    async def work(self, task: str, content: str = "") -> Any:
        """Claim a task, write its file and complete it."""
        claim = await self.claim(task)
        write(Path(claim["workspace"]) / f"{task}.txt", content or f"{task}\n")
        return await self("complete_task", task=task, token=claim["token"], summary=f"wrote {task}")


def forked_server() -> list[str]:
    """Return a command line for a server that is forked."""
    return [*preloaded_command(MCP).stand_in(), "mcp"]


@asynccontextmanager
async def leading(
    here: Path, *args: str, server: Sequence[str] = (), **env: str
) -> AsyncIterator[LeadClient]:
    """Start a server in `here`, by this command line if there is one, and talk to it."""
    command, *words = [*(server or forked_server()), *args]
    started = StdioServerParameters(command=command, args=words, env={**os.environ, **env}, cwd=here)
    async with Client(stdio_client(started)) as client:
        yield LeadClient(client)


def led(play: Callable[[], Awaitable[None]]) -> None:
    """Play a scene to its end."""

    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S * 2):
            await play()

    asyncio.run(bounded())


def plan_of(*tasks: dict[str, Any], **more: Any) -> str:
    """Return a plan as an agent would give it. Its own agent works if nobody leads."""
    stand_in = {
        "command": ["sh", "-c", "cat > /dev/null; echo $HOLDFAST_TASK >> $HOLDFAST_TASK.txt"],
        "prompt": "stdin",
    }
    document = {"holdfast": 1, "goal": "Try it", "agent": "stand-in", "agents": {"stand-in": stand_in}}
    return msgspec.json.encode({**document, "tasks": list(tasks), **more}).decode()


def asks(task: str, **more: Any) -> dict[str, Any]:
    """Return a task for an agent."""
    return {"id": task, "prompt": f"Write {task}.txt", **more}


def holder_of(project: Project, run: str) -> int:
    """Return the process that carries a run on, 0 if none does."""
    found = holder(project.open().state_dir.run(run).lease)
    return found.pid if found else 0
