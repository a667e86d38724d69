"""The MCP server on standard input and output, and its tools. A tool's docstring is what the agent reads.

An agent that leads a run gets the lead tools; an agent that works on a task gets the report tools. Logs go to standard
error; nothing else may write to the output.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, TypeVar, Unpack, get_type_hints

from mcp.server.mcpserver import MCPServer

from holdfast import __version__
from holdfast.core.ids import ID_PATTERN, is_valid_id
from holdfast.errors import HoldfastError
from holdfast.mcp_server.lead_session import LeadSession, OpenRequest
from holdfast.mcp_server.led_run import CLAIM_S
from holdfast.mcp_server.tool_results import json_tool
from holdfast.report_channel import (
    REPORT_VARIABLE,
    WAKE_VARIABLE,
    ReportData,
    checked_contract,
    checked_number,
    checked_question,
    send_report,
)

_LEAD_INSTRUCTIONS = """\
Holdfast keeps the memory of a run: which tasks of a plan landed, which are ready, what unfinished work there is.
Open a run, list what is ready, claim a task, work in its workspace only, checkpoint now and then, complete it.
Holdfast commits, checks and merges. Even if you crash, nothing that was checkpointed or landed is lost."""
_REPORT_INSTRUCTIONS = (
    "You work on one task of a run. Report how far you are: if you are cut off, the next agent is told."
)
_WAIT_S = 60.0
_Tool = TypeVar("_Tool", bound=Callable[..., Any])


async def serve(here: Path, *, agreed: bool) -> None:
    """Serve one client until it closes the input. An agent on a task can report; any other can lead runs of `here`."""
    path = os.environ.get(REPORT_VARIABLE)
    if path:
        server = _server(_REPORT_INSTRUCTIONS)
        add_report_tools(server, path, os.environ.get(WAKE_VARIABLE, ""))
        await server.run_stdio_async()
        return
    server, session = _server(_LEAD_INSTRUCTIONS), LeadSession(here, agreed=agreed)
    add_lead_tools(server, session)
    try:
        await server.run_stdio_async()
    finally:
        await session.close()


def _server(instructions: str) -> MCPServer[None]:
    return MCPServer("holdfast", instructions=instructions, version=__version__, log_level="WARNING")


# -- what an agent can report --------------------------------------------------------------------------------


class ReportFields(TypedDict, total=False):
    """Every field of a report, as the tools take it."""

    progress: float | None
    section_done: str
    section_next: str
    file: str
    line: int | None
    confidence: float | None
    blocked: str
    summary: str
    cost_usd: float | None
    tokens: int | None


def takes_report(tool: _Tool) -> _Tool:
    """Give a tool that takes `**fields` the report's fields as parameters, each optional. The SDK reads them there."""
    own = inspect.signature(tool, eval_str=True)
    own_parameters = [part for part in own.parameters.values() if part.kind is not part.VAR_KEYWORD]
    fields = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default="" if kind is str else None, annotation=kind
        )
        for name, kind in get_type_hints(ReportFields).items()
    ]
    tool.__signature__ = own.replace(parameters=[*own_parameters, *fields])  # type: ignore[attr-defined]
    return tool


def report_line(fields: ReportFields) -> ReportData:
    """Return a report as the channel stores it, without empty fields. Raises HoldfastError for a number out of bounds."""
    line: ReportData = {}
    for name, value in fields.items():
        if isinstance(value, int | float):
            line[name] = checked_number(name.removesuffix("_usd"), value)
    return line | {name: value for name, value in fields.items() if isinstance(value, str) and value}


def add_report_tools(server: MCPServer[Any], path: str, wake_pipe: str) -> None:
    """Offer what `holdfast report` does, into the same file at `path`; the pipe wakes the runner."""

    async def send(line: ReportData) -> dict[str, list[str]]:
        if not line:
            raise HoldfastError("the report says nothing", "give at least one of its fields")
        await asyncio.to_thread(send_report, path, wake_pipe, line)
        return {"reported": sorted(line)}

    @server.tool()
    @json_tool
    @takes_report
    async def report(**fields: Unpack[ReportFields]) -> Any:
        """Report how far you are with your task, with any of these fields. If you are cut off, the next agent is told.

        `progress` is from 0 to 100, `confidence` from 0 to 1. `section_done` is the last part that is finished,
        `section_next` the part that comes next. `blocked` is what keeps you from going on. `cost_usd` and
        `tokens` are what was used since the last such report.
        """
        return await send(report_line(fields))

    @server.tool()
    @json_tool
    async def publish_interface(name: str, contract: str) -> Any:
        """Publish a contract that other tasks can build on before your task has landed: signatures, not code."""
        if not is_valid_id(name):
            raise HoldfastError(f"{name!r} cannot name an interface", f"use a name like {ID_PATTERN}")
        return await send({"interface": name, "contract": checked_contract(name, contract)})

    @server.tool()
    @json_tool
    async def ask_person(question: str, options: list[str] = []) -> Any:  # noqa: B006 - the SDK shows the default
        """Ask what only a person can decide, then end your turn: you, or the next agent, go on with the answer.

        What you have done is kept. Ask nothing that you can find out or decide by yourself.
        """
        return await send(checked_question(question, options))


