"""The MCP server on standard input and output. Logs go to standard error; nothing else may write to the output."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

from holdfast import __version__
from holdfast.core.ids import ID_PATTERN, is_valid_id
from holdfast.errors import HoldfastError
from holdfast.mcp_server.lead_session import LeadSession, OpenRequest
from holdfast.mcp_server.tool_results import json_tool
from holdfast.report_channel import (
    REPORT_VARIABLE,
    WAKE_VARIABLE,
    checked_contract,
    checked_number,
    send_report,
)

_STORED_NAMES = {"cost": "cost_usd"}


def report_fields(**parts: str | float | None) -> dict[str, str | float]:
    """Return a report line without what was left out. Raises HoldfastError for a number that makes no sense."""
    words = {name: part for name, part in parts.items() if isinstance(part, str) and part}
    numbers = {
        _STORED_NAMES.get(name, name): checked_number(name, part)
        for name, part in parts.items()
        if part is not None and not isinstance(part, str)
    }
    return {**numbers, **words}


_WAIT_S = 60.0


def add_lead_tools(server: MCPServer[Any], desk: LeadSession) -> None:
    """Offer everything that leading a run takes."""
    _add_read_tools(server, desk)
    _add_work_tools(server, desk)
    _add_end_tools(server, desk)


def _add_read_tools(server: MCPServer[Any], desk: LeadSession) -> None:
    @server.tool()
    @json_tool
    async def open_run(
        run: str = "", plan_file: str = "", plan: str = "", agent: str = "", jobs: int | None = None
    ) -> Any:
        """Open a run to lead it: of a plan file of this repository, of a plan given as YAML or JSON text, or by its id.

        Without any of these, the latest unfinished run is opened. A run that was interrupted goes on where it was:
        nothing that landed is done again. `jobs` is how many tasks may be worked on at the same time; give 1 if you
        work alone, so that each task starts from what landed before it. `agent` names who works if nobody leads.
        """
        return await desk.open(OpenRequest(run=run, plan_file=plan_file, plan=plan, agent=agent, jobs=jobs))

    @server.tool()
    @json_tool
    async def list_ready(wait_s: float = 0.0) -> Any:
        """List the tasks that can be claimed now. With `wait_s`, wait that long for one, or for the run to come to rest."""
        return await desk.run.ready(wait_s)

    @server.tool()
    @json_tool
    async def run_status() -> Any:
        """Tell where the open run stands: what is ready, claimed, unsettled; stages; totals."""
        return desk.run.standing()

    @server.tool()
    @json_tool
    async def resume_brief() -> Any:
        """Tell all that you need to go on if you have lost your context: goal, what landed, your claims with their tokens."""
        return desk.run.resume_brief()


def _add_work_tools(server: MCPServer[Any], desk: LeadSession) -> None:
    @server.tool()
    @json_tool
    async def claim_task(task: str) -> Any:
        """Claim a ready task: you get its brief, a workspace of its own (a git worktree; work only there) and a token.

        Do not commit, merge or push: completing the task does that. Send a heartbeat or a checkpoint more often than
        every `silence_s` seconds, or have whoever works for you use `holdfast report` with the variables in `env`.
        """
        return desk.run.claim(task)

    @server.tool()
    @json_tool
    async def task_brief(task: str) -> Any:
        """Read the brief of a task's present attempt again."""
        return desk.run.brief_of(task)

    @server.tool()
    @json_tool
    async def heartbeat(task: str, token: str) -> Any:
        """Say that a claimed task is still being worked on."""
        return desk.run.heartbeat(task, token)

    @server.tool()
    @json_tool
    async def checkpoint(
        task: str,
        token: str,
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
        """Save the unfinished work of a claimed task now, with how far it is. A crash later loses nothing before this."""
        said = report_fields(
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
        return await desk.run.checkpoint(task, token, said)


def _add_end_tools(server: MCPServer[Any], desk: LeadSession) -> None:
    @server.tool()
    @json_tool
    async def complete_task(task: str, token: str, summary: str = "", wait_s: float = _WAIT_S) -> Any:
        """Say that a claimed task is done. Its work is committed, checked and merged into the run's branch.

        Waits up to `wait_s` for the outcome: `completed` means that it landed. If checks or the merge failed, the task
        is ready again, with what went wrong in its brief.
        """
        return await desk.run.complete(task, token, summary, wait_s)

    @server.tool()
    @json_tool
    async def fail_task(task: str, token: str, reason: str) -> Any:
        """Give a claimed task up because it cannot be done this way. The next attempt is told the reason."""
        return await desk.run.fail(task, token, reason)

    @server.tool()
    @json_tool
    async def release_task(task: str, token: str) -> Any:
        """Give a claimed task back unfinished. Its work is kept and no attempt is charged."""
        return await desk.run.release(task, token)

    @server.tool()
    @json_tool
    async def pause_run(now: bool = False, wait_s: float = _WAIT_S) -> Any:
        """Bring the run to rest: nothing more is offered, what is claimed may be completed. `now` ends claims, work kept."""
        status = await desk.run.pause(now=now, wait_s=wait_s)
        return {"run": desk.run.name, "status": status}


def add_report_tools(server: MCPServer[Any], path: str, bell: str) -> None:
    """Offer reporting to the file at `path`; `bell` wakes the runner."""

    async def send(said: dict[str, str | float]) -> dict[str, list[str]]:
        if not said:
            raise HoldfastError("the report says nothing", "give at least one of its parts")
        await asyncio.to_thread(send_report, path, bell, said)
        return {"reported": sorted(said)}

    @server.tool()
    @json_tool
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
        said = report_fields(
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
    @json_tool
    async def publish_interface(name: str, contract: str) -> Any:
        """Publish a contract that other tasks can build on before your task has landed: signatures, not code."""
        if not is_valid_id(name):
            raise HoldfastError(f"{name!r} cannot name an interface", f"use a name like {ID_PATTERN}")
        return await send({"interface": name, "contract": checked_contract(name, contract)})


_LEAD_INSTRUCTIONS = """\
Holdfast keeps the memory of a run: which tasks of a plan landed, which are ready, what unfinished work there is.
Open a run, list what is ready, claim a task, work in its workspace only, checkpoint now and then, complete it.
Holdfast commits, checks and merges. Whatever happens to you, nothing that was checkpointed or landed is lost."""
_REPORT_INSTRUCTIONS = (
    "You work on one task of a run. Report how far you are; should you be cut off, the next agent is told."
)


async def serve(here: Path, *, agreed: bool) -> None:
    """Serve one client until it closes the input. An agent on a task can report; any other can lead runs of `here`."""
    path = os.environ.get(REPORT_VARIABLE)
    if path:
        server = _server(_REPORT_INSTRUCTIONS)
        add_report_tools(server, path, os.environ.get(WAKE_VARIABLE, ""))
        await server.run_stdio_async()
        return
    server, desk = _server(_LEAD_INSTRUCTIONS), LeadSession(here, agreed=agreed)
    add_lead_tools(server, desk)
    try:
        await server.run_stdio_async()
    finally:
        await desk.let_go()


def _server(instructions: str) -> MCPServer[None]:
    return MCPServer("holdfast", instructions=instructions, version=__version__, log_level="WARNING")
