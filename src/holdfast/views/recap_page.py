"""`recap --html`: a run as one page that stands alone, to be sent to somebody who has neither the repository nor Holdfast.

No script, nothing from elsewhere, and a policy in the page that forbids both. All text is escaped, secrets are redacted, and
the places of this machine are left out: what an agent wrote may be hostile, and who reads the page is not known.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import msgspec

from holdfast import __version__
from holdfast.core.accounts import money
from holdfast.core.status import RunStatus
from holdfast.redaction import redact
from holdfast.repo.repository import Repository
from holdfast.reporting.timeline import Timeline, timeline
from holdfast.views.inspection import TaskHistory, inspect_run
from holdfast.views.markup import (
    Html,
    Piece,
    code,
    data_table,
    element,
    joined,
    moment_cell,
    raw_style,
    row_head,
    time_of,
    words_cell,
)
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.views.recap import Recap, lost_time_words, recap_of
from holdfast.views.recap_tasks import (
    WORDS_CHARS,
    failure_words,
    listed,
    tasks_section,
    troubles_section,
    work_section,
)
from holdfast.views.spending_text import SpendingColumns, share, tokens
from holdfast.views.text import count, duration, one_line, timestamp
from holdfast.views.timeline_picture import BANDS, how_to_read, legend, timeline_picture, timeline_table

_RUN_STATUSES: dict[RunStatus, tuple[str, str]] = {
    RunStatus.PENDING: ("not started", "soft"),
    RunStatus.RUNNING: ("● running", "warn"),
    RunStatus.PAUSED: ("paused", "soft"),
    RunStatus.INTERRUPTED: ("! interrupted", "warn"),
    RunStatus.BLOCKED: ("! waits for a person", "warn"),
    RunStatus.COMPLETED: ("✓ completed", "good"),
    RunStatus.STOPPED: ("stopped", "soft"),
    RunStatus.ABANDONED: ("✗ abandoned", "bad"),
}


class RecapDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What the page is made from."""

    recap: Recap
    tasks: tuple[TaskHistory, ...]
    timeline: Timeline
    made_at: str


def recap_document(repo: Repository, opened: ReadOnlyRepo, run: str) -> RecapDocument:
    """Return all that the page of a run tells, without secrets and without places of this machine."""
    recap, journal, now = recap_of(repo, opened, run), opened.require_journal(), time.time()
    held = recap.run.held_by is not None
    document = RecapDocument(
        recap=recap,
        tasks=inspect_run(opened, run).tasks,
        timeline=timeline(journal.events(run), journal.load(run).state(), now, held),
        made_at=timestamp(now),
    )
    return _shareable(document, opened.checkout)


def _shareable(document: RecapDocument, checkout: Path) -> RecapDocument:
    """Return a document with every text in it fit for others."""
    places = {
        str(path): sign for path, sign in ((Path.home(), "~"), (checkout, "."), (checkout.resolve(), "."))
    }
    by_length = sorted((place for place in places if len(place) > 1), key=len, reverse=True)

    def clean(value: object) -> object:
        match value:
            case str():
                text = redact(value)
                for place in by_length:
                    text = text.replace(place, places[place])
                return text
            case dict():
                return {key: clean(item) for key, item in value.items()}
            case list() | tuple():
                return [clean(item) for item in value]
            case _:
                return value

    return msgspec.convert(clean(msgspec.to_builtins(document)), RecapDocument)


def recap_page(document: RecapDocument) -> str:
    """Return the page."""
    recap = document.recap
    rules = files("holdfast.views").joinpath("recap_page.css").read_text(encoding="utf-8")
    digest = b64encode(sha256(rules.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=policy),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="referrer", content="no-referrer"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{recap.run.id}: {one_line(recap.run.goal, 80)}"),
        raw_style(rules),
    )
    main = element(
        "main",
        *_header(document),
        *_proof(recap),
        *_open(recap),
        _picture(document.timeline),
        work_section(document.tasks, recap.tasks),
        *_agents(recap),
        *troubles_section(document.tasks, document.timeline.marks),
        tasks_section(document.tasks),
    )
    body = element("body", main, _footer(document))
    return f"<!doctype html>\n{element('html', head, body, lang='en').text}\n"


# -- The beginning ------------------------------------------------------------------------------------------


def _header(document: RecapDocument) -> Iterator[Html]:
    recap = document.recap
    run, metrics = recap.run, recap.metrics
    words, tone = _RUN_STATUSES[run.status]
    yield element(
        "p",
        element("span", words, class_=f"status {tone}"),
        f" · {run.id} · ",
        time_of(run.started_at),
        " to ",
        time_of(document.made_at if run.held_by else run.updated_at),
        class_="eyebrow",
    )
    yield element("h1", one_line(run.goal, 300))
    yield element("p", " ".join(_lead(recap)), class_="lead")
    if run.detail:
        yield element("p", one_line(run.detail, WORDS_CHARS), class_=tone)
    figures = [
        ("Tasks landed", f"{metrics.completed} of {metrics.tasks}", _failed_words(metrics.failed)),
        ("From start to end", duration(metrics.elapsed_s), ""),
        ("Agents worked", duration(recap.worked_s), "all together"),
        ("Attempts", str(metrics.attempts), f"{metrics.redone} redone"),
        *_spending_figures(recap),
        ("Lost to crashes", _lost(recap.lost_time.crashes_s), _runners(recap.runners)),
        ("Lost to limits and outages", _lost(recap.lost_time.limits_s), ""),
    ]
    yield element("dl", *(_figure(*figure) for figure in figures), class_="figures")


