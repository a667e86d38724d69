"""The API of everything at once: the overview, its stream, and the session."""

from __future__ import annotations

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.web.answers import RefusedRequestError, body_of, json_answer
from holdfast.web.dashboard import Endpoint, dashboard_of, open_stream
from holdfast.web.metrics import METRICS_TYPE, metrics_text
from holdfast.web.overview import Overview


class SignIn(msgspec.Struct, frozen=True, kw_only=True):
    """What the page sends once: the token of its address."""

    token: str


async def overview(request: Request) -> Response:
    """Answer with all repositories at one look."""
    return json_answer(await dashboard_of(request).overview.now())


async def overview_stream(request: Request) -> Response:
    """Stream the overview."""
    return open_stream(request, dashboard_of(request).overview.messages)


async def metrics(request: Request) -> Response:
    """Answer with figures for Prometheus."""
    live = dashboard_of(request).overview
    await live.now()
    return Response(metrics_text(live.parts), media_type=METRICS_TYPE)


async def sign_in(request: Request) -> Response:
    """Exchange the token for a cookie that only this site's own requests carry."""
    site = dashboard_of(request).site
    if not site.admits((await body_of(request, SignIn)).token):
        raise RefusedRequestError(
            401, "that is not the token", "open the address that `holdfast serve` printed"
        )
    answer = Response(status_code=204)
    answer.set_cookie(site.cookie, site.token, path="/", httponly=True, samesite="strict", secure=site.is_tls)
    return answer


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", "/overview", overview, "All repositories, their runs, and what waits for you", Overview),
    Endpoint(
        "GET",
        "/stream",
        overview_stream,
        "The overview, at once and whenever something in it changed",
        messages=(("overview", Overview),),
    ),
)
"""What is about all repositories. Figures and the sign-in are no part of the versioned API: `app.py` has their paths."""
