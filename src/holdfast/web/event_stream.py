"""Streams of server-sent events: what a message looks like, and the answer that sends messages until one side leaves."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

EVENT_STREAM = "text/event-stream"
HEARTBEAT = b": alive\n\n"
HEARTBEAT_S = 15.0
_WAITING_MAX = 32
"""How many messages wait for a viewer. One that is slower gets the whole anew instead."""


def message(event: str, view: object, number: int | None = None) -> bytes:
    """Return one message: its kind, what it says as JSON on one line, and its number, by which a viewer goes on."""
    first = b"" if number is None else b"id: %d\n" % number
    return b"%sevent: %s\ndata: %s\n\n" % (first, event.encode(), msgspec.json.encode(view))


def stream_answer(request: Request, begin: Callable[[], AsyncIterator[bytes]]) -> Response:
    """Return the answer that sends messages as they come. Who only asks for headers gets them alone."""
    if request.method == "HEAD":
        return Response(media_type=EVENT_STREAM)
    return StreamingResponse(begin(), media_type=EVENT_STREAM, headers={"x-accel-buffering": "no"})


@dataclass(slots=True, eq=False)
class Viewer:
    """Somebody who looks: the messages that wait to be sent. `is_behind`: some were dropped, because too many did."""

    is_behind: bool = False
    _waiting: deque[bytes] = field(default_factory=deque)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, text: bytes) -> None:
        """Let a message wait. If there are too many, all of them are dropped."""
        if self.is_behind:
            return
        self._waiting.append(text)
        if len(self._waiting) > _WAITING_MAX:
            self._waiting.clear()
            self.is_behind = True
        self._arrived.set()

    def wake(self) -> None:
        """Let who waits for a message look again."""
        self._arrived.set()

    def start_over(self) -> None:
        """Forget what waits: the viewer gets the whole, and then what comes after it."""
        self._waiting.clear()
        self.is_behind = False

    def take(self) -> bytes | None:
        """Return the next message; None if none waits."""
        return self._waiting.popleft() if self._waiting else None

    async def wait(self) -> bool:
        """Wait until there is something to do, or it is time for a heartbeat: then return False."""
        try:
            async with asyncio.timeout(HEARTBEAT_S):
                await self._arrived.wait()
        except TimeoutError:
            return False
        self._arrived.clear()
        return True
