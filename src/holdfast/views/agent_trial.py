"""What a trial of an agent showed: how its attempt would be judged, and what was read of its stream."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import msgspec

from holdfast.core.accounts import money
from holdfast.core.outcome import OutcomeKind
from holdfast.core.status import ParkReason
from holdfast.runner.agent_trial import LINE, TriedAgent
from holdfast.views.terminal import terminal_width
from holdfast.views.text import count, duration, one_line, wrapped_table

_TOOLS_SHOWN = 6
_ERRORS_SHOWN = 2
_CHARS = 300
_MEANING = {
    OutcomeKind.DONE: f'it ended well, and its file holds the line "{LINE}". In a run this work would land',
    OutcomeKind.FAILED: "a run would try again, as often as the plan allows",
    OutcomeKind.LIMITED: "a run would wait for its provider, and charge no attempt",
    OutcomeKind.BLOCKED: "a run would wait for a person",
}
_STOPPED = "you ended it"


class TrialError(msgspec.Struct, frozen=True, kw_only=True):
    """An error in the stream, and what it was taken for. An agent may have got over it."""

    taken_for: str
    message: str


class UnreadEvents(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of event that told nothing, with the first of them."""

    kind: str
    count: int
    example: str


class AgentTrial(msgspec.Struct, frozen=True, kw_only=True):
    """What `agents try --json` prints. `outcome` is `done`, `failed`, `limited`, `blocked` or `stopped`.

    `tokens` and `cost_usd` are null if the stream does not tell them. `finished`: the stream says that the agent ended well.
    `plain` counts the lines that are no events; `beside` are the first of those that told nothing.
    """

    agent: str
    version: str
    recorded: tuple[str, ...]
    outcome: str
    failure: str
    why: str
    duration_s: float
    stream: str
    events: int
    plain: int
    tools: tuple[str, ...]
    session: str
    tokens: int | None
    cost_usd: float | None
    last_word: str
    finished: bool
    refused: tuple[str, ...]
    errors: tuple[TrialError, ...]
    unread: tuple[UnreadEvents, ...]
    beside: tuple[str, ...]
    log: str
    kept: str


def agent_trial_view(
    name: str, recorded: tuple[str, ...], stream: str, version: str, tried: TriedAgent, log: str, kept: str
) -> AgentTrial:
    """Return what a trial showed. `log` is the file with what the agent printed, `kept` the scratch repository if it stays."""
    heard, end, reading = tried.reading.summary, tried.end, tried.reading
    return AgentTrial(
        agent=name,
        version=version,
        recorded=recorded,
        outcome=str(end.outcome),
        failure=str(end.failure),
        why=end.why,
        duration_s=round(end.duration_s, 3),
        stream=stream,
        events=reading.events,
        plain=reading.plain,
        tools=tuple(reading.tools),
        session=heard.session,
        tokens=heard.tokens or None,
        cost_usd=heard.cost_usd or None,
        last_word=heard.text,
        finished=heard.finished,
        refused=heard.denied,
        errors=tuple(
            TrialError(taken_for=str(seen.trouble), message=seen.message) for seen in reading.troubles
        ),
        unread=tuple(
            UnreadEvents(kind=one.kind, count=one.count, example=one.example)
            for one in reading.unread.values()
        ),
        beside=tuple(reading.beside),
        log=log,
        kept=kept,
    )


def agent_trial_text(view: AgentTrial) -> str:
    """Return a trial as text."""
    lines = wrapped_table(list(_rows(view)), terminal_width())
    return "\n".join([f"{view.agent} {view.version}".rstrip() + f": {_end_words(view)}", *chain(*lines)])


def _end_words(view: AgentTrial) -> str:
    """Return how the trial ended. An outage is no limit, though a run waits for both."""
    return "out of reach" if view.failure == ParkReason.OUTAGE else view.outcome


def _rows(view: AgentTrial) -> Iterator[tuple[str, str]]:
    yield from _judgement(view)
    yield "took", duration(view.duration_s)
    if view.stream == "raw":
        yield "stream", f"raw: {count(view.plain, 'line')}; its exit status and its work decide"
    else:
        yield "stream", f"{view.stream}: {count(view.events, 'event')}, {count(view.plain, 'plain line')}"
    yield "tools", _tools(view)
    yield "session", one_line(view.session) or "none told, so none can be resumed"
    yield "tokens", f"{view.tokens:,}" if view.tokens is not None else "not told"
    yield "cost", money(view.cost_usd) if view.cost_usd is not None else "not told"
    ended = "" if view.finished or view.stream == "raw" else " (the stream does not say that it ended well)"
    yield "last word", (one_line(view.last_word, _CHARS) or "none") + ended
    yield from (("refused", one_line(what, _CHARS)) for what in view.refused)
    yield from _errors(view)
    yield from _unread(view)
    yield "log", view.log
    if view.kept:
        yield "kept", view.kept


def _judgement(view: AgentTrial) -> Iterator[tuple[str, str]]:
    meaning = _MEANING[OutcomeKind(view.outcome)] if view.outcome in _MEANING else _STOPPED
    kind = f" ({view.failure})" if view.failure else ""
    yield "judged", f"{_end_words(view)}{kind}: {meaning}"
    if view.why:
        yield "why", one_line(view.why, _CHARS)


def _tools(view: AgentTrial) -> str:
    if not view.tools:
        return "none seen"
    shown = ", ".join(one_line(tool, 60) for tool in view.tools[:_TOOLS_SHOWN])
    more = len(view.tools) - _TOOLS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def _errors(view: AgentTrial) -> Iterator[tuple[str, str]]:
    """Yield the last errors: an agent that tries again tells the same one many times."""
    earlier = len(view.errors) - _ERRORS_SHOWN
    if earlier > 0:
        yield "errors", f"{len(view.errors)}, of which the last {_ERRORS_SHOWN}:"
    for error in view.errors[-_ERRORS_SHOWN:]:
        yield "error", f"taken for {error.taken_for}: {one_line(error.message, _CHARS)}"
    if not view.errors:
        yield "errors", "none"


def _unread(view: AgentTrial) -> Iterator[tuple[str, str]]:
    """Yield what told nothing. A known agent has a few such events; many, or its errors among them, need another reader."""
    if view.stream != "raw" and not view.unread:
        yield "not read", "no event"
    for one in view.unread:
        yield "not read", f"{count(one.count, 'event')} {one_line(one.kind)}: {one_line(one.example, _CHARS)}"
    yield from (("beside", one_line(line, _CHARS)) for line in view.beside)
