"""The API of one task: its history, its log, what it changed, how that was judged, and what its agent was told."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.state import RunState
from holdfast.redaction import redact
from holdfast.repo.repository import Repository
from holdfast.views.actions import ActionView, task_actions
from holdfast.views.check_results import AttemptResults, attempt_results
from holdfast.views.current_status import current_status, places_of_result
from holdfast.views.file_diffs import DiffView, diff_view
from holdfast.views.inspection import AttemptView, TaskHistory, brief_of, inspect_run
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.views.review import ReviewSource, WorkState, review_source, task_review
from holdfast.web.answers import RefusedRequestError, json_answer, whole_number
from holdfast.web.dashboard import Endpoint, Parameter, dashboard_of, open_stream, read, repository_of
from holdfast.web.repositories import load_run, require_task
from holdfast.web.run_endpoints import RUN_PATH, run_name
from holdfast.web.task_log import AttemptLog, LogLine, SkippedBytes, log_messages

TASK_PATH = f"{RUN_PATH}/tasks/{{task}}"
_ATTEMPT = Parameter("attempt", "the number of an attempt (the latest)")
_AGAINST = ("base", "previous")


class TaskSpecView(msgspec.Struct, frozen=True, kw_only=True):
    """What the plan asks of a task."""

    title: str
    prompt: str
    needs: tuple[str, ...]
    files: tuple[str, ...]
    verify: tuple[str, ...]
    agent: str
    run: tuple[str, ...]


class LineageStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step from what was asked for to what landed; the commit that shows it, null if there is none."""

    label: str
    commit: str | None