# -- how an agent leads a run --------------------------------------------------------------------------------


def add_lead_tools(server: MCPServer[Any], session: LeadSession) -> None:
    """Offer everything that leading a run takes."""
    _add_run_tools(server, session)
    _add_task_tools(server, session)
    _add_end_tools(server, session)


def _add_run_tools(server: MCPServer[Any], session: LeadSession) -> None:
    @server.tool()
    @json_tool
    async def open_run(
        run: str = "", plan_file: str = "", plan: str = "", agent: str = "", jobs: int | None = None
    ) -> Any:
        """Open a run to lead it: of a plan file of this repository, of a plan given as YAML or JSON text, or by its id.

        Without any of these, the latest unfinished run is opened. An interrupted run continues where it was: nothing
        that landed is done again. `jobs` is how many tasks may be worked on at the same time; give 1 if you work
        alone, so that each task starts from what landed before it. `agent` names who works if nobody leads; a plan need not.
        """
        return await session.open(
            OpenRequest(run=run, plan_file=plan_file, plan=plan, agent=agent, jobs=jobs)
        )

    @server.tool()
    @json_tool
    async def list_ready(wait_s: float = 0.0) -> Any:
        """List the tasks that can be claimed now. With `wait_s`, wait that long for one, or for the run to come to rest."""
        return await session.run.ready(wait_s)

    @server.tool()
    @json_tool
    async def run_status() -> Any:
        """Show where the open run stands: what is ready, claimed, unsettled; stages; totals."""
        return session.run.status()

    @server.tool()
    @json_tool
    async def resume_brief() -> Any:
        """Read all that you need if you have lost your context: goal, what landed, your claims with their tokens."""
        return session.run.resume_brief()

    @server.tool()
    @json_tool
    async def pause_run(now: bool = False, wait_s: float = _WAIT_S) -> Any:
        """Bring the run to rest: nothing more is offered, claimed tasks may be completed. `now` ends claims, work kept."""
        status = await session.run.pause(now=now, wait_s=wait_s)
        return {"run": session.run.name, "status": status}


def _add_task_tools(server: MCPServer[Any], session: LeadSession) -> None:
    @server.tool()
    @json_tool
    async def claim_task(task: str, wait_s: float = CLAIM_S) -> Any:
        """Claim a ready task: you get its brief, a workspace of its own (a git worktree; work only there) and a token.

        If it becomes ready without you, because what it needs has just been completed, that is waited for, up to `wait_s`.
        Do not commit, merge or push: completing the task does that. Send a heartbeat or a checkpoint more often than
        every `silence_s` seconds, or let the agent that works for you use `holdfast report` with the variables in `env`.
        """
        return await session.run.take(task, wait_s)

    @server.tool()
    @json_tool
    async def task_brief(task: str) -> Any:
        """Read the brief of a task's present attempt again."""
        return session.run.brief_of(task)

    @server.tool()
    @json_tool
    async def heartbeat(task: str, token: str) -> Any:
        """Say that a claimed task is still being worked on."""
        return session.run.heartbeat(task, token)

    @server.tool()
    @json_tool
    @takes_report
    async def checkpoint(task: str, token: str, **fields: Unpack[ReportFields]) -> Any:
        """Save the unfinished work of a claimed task now, and how far it is. A later crash loses nothing before this."""
        return await session.run.checkpoint(task, token, report_line(fields))


def _add_end_tools(server: MCPServer[Any], session: LeadSession) -> None:
    @server.tool()
    @json_tool
    async def complete_task(task: str, token: str, summary: str = "", wait_s: float = _WAIT_S) -> Any:
        """Say that a claimed task is done. Its work is committed, checked and merged into the run's branch.

        Waits up to `wait_s` for the outcome: `completed` means that it landed. If checks or the merge failed, the task
        is ready again, with what went wrong in its brief.
        """
        return await session.run.complete(task, token, summary, wait_s)

    @server.tool()
    @json_tool
    async def fail_task(task: str, token: str, reason: str) -> Any:
        """Give a claimed task up because it cannot be done this way. The next attempt is told the reason."""
        return await session.run.fail(task, token, reason)

    @server.tool()
    @json_tool
    async def ask_person(task: str, token: str, question: str, options: list[str] = []) -> Any:  # noqa: B006 - as above
        """Ask a person about a claimed task, and give it back until there is an answer. Its work is kept, nothing is charged.

        `run_status` shows it as `blocked` with its question; once it is answered it is ready again, with the answer in its
        brief. Go on with other tasks meanwhile.
        """
        return await session.run.ask(task, token, checked_question(question, options))

    @server.tool()
    @json_tool
    async def release_task(task: str, token: str) -> Any:
        """Give a claimed task back unfinished. Its work is kept and no attempt is charged."""
        return await session.run.release(task, token)
