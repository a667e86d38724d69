"""What all requests share: the repositories, who watches what, and the commands under way. And how a row of the API looks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.web.access import Site
from holdfast.web.answers import RefusedRequestError
from holdfast.web.commands import Commands
from holdfast.web.event_stream import stream_answer
from holdfast.web.live_overview import LiveOverview
from holdfast.web.live_runs import LiveRuns
from holdfast.web.overview import RepositoryOverview
from holdfast.web.repositories import ServedRepositories, ServedRepository

_STREAMS_MAX = 256


@dataclass(slots=True)
class Dashboard:
    """Everything that a server holds while it runs."""

    site: Site
    repositories: ServedRepositories
    runs: LiveRuns = field(default_factory=LiveRuns)
    commands: Commands = field(default_factory=Commands)
    overview: LiveOverview = field(init=False)
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    streams: int = 0

    def __post_init__(self) -> None:
        parts = [RepositoryOverview(served) for served in self.repositories.all.values()]
        self.overview = LiveOverview(parts, read_only=self.site.read_only)

    def close(self) -> None:
        """End all streams, and with them the threads behind them."""
        self.closing.set()
        self.runs.close()
        self.overview.close()
        self.repositories.close()

    def look_again(self, served: ServedRepository, run: str) -> None:
        """Let everybody see what a command did, though no event may tell of it."""
        self.runs.poke(served, run)
        for part in self.overview.parts:
            if part.served is served:
                part.forget_places()

    async def counted(self, messages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the messages of a stream that counts as open until it ends."""
        self.streams += 1
        try:
            async for text in messages:
                yield text
        finally:
            self.streams -= 1


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value of the query; `choices` are all that it may be, else it is a whole number."""

    name: str
    summary: str
    choices: tuple[str, ...] = ()
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One row of the API: a method and a path below `/api/v1`, who answers, and with what.

    Without an `answer` it is a stream of events; `messages` are the kinds of these and what each says.
    """

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Response]]
    summary: str
    answer: Any = None
    body: Any = None
    query: tuple[Parameter, ...] = ()
    messages: tuple[tuple[str, Any], ...] = ()


def dashboard_of(request: Request) -> Dashboard:
    """Return what the server holds."""
    found: Dashboard = request.app.state.dashboard
    return found


def open_stream(request: Request, begin: Callable[[], AsyncIterator[bytes]]) -> Response:
    """Return the answer that streams messages. Raises RefusedRequestError if too many streams are open."""
    dashboard = dashboard_of(request)
    if dashboard.streams >= _STREAMS_MAX:
        raise RefusedRequestError(503, "too many streams are open", "close other windows of the page")
    return stream_answer(request, lambda: dashboard.counted(begin()))


def repository_of(request: Request) -> ServedRepository:
    """Return the repository that a request names. Raises RefusedRequestError if there is none."""
    return dashboard_of(request).repositories.find(request.path_params["repository"])


async def read(served: ServedRepository, ask: Callable[[ReadOnlyRepo], Any]) -> Any:
    """Ask a repository something, in a thread: the disk must hold up nobody else."""

    def asked() -> Any:
        with served.opened() as opened:
            return ask(opened)

    return await run_in_threadpool(asked)
