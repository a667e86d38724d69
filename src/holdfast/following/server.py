"""The MCP server on standard input and output. Logs go to standard error; nothing else may write to the output."""

from __future__ import annotations

import os
from pathlib import Path

from mcp.server.mcpserver import MCPServer

from holdfast import __version__
from holdfast.channel import BELL_VARIABLE, REPORT_VARIABLE
from holdfast.following.desk import Desk
from holdfast.following.reporting import add_report_tools
from holdfast.following.tools import add_lead_tools

_LEADING = """\
Holdfast keeps the memory of a run: which tasks of a plan landed, which are ready, what unfinished work there is.
Open a run, list what is ready, claim a task, work in its workspace only, checkpoint now and then, complete it.
Holdfast commits, checks and merges. Whatever happens to you, nothing that was checkpointed or landed is lost."""
_REPORTING = (
    "You work on one task of a run. Report how far you are; should you be cut off, the next agent is told."
)


async def serve(here: Path, *, agreed: bool) -> None:
    """Serve one client until it closes the input. An agent on a task can report; any other can lead runs of `here`."""
    path = os.environ.get(REPORT_VARIABLE)
    if path:
        server = _server(_REPORTING)
        add_report_tools(server, path, os.environ.get(BELL_VARIABLE, ""))
        await server.run_stdio_async()
        return
    server, desk = _server(_LEADING), Desk(here, agreed=agreed)
    add_lead_tools(server, desk)
    try:
        await server.run_stdio_async()
    finally:
        await desk.let_go()


def _server(instructions: str) -> MCPServer[None]:
    return MCPServer("holdfast", instructions=instructions, version=__version__, log_level="WARNING")
