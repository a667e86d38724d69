"""The tools of an agent that Holdfast started on a task: the same as `holdfast report`, into the same file."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server.mcpserver import MCPServer

from holdfast.channel import checked_contract, send_report
from holdfast.core.ids import ID_PATTERN, is_valid_id
from holdfast.errors import HoldfastError
from holdfast.following.answering import answered
from holdfast.following.saying import said_about


def add_report_tools(server: MCPServer[Any], path: str, bell: str) -> None:
    """Offer reporting to the file at `path`; `bell` wakes the runner."""

    async def send(said: dict[str, str | float]) -> dict[str, list[str]]:
        if not said:
            raise HoldfastError("the report says nothing", "give at least one of its parts")
        await asyncio.to_thread(send_report, path, bell, said)
        return {"reported": sorted(said)}

    @server.tool()
    @answered
    async def report(
        progress: float | None = None,
        section_done: str = "",
        section_next: str = "",
        file: str = "",
        line: int | None = None,
        confidence: float | None = None,
        blocked: str = "",
        summary: str = "",
        cost_usd: float | None = None,
    ) -> Any:
        """Tell how far you are with your task, in any of these ways. Should you be cut off, the next agent is told.

        `progress` is from 0 to 100, `confidence` from 0 to 1; `section_done` is the last part that is finished and
        `section_next` the one that comes next; `blocked` is what keeps you from going on; `cost_usd` is what was
        spent since the last such report.
        """
        said = said_about(
            progress=progress,
            section_done=section_done,
            section_next=section_next,
            file=file,
            line=line,
            confidence=confidence,
            blocked=blocked,
            summary=summary,
            cost=cost_usd,
        )
        return await send(said)

    @server.tool()
    @answered
    async def publish_interface(name: str, contract: str) -> Any:
        """Publish a contract that other tasks can build on before your task has landed: signatures, not code."""
        if not is_valid_id(name):
            raise HoldfastError(f"{name!r} cannot name an interface", f"use a name like {ID_PATTERN}")
        return await send({"interface": name, "contract": checked_contract(name, contract)})
