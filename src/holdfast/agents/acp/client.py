"""One turn with an ACP agent: start it, open or load a session, send the brief, and print its progress until it ends.

Standard output gets one JSON object per line, at once, and nothing else; `agents/streams/acp.py` reads these lines.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import acp
import msgspec
from acp import schema

from holdfast.agents.acp.agent_process import AgentProcess, started_agent
from holdfast.agents.acp.permissions import NamedToolCall, PermissionPolicy, choose_option, is_allowed
from holdfast.agents.streams.acp import AcpLine

_TEXT_CHARS = 4_000
_FAILED = 1
_CANCELLED = 130
_CANCEL_GRACE_S = 1.5


@dataclass(frozen=True, slots=True)
class AcpTurn:
    """What to ask of which agent. `session` is a session of the agent to resume; empty for a new one."""

    argv: tuple[str, ...]
    brief: str
    workspace: str
    policy: PermissionPolicy = PermissionPolicy.ALLOW
    session: str = ""


class _Client:
    """Our side of the session: answers permission requests, prints progress. Provides no files or shells."""

    def __init__(self, turn: AcpTurn) -> None:
        self._turn = turn
        self._calls: dict[str, NamedToolCall] = {}
        self.is_open = False
        """Whether the session is open. While one is loaded, its agent repeats all that was said in it: nothing of it is new."""

    async def request_permission(
        self,
        options: Sequence[schema.PermissionOption],
        session_id: str,  # noqa: ARG002 - the protocol's shape
        tool_call: schema.ToolCallUpdate,
        **_: Any,
    ) -> acp.RequestPermissionResponse:
        """Answer by the policy, at once."""
        call = self._told_of(tool_call)
        allowed = is_allowed(self._turn.policy, call, self._turn.workspace)
        if not allowed:
            print_line(AcpLine.REFUSED, what=tool_call.title or tool_call.tool_call_id)
        by_kind = {str(one.kind): one.option_id for one in reversed(options)}
        option = choose_option(by_kind, allowed=allowed)
        if not option:
            return acp.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return acp.RequestPermissionResponse(
            outcome=schema.AllowedOutcome(outcome="selected", option_id=option)
        )

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:  # noqa: ARG002
        """Print what the update tells, and remember what a tool call names: the request may not say it again."""
        if getattr(update, "session_update", "") in ("tool_call", "tool_call_update"):
            self._told_of(update)
        if self.is_open:
            print_update(update)

    def _told_of(self, update: Any) -> NamedToolCall:
        """Return all that was told of a tool call, this update included."""
        known = self._calls.get(update.tool_call_id, NamedToolCall())
        call = NamedToolCall(update.kind or known.kind, known.paths | _named_paths(update))
        self._calls[update.tool_call_id] = call
        return call

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """Refuse what the protocol does not know."""
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Ignore what the protocol does not know."""

    def on_connect(self, conn: Any) -> None:
        """Nothing to prepare."""


def _named_paths(update: Any) -> frozenset[str]:
    """Return every path that a tool call names: where it works, what its diffs change, and what its input says."""
    paths = {location.path for location in update.locations or ()}
    paths |= {part.path for part in update.content or () if isinstance(part, schema.FileEditToolCallContent)}
    if isinstance(update.raw_input, dict):
        paths |= {
            value
            for name, value in update.raw_input.items()
            if isinstance(value, str) and any(word in str(name).lower() for word in ("path", "file", "uri"))
        }
    return frozenset(paths)


async def run_turn(turn: AcpTurn) -> int:
    """Run one turn and return the exit status: 0 if the agent says that it ended well."""
    try:
        return await _Session(turn).run()
    except acp.RequestError as error:
        print_error(error.code, str(error), error.data)
    except (OSError, asyncio.IncompleteReadError) as error:
        print_error(0, f"{turn.argv[0]}: {error}", None)
    return _FAILED


