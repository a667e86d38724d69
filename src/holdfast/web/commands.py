"""Commands that the page starts: the program itself, as a process in the repository. The server decides nothing.

A few at once, each with bounded time and output. What a command prints with `--json` is the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool

from holdfast.process.programs import run_command
from holdfast.views.command_answer import CommandAnswer, command_answer, own_argv
from holdfast.web.answers import RefusedRequestError
from holdfast.web.repositories import ServedRepository

_AT_ONCE = 4
_WAITING_MAX = 16
_PATIENCE_S = 180.0
_OUTPUT_BYTES_MAX = 8 * 1024 * 1024


class Commands:
    """The commands under way. It lives in the event loop."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    async def run(self, served: ServedRepository, words: Sequence[str]) -> CommandAnswer:
        """Run `holdfast` with these words in a repository. Raises RefusedRequestError if too many wait already."""
        if self._waiting >= _WAITING_MAX:
            raise RefusedRequestError(503, "too many commands are under way", "try again in a moment")
        self._waiting += 1
        try:
            async with self._places:
                return await run_in_threadpool(_run, served, words)
        finally:
            self._waiting -= 1

    async def view(self, served: ServedRepository, words: Sequence[str]) -> Any:
        """Return what a command that only looks prints as JSON. Raises RefusedRequestError if it is refused."""
        answer = await self.run(served, words)
        if answer.ok and answer.result is not None:
            return answer.result
        raise RefusedRequestError(409, answer.message or "the command printed nothing", answer.hint)


def _run(served: ServedRepository, words: Sequence[str]) -> CommandAnswer:
    done = run_command(own_argv(words), served.checkout, _PATIENCE_S, _OUTPUT_BYTES_MAX)
    return command_answer(words, done.code, done.out, done.err)