class TaskPage(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one task."""

    history: TaskHistory
    spec: TaskSpecView
    actions: tuple[ActionView, ...]
    lineage: tuple[LineageStep, ...]


class BriefView(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent of an attempt was told; `attempt` is null if this is for the next one."""

    attempt: int | None
    text: str


def _task_name(request: Request) -> str:
    return str(request.path_params["task"])


async def task(request: Request) -> Response:
    """Answer with everything about a task, now or at an event."""
    served, run, name = repository_of(request), run_name(request), _task_name(request)
    at = whole_number(request, "at")

    def ask(opened: ReadOnlyRepo) -> TaskPage:
        stored = load_run(opened, run)
        state = stored.state()
        require_task(state, name)
        if at is not None and not 0 < at <= stored.last_seq:
            raise RefusedRequestError(404, f"run {run} has no event {at}", f"give 1 to {stored.last_seq}")
        history = inspect_run(opened, run, name, at).tasks[0]
        actions = () if at is not None else task_actions(state, name, current_status(opened, run).run)
        return TaskPage(
            history=history, spec=_spec(state, name), actions=actions, lineage=tuple(_lineage(history))
        )

    return json_answer(await read(served, ask))


def _spec(state: RunState, name: str) -> TaskSpecView:
    spec = state.specs[name]
    return TaskSpecView(
        title=spec.title,
        prompt=redact(spec.prompt),
        needs=spec.needs,
        files=spec.files,
        verify=tuple(redact(command) for command in state.checks_of(name)),
        agent=spec.agent or state.plan.agent,
        run=tuple(redact(word) for word in spec.run),
    )


def _lineage(history: TaskHistory) -> list[LineageStep]:
    steps = [LineageStep(label="prompt", commit=None)]
    for one in history.attempts:
        made = one.commit or one.kept or one.set_aside
        steps.append(LineageStep(label=f"attempt {one.attempt}: {one.outcome}", commit=made))
    if history.merge_commit:
        steps.append(LineageStep(label="merge", commit=history.merge_commit))
    return steps


async def log(request: Request) -> Response:
    """Stream what an agent prints."""
    served, run, name = repository_of(request), run_name(request), _task_name(request)
    attempt = whole_number(request, "attempt")
    found = await read(served, lambda opened: AttemptLog.find(opened, run, name, attempt))
    return open_stream(request, partial(log_messages, served, found, dashboard_of(request).closing))


async def task_diff(request: Request) -> Response:
    """Answer with what a task, or one attempt at it, changed."""
    served, run, name = repository_of(request), run_name(request), _task_name(request)
    attempt, against = whole_number(request, "attempt"), request.query_params.get("against", "base")
    if against not in _AGAINST:
        raise RefusedRequestError(
            400, "there is nothing of that name to compare with", f"use one of {_AGAINST}"
        )

    def ask(opened: ReadOnlyRepo) -> DiffView:
        state = load_run(opened, run).state()
        require_task(state, name)
        repo = opened.open_repository()
        source = _source(opened, repo, state)
        if attempt is None and against == "base":
            shown = task_review(source, name)
            return diff_view(repo, shown.base, shown.commit, shown.work)
        history = inspect_run(opened, run, name).tasks[0]
        return _attempt_diff(source, history, attempt or len(history.attempts), against)

    return json_answer(await read(served, ask))


def _source(opened: ReadOnlyRepo, repo: Repository, state: RunState) -> ReviewSource:
    return review_source(repo, state, places_of_result(opened.checkout, state.row))


def _attempt_diff(source: ReviewSource, history: TaskHistory, number: int, against: str) -> DiffView:
    """Return what an attempt changed: since it began, or since the work on the task left the run branch."""
    found = next((one for one in history.attempts if one.attempt == number), None)
    if found is None:
        raise RefusedRequestError(404, f"task {history.id} has no attempt {number}", "leave `attempt` out")
    repo, commit = source.repo, _work_of(history, found)
    work = (
        WorkState.LANDED
        if found.outcome == "landed"
        else WorkState.FINISHED
        if found.commit
        else WorkState.UNFINISHED
    )
    if not commit or not repo.exists(commit):
        return diff_view(repo, None, None, WorkState.NONE)
    before = found.start
    if against == "base":
        tip = f"{history.merge_commit}^1" if history.merge_commit else source.facts.tip
        before = repo.merge_base(tip, commit) or source.row.base
    return diff_view(repo, before, commit, work)


def _work_of(history: TaskHistory, attempt: AttemptView) -> str:
    is_latest = attempt is history.attempts[-1]
    saved = history.wip if is_latest else None
    return attempt.commit or attempt.kept or attempt.set_aside or saved or ""


async def run_diff(request: Request) -> Response:
    """Answer with what a whole run changed."""
    served, run = repository_of(request), run_name(request)

    def ask(opened: ReadOnlyRepo) -> DiffView:
        state = load_run(opened, run).state()
        repo = opened.open_repository()
        source = _source(opened, repo, state)
        landed = WorkState.LANDED if source.facts.tip != state.row.base else WorkState.NONE
        return diff_view(repo, state.row.base, source.facts.tip, landed)

    return json_answer(await read(served, ask))


async def brief(request: Request) -> Response:
    """Answer with what the agent of an attempt was told, or the next one will be."""
    served, run, name = repository_of(request), run_name(request), _task_name(request)
    attempt = whole_number(request, "attempt")

    def ask(opened: ReadOnlyRepo) -> BriefView:
        state = load_run(opened, run).state()
        row = state.tasks[require_task(state, name)]
        if attempt is not None and not 1 <= attempt <= row.attempt:
            raise RefusedRequestError(404, f"task {name} has no attempt {attempt}", "leave `attempt` out")
        text = brief_of(opened, state, name, attempt)
        at_work = name in state.active or name in state.landing or bool(row.merge_commit)
        return BriefView(attempt=attempt or (row.attempt if at_work else None), text=redact(text))

    return json_answer(await read(served, ask))


async def checks(request: Request) -> Response:
    """Answer with how the work of an attempt was judged."""
    served, run, name = repository_of(request), run_name(request), _task_name(request)
    attempt = whole_number(request, "attempt")

    def ask(opened: ReadOnlyRepo) -> AttemptResults:
        stored = load_run(opened, run)
        state = stored.state()
        row = state.tasks[require_task(state, name)]
        number = row.attempt if attempt is None else attempt
        if attempt is not None and not 1 <= number <= row.attempt:
            raise RefusedRequestError(404, f"task {name} has no attempt {attempt}", "leave `attempt` out")
        recorded = opened.require_journal().events(run, upto=stored.last_seq)
        return attempt_results(opened, state, name, number, recorded)

    return json_answer(await read(served, ask))


_LOG_MESSAGES: tuple[tuple[str, Any], ...] = (("entries", list[LogLine]), ("skipped", SkippedBytes))
ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        TASK_PATH,
        task,
        "Everything about a task",
        TaskPage,
        query=(Parameter("at", "the number of an event: the task as it was then"),),
    ),
    Endpoint(
        "GET",
        f"{TASK_PATH}/log",
        log,
        "What an agent printed, and prints. `end`: the attempt is over; `elsewhere`: its log is on another machine",
        query=(_ATTEMPT,),
        messages=_LOG_MESSAGES,
    ),
    Endpoint(
        "GET",
        f"{TASK_PATH}/diff",
        task_diff,
        "What a task changed, or one attempt: against the run branch, or against where it began",
        DiffView,
        query=(_ATTEMPT, Parameter("against", "what to compare with", choices=_AGAINST)),
    ),
    Endpoint("GET", f"{RUN_PATH}/diff", run_diff, "What the whole run changed", DiffView),
    Endpoint("GET", f"{TASK_PATH}/brief", brief, "What an agent was told", BriefView, query=(_ATTEMPT,)),
    Endpoint(
        "GET",
        f"{TASK_PATH}/checks",
        checks,
        "How the work was judged: checks with what they printed, validators with their scores",
        AttemptResults,
        query=(_ATTEMPT,),
    ),
)