class _Session:
    """One agent and one session with it."""

    def __init__(self, turn: AcpTurn) -> None:
        self._turn = turn
        self._client = _Client(turn)
        self._session = ""

    async def run(self) -> int:
        """Start the agent and wait until the turn ends, the agent ends, or a stop is asked for."""
        turn = self._turn
        async with started_agent(turn.argv, turn.workspace) as process:
            agent = process.connect(self._client)
            try:
                return await self._until_an_end(agent, process)
            finally:
                await agent.close()

    async def _until_an_end(self, agent: Any, process: AgentProcess) -> int:
        prompted = asyncio.ensure_future(self._prompt(agent))
        gone = asyncio.ensure_future(process.wait())
        stop = asyncio.ensure_future(_on_term().wait())
        await asyncio.wait([prompted, gone, stop], return_when=asyncio.FIRST_COMPLETED)
        if stop.done() and not prompted.done():
            await self._cancel(agent, prompted)
        gone.cancel()
        stop.cancel()
        if prompted.done():
            return prompted.result()
        prompted.cancel()
        print_error(0, f"{self._turn.argv[0]} ended in the middle of the turn", None)
        return _FAILED

    async def _prompt(self, agent: Any) -> int:
        hello = await agent.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=schema.ClientCapabilities(),
            client_info=schema.Implementation(name="holdfast", version="1"),
        )
        await self._open_session(agent, hello)
        self._client.is_open = True
        print_line(AcpLine.SESSION, session=self._session)
        brief = [acp.text_block(self._turn.brief)]
        ended = await agent.prompt(session_id=self._session, prompt=brief)
        if ended.usage is not None:
            print_line(AcpLine.USAGE, tokens=ended.usage.total_tokens)
        print_line(AcpLine.DONE, stop_reason=ended.stop_reason)
        if ended.stop_reason == "cancelled":
            return _CANCELLED
        return 0 if ended.stop_reason == "end_turn" else _FAILED

    async def _open_session(self, agent: Any, hello: schema.InitializeResponse) -> None:
        """Load the given session if the agent can, else open a new one."""
        turn, capabilities = self._turn, hello.agent_capabilities
        if turn.session and capabilities is not None and capabilities.load_session:
            await agent.load_session(cwd=turn.workspace, session_id=turn.session, mcp_servers=[])
            self._session = turn.session
        else:
            made = await agent.new_session(cwd=turn.workspace, mcp_servers=[])
            self._session = str(made.session_id)

    async def _cancel(self, agent: Any, prompted: asyncio.Future[int]) -> None:
        """Cancel the turn, so that the agent ends its own tools; the supervisor ends the rest."""
        if self._session:
            await agent.cancel(session_id=self._session)
        await asyncio.wait({prompted}, timeout=_CANCEL_GRACE_S)


def _on_term() -> asyncio.Event:
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    return asked


def print_line(kind: AcpLine, **fields: object) -> None:
    """Print one line. If its reader is gone, the work continues."""
    record = {"type": kind, **{name: value for name, value in fields.items() if value not in (None, "")}}
    try:
        sys.stdout.buffer.write(msgspec.json.encode(record) + b"\n")
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        return


def print_update(update: Any) -> None:
    """Print what one update of a session tells. Kinds that say nothing about work are skipped."""
    match getattr(update, "session_update", ""):
        case "agent_message_chunk":
            print_line(AcpLine.TEXT, text=_text_of(update.content))
        case "agent_thought_chunk" | "plan":
            print_line(AcpLine.TEXT)
        case "tool_call":
            print_line(AcpLine.TOOL, tool=update.title[:_TEXT_CHARS])
        case "tool_call_update":
            done = update.status in ("completed", "failed")
            print_line(AcpLine.TOOL_DONE if done else AcpLine.TOOL, tool=(update.title or "")[:_TEXT_CHARS])
        case "usage_update":
            cost = update.cost.amount if update.cost is not None and update.cost.currency == "USD" else None
            print_line(AcpLine.USAGE, tokens=update.used, cost_usd=cost)


def print_error(code: int, message: str, data: object) -> None:
    """Print why a request failed, with the details that the agent gave."""
    try:
        detail = msgspec.json.encode(data).decode()[:_TEXT_CHARS] if data else ""
    except (TypeError, ValueError):
        detail = str(data)[:_TEXT_CHARS]
    print_line(AcpLine.ERROR, code=code, message=message[:_TEXT_CHARS], detail=detail)


def _text_of(content: Any) -> str:
    return str(getattr(content, "text", ""))[:_TEXT_CHARS]
