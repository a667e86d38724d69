"""`inspect` as data and as text: a task's attempts with their commits, errors and times, made from the run's events."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

import msgspec

from holdfast.boot import boot_id
from holdfast.core import events as ev, ids
from holdfast.core.event_codec import Recorded
from holdfast.core.facts import NOWHERE
from holdfast.core.people import question_line
from holdfast.core.projection import Question
from holdfast.core.state import RunState, replay
from holdfast.core.status import AttemptKind, ParkReason, TaskStatus
from holdfast.errors import HoldfastError, quoted
from holdfast.journal.protocol import JournalReader, StoredRun
from holdfast.reporting.needs_you import NeedOfTask, need_of
from holdfast.reporting.spending import Spending, attempts_of
from holdfast.views.current_status import places_of_result
from holdfast.views.event_text import event_sentence, showable
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.views.spending_text import spending_words
from holdfast.views.status import MetricsView, RunView, StageView, StatusView, agent_of, status_view
from holdfast.views.text import block, count, duration, local_time, one_line, table, timestamp

Outcome = Literal[
    "under way", "done", "failed", "lost", "limited", "outage", "blocked", "asked", "returned", "landed"
]

_ENDINGS: dict[str, tuple[Outcome, str]] = {
    "AttemptDone": ("done", ""),
    "AttemptLost": ("lost", ""),
    "AttemptLimited": ("limited", "limit"),
    "AttemptBlocked": ("blocked", "agent"),
    "AttemptAsked": ("asked", ""),
    "AttemptReturned": ("returned", ""),
    "AttemptFailed": ("failed", "agent"),
    "ChecksFailed": ("failed", "check"),
    "VerificationBlocked": ("blocked", "check"),
    "ValidationFailed": ("failed", "validation"),
    "MergeRefused": ("failed", "merged_check"),
    "MergeConflicted": ("failed", "conflict"),
}
"""The events that end an attempt: its outcome, and the kind of error unless the event itself has it."""


class ErrorView(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong with one attempt. The next attempt gets exactly this."""

    at: str
    failure: str
    error: str
    check: str | None = None
    detail: str = ""


class AttemptView(msgspec.Struct, kw_only=True):
    """One attempt; `commit` is what it produced, `kept` what the next attempt could build on.

    `set_aside` is half-done work that the next attempt started without.
    """

    attempt: int
    kind: AttemptKind
    outcome: Outcome
    started_at: str
    ended_at: str | None = None
    start: str
    commit: str | None = None
    kept: str | None = None
    set_aside: str | None = None
    agent: str = ""
    session: str = ""
    tokens: int | None = None
    cost_usd: float | None = None
    spending: Spending = Spending()
    errors: list[ErrorView] = []


