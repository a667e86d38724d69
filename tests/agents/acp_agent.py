"""A small agent that speaks the Agent Client Protocol through its own library: what the adapter's tests talk to.

Its only argument says how it behaves: `work`, `ask` (for permission to write outside, or what requests.json says), `limit`, `auth`, `hang`, `die`,
`linger` (it works, and stays when its input ends), `end` (with the stop reason in end.txt), `forgotten` (it knows no session).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import acp
from acp import schema


class ScriptedAcpAgent:
    """One session; what it does when prompted is the behaviour's."""

    def __init__(self, behaviour: str) -> None:
        self._behaviour = behaviour
        self._cwd = Path()
        self._cancelled = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        """Keep the connection for updates."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> acp.InitializeResponse:
        """Say what this agent can do."""
        return acp.InitializeResponse(
            protocol_version=protocol_version,
            agent_capabilities=schema.AgentCapabilities(load_session=True),
        )

    async def new_session(self, cwd: str, **_: Any) -> acp.NewSessionResponse:
        """Open the one session."""
        self._cwd = Path(cwd)
        return acp.NewSessionResponse(session_id="session-1")

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> acp.LoadSessionResponse:
        """Go on with a session: its name is written into the work, for the test to see."""
        if self._behaviour == "forgotten":
            raise acp.RequestError.resource_not_found(session_id)
        self._cwd = Path(cwd)
        (self._cwd / "loaded.txt").write_text(session_id)
        for update in (
            acp.update_user_message_text("Write the first answer"),
            acp.start_tool_call("t0", "Write first.txt", kind="edit"),
            acp.update_tool_call("t0", status="completed"),
            acp.update_agent_message_text("That is done, too."),
            schema.UsageUpdate(session_update="usage_update", used=900, size=200000),
        ):
            await self._client.session_update(session_id, update)  # as the protocol has it: all that was said
        return acp.LoadSessionResponse()

    async def cancel(self, session_id: str, **_: Any) -> None:
        """End the turn that hangs."""
        (self._cwd / "cancelled.txt").write_text(session_id)
        self._cancelled.set()

    async def prompt(self, prompt: list[Any], session_id: str, **_: Any) -> acp.PromptResponse:
        """Behave as told."""
        await self._client.session_update(
            session_id, acp.start_tool_call("t1", "Write answer.txt", kind="edit")
        )
        match self._behaviour:
            case "limit":
                raise acp.RequestError(
                    -32603, "Internal error", {"kind": "usageLimitExceeded", "status": 429}
                )
            case "auth":
                raise acp.RequestError.auth_required()
            case "die":
                os._exit(9)
            case "hang":
                (self._cwd / "hanging.txt").write_text("")
                await self._cancelled.wait()
                return acp.PromptResponse(stop_reason="cancelled")
            case "ask":
                return await self._ask(session_id)
            case "end":
                return acp.PromptResponse(stop_reason=(self._cwd / "end.txt").read_text())  # type: ignore[arg-type]
        (self._cwd / "answer.txt").write_text(prompt[0].text)
        await self._client.session_update(session_id, acp.update_tool_call("t1", status="completed"))
        await self._client.session_update(session_id, acp.update_agent_message_text("All done."))
        cost = schema.Cost(amount=0.25, currency="USD")
        usage = schema.UsageUpdate(session_update="usage_update", used=1200, size=200000, cost=cost)
        await self._client.session_update(session_id, usage)
        return acp.PromptResponse(stop_reason="end_turn")

    async def _ask(self, session_id: str) -> acp.PromptResponse:
        """Ask for each call of requests.json, or to edit a file of the system, and write down the answers."""
        told = self._cwd / "requests.json"
        calls = json.loads(told.read_text()) if told.exists() else [{"locations": [{"path": "/etc/hosts"}]}]
        answers = [
            await self._ask_for(session_id, f"t{number}", call) for number, call in enumerate(calls, 2)
        ]
        (self._cwd / "answer.txt").write_text("\n".join(answers))
        return acp.PromptResponse(stop_reason="end_turn")

    async def _ask_for(self, session_id: str, name: str, asked: dict[str, Any]) -> str:
        whole = {"toolCallId": name, "title": "Edit /etc/hosts", "kind": "edit", **asked}
        call = schema.ToolCallUpdate.model_validate(whole)
        options = [
            schema.PermissionOption(option_id="yes", name="Yes", kind="allow_once"),
            schema.PermissionOption(option_id="no", name="No", kind="reject_once"),
        ]
        answer = await self._client.request_permission(session_id=session_id, tool_call=call, options=options)
        return getattr(answer.outcome, "option_id", "cancelled")


if __name__ == "__main__":
    if sys.argv[1] == "linger":
        Path("pid.txt").write_text(str(os.getpid()))
    asyncio.run(acp.run_agent(ScriptedAcpAgent(sys.argv[1])))  # type: ignore[arg-type]
    if sys.argv[1] == "linger":
        signal.pause()
