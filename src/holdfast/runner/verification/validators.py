"""Validators: they run side by side, each supervised, and each score is durable as soon as it is known.

Each has a workspace of its own, made from the commit: one that runs the work's code must not change what another one sees
or reports.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import msgspec

from holdfast.agents.invocation import invoke_worker
from holdfast.agents.presets import Preset, find_agent
from holdfast.agents.streams.reader import observe_output, readable_output
from holdfast.core import events as ev
from holdfast.core.brief import clip
from holdfast.core.facts import Exit, ExitReason, Sighting
from holdfast.core.observations import StreamSummary
from holdfast.core.outcome import Outcome, OutcomeKind, WorkSign, judge_outcome
from holdfast.core.plan import Validator
from holdfast.core.projection import Spent, TaskRow
from holdfast.core.provider_limits import provider_answered, provider_of
from holdfast.core.status import FailureKind
from holdfast.core.validation import build_validation_brief, judge_validation
from holdfast.fleet.protocol import LaunchKey, LaunchOutput, LaunchSpec, is_output_of
from holdfast.runner.attempts.attempt_events import (
    is_kept_from_provider,
    is_network_closed,
    network_note,
    provider_parked,
    provider_shut,
    provider_unreachable,
)
from holdfast.runner.attempts.reports import (
    clean,
    last_number,
    read_reports,
    report_file,
    reported_spending,
)
from holdfast.runner.attempts.stream_listener import LISTEN_S, StreamListener, why_it_gets_nowhere
from holdfast.runner.attempts.way_out import with_way_out
from holdfast.runner.context import RunContext
from holdfast.runner.launch import placeholders, wait_or_stop, workspace_launch
from holdfast.runner.verification.checks import ChecksStopped, run_to_end
from holdfast.runner.workspace_setup import SetupFailedError, failed_by_work, set_up
from holdfast.system_errors import doing

_DIFF_BYTES = 64_000
_OUTPUT_BYTES = 256 * 1024
_FEEDBACK_CHARS = 4_000
_LINE_CHARS = 120


class _Answer(msgspec.Struct, frozen=True):
    """The line with which a validator answers."""

    score: float
    feedback: str | list[str] = ""


@dataclass(frozen=True, slots=True)
class _Opinion:
    score: float
    feedback: str


class _NoScoreError(Exception):
    """A validator gave no score. `output` is what it printed."""

    def __init__(self, error: str, output: str = "") -> None:
        super().__init__(error)
        self.output = output


class _ProviderGone(ChecksStopped):
    """A validator could not judge: its provider is at a limit or refuses it. It runs again later."""

    def __init__(self, why: ev.ProviderParked | ev.ProviderShut) -> None:
        super().__init__()
        self.why = why


async def validate_task(context: RunContext, name: str) -> list[ev.Event]:
    """Run the validators that have given no score yet, then compare the mean of all scores with the gate.

    One that gives no score is asked again later, and nobody is charged for it. Validators that scored before a crash do not
    run again. What validators write is not kept.
    """
    task, spec = context.state.tasks[name], context.state.specs[name]
    missing = [
        (position, validator)
        for position, validator in enumerate(spec.validators)
        if validator.id not in task.latest.scores
    ]
    if missing:
        work = await asyncio.to_thread(_work, context, task)
        runs = (_run_validator(context, task, position, validator, work) for position, validator in missing)
        # All of them end before the error of one is raised: none may be left running on its own.
        results = await asyncio.gather(*runs, return_exceptions=True)
        errors = [error for error in results if isinstance(error, BaseException)]
        if errors and all(isinstance(error, ChecksStopped) for error in errors):
            why = [error.why for error in errors if isinstance(error, _ProviderGone)]
            return [*why, ev.ChecksInterrupted(task=name, attempt=task.attempt)]
        for error in errors:
            raise error
    return [judge_validation(context.state, task, context.clock())]


def _work(context: RunContext, task: TaskRow) -> tuple[str, tuple[str, ...]]:
    """Return the task's own changes, without what landed meanwhile and was merged into it."""
    base = context.repo.merge_base(context.state.row.tip, task.latest.head) or task.base
    return context.repo.diff(base, task.latest.head, _DIFF_BYTES), tuple(
        context.repo.changed_files(base, task.latest.head)
    )


