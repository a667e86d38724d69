"""The API of a run in pictures: its plan as a graph, its tasks over time, and its figures as curves."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.event_codec import Recorded
from holdfast.journal.protocol import StoredRun
from holdfast.reporting.charts import Charts, charts
from holdfast.reporting.graph import Graph, plan_graph
from holdfast.reporting.timeline import Timeline, timeline
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.web.answers import json_answer, whole_number
from holdfast.web.dashboard import Endpoint, read, repository_of
from holdfast.web.run_endpoints import AT, RUN_PATH, run_at, run_name

_Draw = Callable[[StoredRun, list[Recorded], float, bool], Any]


async def graph(request: Request) -> Response:
    """Answer with the plan as a graph. The places of its cards depend on the plan alone."""
    served, run, at = repository_of(request), run_name(request), whole_number(request, "at")
    return json_answer(await read(served, lambda opened: plan_graph(run_at(opened, run, at).state())))


async def run_timeline(request: Request) -> Response:
    """Answer with what happened when."""
    return await _drawn(
        request, lambda stored, recorded, now, held: timeline(recorded, stored.state(), now, held)
    )


async def run_charts(request: Request) -> Response:
    """Answer with curves."""
    return await _drawn(
        request,
        lambda stored, recorded, now, _held: charts(recorded, now, stored.plan.limits.restart_below),
    )


async def _drawn(request: Request, draw: _Draw) -> Response:
    """Answer with a picture of a run as it is, or as it was at an event: then that was its present."""
    served, run, at = repository_of(request), run_name(request), whole_number(request, "at")

    def ask(opened: ReadOnlyRepo) -> Any:
        stored = run_at(opened, run, at)
        recorded = list(opened.require_journal().events(run, upto=stored.last_seq))
        is_past = at is not None and at < run_at(opened, run, None).last_seq
        held = is_past or opened.holder(run) is not None
        now = stored.updated_at if is_past or not held else time.time()
        return draw(stored, recorded, now, held)

    return json_answer(await read(served, ask))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", f"{RUN_PATH}/graph", graph, "The plan as a graph, with places", Graph, query=(AT,)),
    Endpoint(
        "GET",
        f"{RUN_PATH}/timeline",
        run_timeline,
        "Attempts, marks and waits over time",
        Timeline,
        query=(AT,),
    ),
    Endpoint("GET", f"{RUN_PATH}/charts", run_charts, "Figures of the run as curves", Charts, query=(AT,)),
)
