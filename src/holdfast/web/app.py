"""The application: every path with who answers it, and errors as JSON. `access.py` stands before all of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio.to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from holdfast.errors import HoldfastError
from holdfast.web import (
    command_endpoints,
    overview_endpoints,
    picture_endpoints,
    run_endpoints,
    task_endpoints,
)
from holdfast.web.access import SESSION_PATH, Guard
from holdfast.web.answers import answer_to, error_answer, json_answer
from holdfast.web.api_description import openapi
from holdfast.web.dashboard import Dashboard, Endpoint
from holdfast.web.pages import PageFiles

API = "/api/v1"
_THREADS = 8
ENDPOINTS: tuple[Endpoint, ...] = (
    *overview_endpoints.ENDPOINTS,
    *run_endpoints.ENDPOINTS,
    *picture_endpoints.ENDPOINTS,
    *task_endpoints.ENDPOINTS,
    *command_endpoints.ENDPOINTS,
)
"""The whole API."""


def make_app(dashboard: Dashboard) -> ASGIApp:
    """Return the application that serves a dashboard."""
    app = Starlette(
        routes=routes(),
        exception_handlers={HoldfastError: _refuse, HTTPException: _refuse_by_status, Exception: _fail},
        lifespan=_lifespan,
    )
    app.state.dashboard = dashboard
    return Guard(app, dashboard.site)


def routes() -> list[Route]:
    """Return every route. What is not in the API is the page, its files, and the session."""
    files = PageFiles()
    api = [Route(API + row.path, row.handler, methods=[row.method]) for row in ENDPOINTS]
    return [
        *api,
        Route(f"{API}/openapi.json", _describe),
        Route("/metrics", overview_endpoints.metrics),
        Route(SESSION_PATH, overview_endpoints.sign_in, methods=["POST"]),
        Route("/static/{name:path}", files.file),
        Route("/", files.page),
        Route("/r/{rest:path}", files.page),
        Route("/new/{rest:path}", files.page),
    ]


async def _describe(_request: Request) -> Response:
    """Answer with the description of the API."""
    return json_answer(openapi(ENDPOINTS, API))


@asynccontextmanager
async def _lifespan(app: Starlette) -> AsyncIterator[None]:
    """Bound the threads that read: each keeps memory, and the disk is no faster with more."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = _THREADS
    yield
    app.state.dashboard.close()


async def _refuse(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    return answer_to(error)


async def _refuse_by_status(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    hints = {404: f"{API}/openapi.json lists what there is", 405: "use another method"}
    answer = error_answer(error.status_code, error.detail.lower(), hints.get(error.status_code, ""))
    answer.headers.update(error.headers or {})
    return answer


async def _fail(_request: Request, _error: Exception) -> Response:
    """Answer although something of ours is broken; the server prints what it was."""
    return error_answer(500, "the server failed", "its terminal says why; the run itself is not affected")