async def _run_validator(
    context: RunContext,
    task: TaskRow,
    position: int,
    validator: Validator,
    work: tuple[str, tuple[str, ...]],
) -> None:
    """Run one validator in a workspace of its own and record its score."""
    workspace = await context.workspaces.prepare_validation(task, position)
    try:
        await set_up(context, workspace, task.id, task.attempt)
    except SetupFailedError as error:
        failed_by_work(context, error, task.base, task.latest.head)  # then that is for the validator to judge
    text = build_validation_brief(context.state, task, validator, *work)
    spec = partial(_launch, context, validator, workspace, text)
    label, agent = f"validator-{validator.id}", _agent_of(context, validator)
    wait = wait_or_stop if agent is None else partial(_wait_and_listen, agent)
    key, ended = await run_to_end(context, task.id, task.attempt, label, spec, agent, wait)
    name = context.state.plan.agent_of(validator)
    opinion: _Opinion | _NoScoreError = _NoScoreError("its process was lost, and lost again")
    spent = Spent()
    if ended is not None:
        reports, output = _report_file(workspace, key), context.fleet.output(key)
        heard = observe_output(agent, output.data)
        spent = _spent(heard, reports)
        try:
            probed = task.latest.probes
            opinion = _read_opinion(context, validator, ended, output, heard, reports, probed=probed)
        except _NoScoreError as error:
            opinion = error
    scored = isinstance(opinion, _Opinion) and not validator.run
    answered = provider_answered(context.state, provider_of(context.state, name).provider) if scored else []
    await context.record([*answered, _result(task, validator.id, opinion, name, spent)])


async def _wait_and_listen(agent: Preset, context: RunContext, key: LaunchKey) -> Sighting:
    """Wait for a validator that is an agent. One that gets nowhere by itself is ended, as in an attempt.

    No reason is recorded first: its stream tells it, and a runner that finds none asks again.
    """
    listener = StreamListener.of_launch(context.fleet, key, agent, StreamSummary(), Spent())
    unwanted = asyncio.Event()
    listening = asyncio.ensure_future(_listen(context, listener, unwanted))
    try:
        return await wait_or_stop(context, key, unwanted=unwanted)
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening


async def _listen(context: RunContext, listener: StreamListener, unwanted: asyncio.Event) -> None:
    """Hear a validator's stream until it waits for somebody, or has tried for long enough."""
    while why_it_gets_nowhere(listener, context.state.plan.limits) is None:
        await asyncio.sleep(LISTEN_S)
        listener.read()
    unwanted.set()


def _result(
    task: TaskRow, validator: str, opinion: _Opinion | _NoScoreError, agent: str, spent: Spent
) -> ev.Event:
    """Return what became of one validator, and what it used."""
    used = msgspec.structs.asdict(spent)
    if isinstance(opinion, _NoScoreError):
        return ev.ValidatorFailed(
            task=task.id,
            attempt=task.attempt,
            validator=validator,
            error=str(opinion),
            detail=clip(opinion.output, _FEEDBACK_CHARS),
            agent=agent,
            **used,
        )
    return ev.ValidatorScored(
        task=task.id,
        attempt=task.attempt,
        validator=validator,
        score=opinion.score,
        feedback=clip(opinion.feedback, _FEEDBACK_CHARS),
        agent=agent,
        **used,
    )


def _spent(heard: StreamSummary, reports: Path) -> Spent:
    """Return what a validator used: of each part the larger of what its stream and its reports say."""
    reported = reported_spending(read_reports(reports)[0])
    return heard.spent.plus(reported.beyond(heard.spent))


def _report_file(workspace: Path, key: LaunchKey) -> Path:
    return report_file(workspace, f"{key.step}.jsonl")


def _launch(
    context: RunContext, validator: Validator, workspace: Path, text: str, key: LaunchKey
) -> LaunchSpec:
    plan = context.state.plan
    brief = context.directory.attempts / key.owner / str(key.attempt) / f"validator-{validator.id}.md"
    with doing("write the validator's brief", brief):
        brief.parent.mkdir(parents=True, exist_ok=True)
        brief.write_text(text, encoding="utf-8")
    agent = _agent_of(context, validator)
    return workspace_launch(
        key,
        invoke_worker(validator, agent, placeholders(key, workspace, brief)),
        workspace,
        brief,
        timeout_s=plan.limits.check_timeout_s if validator.run else plan.limits.timeout_s,
        stall_s=0.0 if validator.run else plan.limits.stall_s,
        pass_env=plan.pass_env,
        report_to=(_report_file(workspace, key), context.directory.wake_pipe),
        sandbox=context.sandbox,
        shown=context.linked,
        variables=context.variables.of(workspace),
        limits=context.state.plan.limits,
    )