class TaskHistory(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one task. It is abandoned when as many attempts are `charged` as `attempts_max`."""

    id: str
    stage: str
    title: str
    status: TaskStatus
    agent: str
    needs: tuple[str, ...]
    files: tuple[str, ...]
    worked_s: float
    summary: str
    merge_commit: str | None
    wip: str | None
    refs: tuple[str, ...]
    attempts: tuple[AttemptView, ...]
    questions: tuple[Question, ...] = ()
    needs_you: NeedOfTask | None = None
    obstacle: str | None = None
    charged: int = 0
    attempts_max: int = 0


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    """One event with its number and time."""

    seq: int
    at: str
    event: ev.Event


class Inspection(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a run, or about one task of it, as of event `seq`."""

    seq: int
    run: RunView
    stages: tuple[StageView, ...]
    metrics: MetricsView
    tasks: tuple[TaskHistory, ...]
    events: tuple[EventLine, ...]


def inspect_run(
    opened: ReadOnlyRepo, run: str, task: str | None = None, seq: int | None = None
) -> Inspection:
    """Return all about a run, or about one task of it, now or after event number `seq`."""
    journal, held = opened.require_journal(), opened.holder(run)
    stored = as_it_was(journal, run, seq) if seq else journal.load(run)
    # The runner of that time counts as alive, so the run is shown as it was.
    runner = f"its runner at event {seq}" if seq else str(held) if held else None
    state = stored.state()
    if task is not None and task not in state.tasks:
        raise HoldfastError(f"run {run} had no task {quoted(task)} at event {seq}", "name a later event")
    places = NOWHERE if seq else places_of_result(opened.checkout, stored.row)
    status = status_view(stored, runner, time.time(), boot_id=boot_id(), places=places)
    return inspection(status, state, journal.events(run, upto=stored.last_seq), task)


def as_it_was(journal: JournalReader, run: str, seq: int) -> StoredRun:
    """Return the run after the events up to `seq`."""
    now = journal.load(run)
    if seq > now.last_seq:
        raise HoldfastError(
            f"run {run} has {count(now.last_seq, 'event')}, not {seq}", "`--at` takes the number of an event"
        )
    recorded = list(journal.events(run, upto=seq))
    state = replay(now.first_plan, (record.event for record in recorded))
    return replace(
        now,
        plan=state.plan,
        row=state.row,
        tasks=list(state.tasks.values()),
        updated_at=recorded[-1].at,
        last_seq=seq,
    )


def brief_of(opened: ReadOnlyRepo, state: RunState, task: str, attempt: int | None) -> str:
    """Return the brief of an attempt, or the brief of the next one if none is under way."""
    row, directory = state.tasks[task], opened.directory(state.row.run)
    path = directory.brief(task, attempt or row.attempt)
    under_way = task in state.active or task in state.landing or row.merge_commit
    if attempt is None and not under_way:
        from holdfast.runner.attempts.start import next_brief

        return next_brief(opened.open_repository(), state, row)
    if not path.exists():
        raise HoldfastError(
            f"there is no brief of attempt {attempt or row.attempt} of task {task}",
            f"it has had {count(row.attempt, 'attempt')}; without --attempt the next brief is shown",
        )
    return path.read_text(encoding="utf-8")


def inspection(
    status: StatusView, state: RunState, recorded: Iterable[Recorded], only: str | None
) -> Inspection:
    """Return everything known about a run, or about one task of it, from its state and events."""
    records = [
        record
        for record in recorded
        if only is None
        or only == getattr(record.event, "task", "")
        or only in getattr(record.event, "tasks", ())
    ]
    attempts = attempts_by_task(records)
    statuses = {task.id: task.status for task in status.tasks}
    names = [name for name in state.names if only in (None, name)]
    return Inspection(
        seq=records[-1].seq if records else 0,
        run=status.run,
        stages=status.stages,
        metrics=status.metrics,
        tasks=tuple(_history(state, name, statuses[name], attempts.get(name, [])) for name in names),
        events=tuple(EventLine(seq=r.seq, at=timestamp(r.at), event=showable(r.event)) for r in records),
    )


def _history(state: RunState, name: str, status: TaskStatus, attempts: list[AttemptView]) -> TaskHistory:
    row, spec = state.tasks[name], state.specs[name]
    run = state.row.run
    spent = {one.attempt: one for one in attempts_of(row)}
    for attempt in attempts:
        attempt.spending = used = spent.get(attempt.attempt, attempt.spending)
        attempt.tokens, attempt.cost_usd = used.tokens, used.cost_usd
    refs = [ids.task_ref(run, name, made.attempt) for made in row.commits]
    refs += [ids.cut_short_ref(run, name, one.attempt) for one in attempts if one.set_aside]
    return TaskHistory(
        id=name,
        stage=state.stage_of[name],
        title=spec.title,
        status=status,
        agent=agent_of(state.plan, spec),
        needs=spec.needs,
        files=spec.files,
        worked_s=round(row.worked_s, 3),
        summary=row.summary,
        merge_commit=row.merge_commit or None,
        wip=row.latest.snapshot or None,
        refs=(*refs, *([ids.snapshot_ref(run, name)] if row.latest.snapshot else [])),
        attempts=tuple(attempts),
        questions=row.questions,
        needs_you=need_of(run, row),
        obstacle=(row.latest.report.blocked if row.latest.report is not None else "") or None,
        charged=row.charged,
        attempts_max=state.limits_of(name).attempts,
    )


def attempts_by_task(recorded: Iterable[Recorded]) -> dict[str, list[AttemptView]]:
    """Return each task's attempts, oldest first, as the events tell them."""
    found: dict[str, list[AttemptView]] = {}
    for record in recorded:
        event, at = record.event, timestamp(record.at)
        if isinstance(event, ev.AttemptStarted):
            begun = AttemptView(
                attempt=event.attempt,
                kind=event.attempt_kind,
                outcome="under way",
                started_at=at,
                start=event.start,
                agent=event.agent,
            )
            found.setdefault(event.task, []).append(begun)
        elif (task := getattr(event, "task", "")) in found:
            _add(found[task][-1], event, at)
    return found


def _add(attempt: AttemptView, event: ev.Event, at: str) -> None:
    """Add to an attempt what an event says about it. Other events change nothing."""
    match event:
        case ev.AgentObserved(session=session):
            attempt.session = session or attempt.session
        case ev.TaskLanded():
            attempt.outcome = "landed"
        case ev.VerificationRestarted():
            attempt.outcome = "done"
        case _ if (name := type(event).__name__) in _ENDINGS:
            attempt.outcome, failure = _ENDINGS[name]
            # A check fails after the agent has ended.
            after = attempt.outcome == "failed" or isinstance(event, ev.VerificationBlocked)
            attempt.ended_at = attempt.ended_at or at if after else at
            attempt.kept = getattr(event, "carry", attempt.commit) or None
            attempt.commit = getattr(event, "head", attempt.commit)
            attempt.set_aside = getattr(event, "set_aside", "") or None
            if isinstance(event, ev.AttemptLimited) and event.reason is ParkReason.OUTAGE:
                attempt.outcome = "outage"
            if failure:
                attempt.errors.append(_error(event, failure, at))


def _error(event: ev.Event, failure: str, at: str) -> ErrorView:
    """Return the error of an event; for a conflict, the list of its files."""
    files = ", ".join(getattr(event, "files", ()))
    return ErrorView(
        at=at,
        failure=event.reason if isinstance(event, ev.AttemptLimited) else getattr(event, "failure", failure),
        error=getattr(event, "error", f"conflicts in {files}"),
        check=getattr(event, "check", None),
        detail=getattr(event, "detail", ""),
    )


def inspection_text(view: Inspection) -> str:
    """Return a run with its tasks and timeline as text."""
    run = view.run
    lines = [f"{run.id}  {run.status}  as of event {view.seq}", f"  {one_line(run.goal)}", ""]
    for task in view.tasks:
        lines += [*task_lines(task), ""]
    lines.append("timeline")
    rows = [("#", "TIME", "WHAT")]
    rows += [
        (str(line.seq), local_time(line.at), words)
        for line in view.events
        if (words := event_sentence(line.event))
    ]
    return "\n".join([*lines, *table(rows)])


def task_lines(task: TaskHistory) -> Iterator[str]:
    """Yield one task with all its attempts."""
    yield f"{task.id}  {task.status}  stage {task.stage}, agent {task.agent}, worked {duration(task.worked_s)}"
    if task.title:
        yield f"  {one_line(task.title)}"
    for name, value in (("needs", task.needs), ("delivers", task.files), ("kept at", task.refs)):
        if value:
            yield f"  {name} {', '.join(value)}"
    if task.merge_commit:
        yield f"  landed as {task.merge_commit}"
    if task.wip:
        yield f"  unfinished work is kept as {task.wip}"
    if task.obstacle:
        yield f"  its agent said it was blocked: {one_line(task.obstacle, 300)}"
    if task.charged or len(task.attempts) > 1:
        yield f"  {task.charged} of {count(task.attempts_max, 'attempt')} charged"
    yield from _questions(task)
    for attempt in task.attempts:
        yield from _attempt(attempt)


def _questions(task: TaskHistory) -> Iterator[str]:
    for one in task.questions:
        answer = f'answered: "{one_line(one.answer, 200)}"' if one.answer else "no answer"
        yield f"  attempt {one.attempt} asked: {one_line(question_line(one), 300)}; {answer}"
    if task.needs_you is not None:
        yield f"  needs you: it {one_line(task.needs_you.words, 300)} `{task.needs_you.command}`"


def _attempt(attempt: AttemptView) -> Iterator[str]:
    commit = f", commit {attempt.commit[:12]}" if attempt.commit else ""
    ended = f" to {local_time(attempt.ended_at)[-8:]}" if attempt.ended_at else ""
    outcome = "cut short" if attempt.outcome == "lost" else attempt.outcome
    yield f"  attempt {attempt.attempt} ({attempt.kind}): {outcome}{commit}, {local_time(attempt.started_at)}{ended}"
    if used := spending_words(attempt.spending):
        yield f"    {used}"
    if attempt.session:
        yield f"    session {one_line(attempt.session)}"
    if attempt.kept:
        yield f"    its work is kept as {attempt.kept[:12]}, where the next attempt continues"
    if attempt.set_aside:
        yield f"    its work is kept as {attempt.set_aside[:12]}; the next attempt starts without it"
    for error in attempt.errors:
        yield f"    {local_time(error.at)}  {error.failure}: {one_line(error.error, 200)}"
        yield from block(error.detail, "      | ")