def _lost(seconds: float) -> str:
    return duration(seconds) if seconds else "nothing"


def _runners(runners: int) -> str:
    return f"{runners} runners, one after the other" if runners > 1 else ""


def _failed_words(failed: int) -> str:
    return f"{failed} failed" if failed else ""


def _figure(name: str, value: str, more: str) -> Html:
    small = [element("small", more)] if more else []
    return element("div", element("dt", name), element("dd", value, *small))


def _spending_figures(recap: Recap) -> Iterator[tuple[str, str, str]]:
    spent = recap.metrics.spending
    if spent.cost_usd is not None:
        told = f"told by all but {count(spent.untold, 'attempt')}" if spent.untold else ""
        yield "Cost", money(spent.cost_usd), told
    if spent.tokens is not None:
        cached = f"{share(spent.cache_share)} from cache" if spent.cache_share else ""
        yield "Tokens", tokens(spent.tokens), cached


def _lead(recap: Recap) -> Iterator[str]:
    """Yield what happened, in sentences."""
    metrics = recap.metrics
    yield f"{metrics.completed} of {count(metrics.tasks, 'task')} landed in {duration(metrics.elapsed_s)}."
    if recap.agents:
        by = [f"{agent.agent} made {count(agent.attempts, 'attempt')}" for agent in recap.agents]
        yield f"{listed(by)}."
    if recap.failures:
        kinds = [f"{times} × {failure_words(kind)}" for kind, times in recap.failures.items()]  # noqa: RUF001
        yield f"What failed: {listed(kinds)}."
    if lost := lost_time_words(recap.lost_time):
        yield f"Time in which no agent worked: {lost}."
    if recap.adopted:
        yield f"{count(recap.adopted, 'agent')} worked on through a crash and lost nothing."


def _proof(recap: Recap) -> Iterator[Html]:
    run = recap.run
    words: list[Piece] = []
    if recap.lost is None:
        words += ["The branch ", code(run.branch), " is gone, so git proves nothing."]
    else:
        good = not recap.lost and not recap.repeated
        proved = f"{recap.landed} landed, {recap.lost} lost, {recap.repeated} repeated"
        words += [
            element("span", "✓ " if good else "✗ ", class_="good" if good else "bad"),
            f"{proved}, on branch ",
        ]
        words += [code(run.branch), " from ", code(run.base[:12]), "."]
    if recap.foreign:
        words.append(f" {count(recap.foreign, 'commit')} on the branch not made by Holdfast.")
    if run.landed_in:
        words.append(f" The result is in {listed(run.landed_in)}.")
    notes = [element("p", "Waived by the user: " + ", ".join(recap.waived) + ".")] if recap.waived else []
    if recap.new_in_git:
        named = one_line(", ".join(recap.new_in_git), 300)
        notes.append(element("p", f"New in git since it began, by an agent or by a person: {named}."))
    if run.adopted_from:
        origin = run.adopted_from
        notes.append(
            element("p", f"Adopted from {origin.system}: {one_line(origin.name)} ({one_line(origin.main)}).")
        )
    yield element("section", element("h2", "Proved by git"), element("p", *words), *notes)


def _open(recap: Recap) -> Iterator[Html]:
    """Yield what waits for a person."""
    if not recap.needs_you:
        return
    rows = [
        [
            row_head(need.task),
            words_cell(one_line(need.words, WORDS_CHARS)),
            element("td", code(need.command)),
        ]
        for need in recap.needs_you
    ]
    yield element(
        "section", element("h2", "Waits for a person"), data_table(("Task", "What for", "Command"), rows)
    )


def _picture(view: Timeline) -> Html:
    picture = element(
        "div", timeline_picture(view), class_="scroll", tabindex="0", role="region", aria_label="Timeline"
    )
    table = element(
        "div",
        timeline_table(view),
        class_="scroll",
        tabindex="0",
        role="region",
        aria_label="Timeline as a table",
    )
    rows = [
        [
            row_head(BANDS[band.kind]),
            moment_cell(band.begin),
            *_lasted(band.begin, band.end),
            words_cell(one_line(band.label, 300)),
        ]
        for band in view.bands
    ]
    stops = (
        [data_table(("Interruption", "From (UTC)", "How long", "Why"), rows, ("How long",))] if rows else []
    )
    return element(
        "section",
        element("h2", "Timeline"),
        element(
            "p",
            how_to_read(view),
            class_="note",
        ),
        picture,
        legend(view),
        element("details", element("summary", "The timeline as a table"), table, class_="picture-table"),
        *stops,
    )


def _lasted(begin: float, end: float | None) -> tuple[Html]:
    return (element("td", "goes on" if end is None else duration(end - begin), class_="number"),)


def _agents(recap: Recap) -> Iterator[Html]:
    if not recap.agents:
        return
    columns = SpendingColumns(recap.agents)
    heading = ["Agent", "Attempts", *(name.capitalize() for name in columns.heading), "From cache"]
    rows = [
        [
            row_head(agent.agent),
            *(
                element("td", cell, class_="number")
                for cell in (str(agent.attempts), *columns.cells(agent), share(agent.cache_share))
            ),
        ]
        for agent in recap.agents
    ]
    yield element("section", element("h2", "Who did it"), data_table(heading, rows, heading[1:]))


def _footer(document: RecapDocument) -> Html:
    made = joined(
        f"Made by Holdfast {__version__} at ",
        time_of(document.made_at),
        " UTC from the run's journal and its branch.",
    )
    return element("footer", element("p", made))