def _agent_of(context: RunContext, validator: Validator) -> Preset | None:
    """Return the agent that a validator asks; None if it is a command."""
    plan = context.state.plan
    return None if validator.run else find_agent(plan.agent_of(validator), plan.agents, context.presets)


def _read_opinion(
    context: RunContext,
    validator: Validator,
    ended: Exit,
    output: LaunchOutput,
    heard: StreamSummary,
    reports: Path,
    *,
    probed: bool,
) -> _Opinion:
    """Return a validator's opinion. Raises _ProviderGone if its provider stopped it, _NoScoreError if there is none."""
    if not is_output_of(ended, output):
        raise _NoScoreError("its output was changed by another program, or is too long to be kept")
    if validator.run:
        return _opinion(ended, output.data, reports)
    agent = _agent_of(context, validator)
    by_code = agent.error_patterns().of_exit(ended.code) if agent is not None else None
    outcome = judge_outcome(ended, heard, WorkSign.NOT_NEEDED, by_code=by_code)
    name = context.state.plan.agent_of(validator)
    if gone := _provider_gone(context, name, agent, outcome, ended, heard, probed=probed):
        raise _ProviderGone(gone)
    readable = readable_output(agent, output.data, heard)
    if outcome.end is not OutcomeKind.DONE and heard.has_last_word:
        raise _NoScoreError(outcome.error + network_note(context, ended), readable)
    return _opinion(ended, readable.encode(), reports)


def _provider_gone(
    context: RunContext,
    name: str,
    agent: Preset | None,
    outcome: Outcome,
    ended: Exit,
    heard: StreamSummary,
    *,
    probed: bool,
) -> ev.ProviderParked | ev.ProviderShut | None:
    """Return why a validator could not judge, if its provider is at a limit, is out of reach or refuses it."""
    provider = provider_of(context.state, name).provider
    if is_network_closed(context) or is_kept_from_provider(ended):
        return None
    match outcome.failure:
        case FailureKind.LIMIT:
            return provider_parked(context, provider, ended.token, heard, time.time())
        case FailureKind.OUTAGE:
            return provider_unreachable(context, provider, ended, heard, probed=probed)
        case FailureKind.AUTH | FailureKind.CREDIT | FailureKind.MODEL:
            words = with_way_out(context, name, outcome.failure, outcome.error, agent)
            return provider_shut(provider, words, name if outcome.failure is FailureKind.MODEL else "")
    return None


def _opinion(ended: Exit, log: bytes, reports: Path) -> _Opinion:
    """Return what a validator that came to its own end said. Raises _NoScoreError if that is no score."""
    output = clean(log[-_OUTPUT_BYTES:].decode(errors="replace"))
    if ended.reason is not ExitReason.EXITED or ended.code != 0:
        exited = ended.reason is ExitReason.EXITED
        how = ": ".join(filter(None, (f"it exited with {ended.code}" if exited else "", ended.error)))
        raise _NoScoreError(_with_last_line(how or f"it was ended ({ended.reason})", output), output)
    found = _printed(output) or _reported(reports)
    if found is None:
        raise _NoScoreError(_with_last_line("its output has no line with a score", output), output)
    if not 0 <= found.score <= 1:
        raise _NoScoreError(f"its score, {found.score:g}, is not between 0 and 1", output)
    return found


def _with_last_line(why: str, output: str) -> str:
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    return f"{why} ({last[:_LINE_CHARS]})" if last else f"{why} and printed nothing"


def _printed(output: str) -> _Opinion | None:
    """Return the last line that is an answer."""
    for line in reversed(output.splitlines()):
        if not line.lstrip().startswith("{"):
            continue
        try:
            answer = msgspec.json.decode(line, type=_Answer, strict=False)
        except msgspec.MsgspecError:
            continue
        feedback = answer.feedback if isinstance(answer.feedback, str) else "\n".join(answer.feedback)
        return _Opinion(answer.score, clean(feedback))
    return None


def _reported(reports: Path) -> _Opinion | None:
    lines, _ = read_reports(reports)
    score = last_number([line.confidence for line in lines], 1.0)
    feedback = next((clean(line.summary) for line in reversed(lines) if line.summary), "")
    return None if score is None else _Opinion(score, feedback)
