"""The API of one run: as it is or was, its stream, and its events."""

from __future__ import annotations

from functools import partial

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.boot import boot_id
from holdfast.journal.protocol import StoredRun
from holdfast.views.current_status import agent_signs, status_of
from holdfast.views.inbox import WaitTimes, needs_events
from holdfast.views.inspection import as_it_was
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.views.status import status_view
from holdfast.views.told_events import ToldEvent, told_event
from holdfast.web.answers import RefusedRequestError, json_answer, whole_number
from holdfast.web.dashboard import Endpoint, Parameter, dashboard_of, open_stream, read, repository_of
from holdfast.web.repositories import load_run
from holdfast.web.run_now import RunChange, RunNow, run_now, run_then

RUN_PATH = "/repositories/{repository}/runs/{run}"
_EVENTS = 1000
_EVENTS_MAX = 5000
AT = Parameter("at", "the number of an event: the run as it was then")


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some events of a run, and the number of its newest event."""

    events: tuple[ToldEvent, ...]
    last_seq: int


def run_at(opened: ReadOnlyRepo, run: str, seq: int | None) -> StoredRun:
    """Return a run as it is, or as it was after an event. Raises RefusedRequestError if it had no such event."""
    stored = load_run(opened, run)
    if seq is None or seq == stored.last_seq:
        return stored
    if not 0 < seq < stored.last_seq:
        raise RefusedRequestError(
            404, f"run {run} has no event {seq}", f"its events are 1 to {stored.last_seq}"
        )
    return as_it_was(opened.require_journal(), run, seq)


def run_name(request: Request) -> str:
    """Return the run that a request names."""
    return str(request.path_params["run"])


async def status(request: Request) -> Response:
    """Answer with a run as it is, or as it was at an event."""
    served, run, at = repository_of(request), run_name(request), whole_number(request, "at")

    def ask(opened: ReadOnlyRepo) -> RunNow:
        stored = run_at(opened, run, at)
        if at is not None:
            last = load_run(opened, run).last_seq
            # The runner of that time counts as alive, so the run is shown as it was.
            then = f"its runner at event {at}" if at < last else None
            if then is not None:
                return run_then(stored, status_view(stored, then, stored.updated_at, boot_id=boot_id()), last)
        times, held = WaitTimes(), opened.holder(run)
        if needs_events(stored.state()):
            times.take_in(opened.require_journal().events(run, upto=stored.last_seq))
        view = status_of(opened, stored, str(held) if held else None, agent_signs(opened, stored))
        return run_now(stored, view, times, served.id)

    return json_answer(await read(served, ask))


async def stream(request: Request) -> Response:
    """Stream a run."""
    served, run, dashboard = repository_of(request), run_name(request), dashboard_of(request)
    after = _after(request)
    await read(served, lambda opened: load_run(opened, run))
    begin = partial(dashboard.runs.messages, served, run, after)
    return open_stream(request, begin)


def _after(request: Request) -> int | None:
    """Return the event that a viewer saw last: what a browser says by itself when it comes back counts first."""
    last = request.headers.get("last-event-id", "")
    if last.isascii() and last.isdecimal():
        return int(last)
    return whole_number(request, "after")


async def events(request: Request) -> Response:
    """Answer with events of a run, in order."""
    served, run = repository_of(request), run_name(request)
    after = whole_number(request, "after") or 0
    limit = min(whole_number(request, "limit") or _EVENTS, _EVENTS_MAX)
    task = request.query_params.get("task")

    def ask(opened: ReadOnlyRepo) -> EventPage:
        last, found = load_run(opened, run).last_seq, []
        for record in opened.require_journal().events(run, after=after, upto=last):
            about = (getattr(record.event, "task", ""), *getattr(record.event, "tasks", ()))
            if (task is None or task in about) and (told := told_event(record)) is not None:
                found.append(told)
                if len(found) == limit:
                    break
        return EventPage(events=tuple(found), last_seq=last)

    return json_answer(await read(served, ask))


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint("GET", RUN_PATH, status, "A run as it is, or as it was at an event", RunNow, query=(AT,)),
    Endpoint(
        "GET",
        f"{RUN_PATH}/stream",
        stream,
        "The run at once, then every change. `Last-Event-ID` or `after` gives the events since",
        query=(Parameter("after", "the number of the last event that is known"),),
        messages=(("status", RunNow), ("change", RunChange)),
    ),
    Endpoint(
        "GET",
        f"{RUN_PATH}/events",
        events,
        "Events of the run in sentences, in order",
        EventPage,
        query=(
            Parameter("after", "only events after this number"),
            Parameter("limit", f"at most so many ({_EVENTS}; never more than {_EVENTS_MAX})"),
            Parameter("task", "only events about this task", is_text=True),
        ),
    ),
)
