"""Collecting what an ended agent left: commit it, look it over, and judge the attempt. Git decides, not the agent's word."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.agents.presets import Preset
from holdfast.agents.streams.reader import readable_output
from holdfast.core import events as ev, ids
from holdfast.core.brief import clip
from holdfast.core.facts import Exit
from holdfast.core.observations import StreamSummary
from holdfast.core.outcome import (
    ConflictedFile,
    Outcome,
    OutcomeKind,
    WorkSign,
    judge_outcome,
    judge_resolution,
)
from holdfast.core.projection import TaskRow
from holdfast.core.status import FailureKind
from holdfast.repo.landing import trailers
from holdfast.repo.workspace_commit import WorkCommit, commit_work
from holdfast.repo.workspaces import WorkspaceGoneError
from holdfast.runner.attempts.limit_events import attempt_blocked, attempt_limited
from holdfast.runner.attempts.start import agent_of_attempt
from holdfast.runner.context import RunContext

_TAIL_CHARS = 4_000
_OF_THE_WORK = (FailureKind.NO_CHANGE,)
_SUMMARY_CHARS = 200


def collect(context: RunContext, task: TaskRow, exit_: Exit, heard: StreamSummary) -> list[ev.Event]:
    """Commit the workspace and say how the attempt ended. Collecting twice finds the commit made before."""
    agent = agent_of_attempt(context, task)
    output = readable_output(agent, context.fleet.output(context.agent_key(task)).data, heard)
    try:
        captured = _commit(context, task)
    except WorkspaceGoneError as gone:
        outcome = Outcome(OutcomeKind.FAILED, FailureKind.AGENT, gone.message)
        return [_failed(context, task, exit_, outcome, output, task.latest.snapshot)]
    verdict = next(_objections(context, task, exit_, captured, heard, agent), None)
    if verdict is not None:
        carry = "" if captured.tree == context.repo.tree_of(task.base) else captured.commit
        if verdict.end is OutcomeKind.LIMITED:
            return attempt_limited(context, task, exit_, verdict, heard, carry)
        if verdict.end is OutcomeKind.BLOCKED:
            detail = clip(output, _TAIL_CHARS)
            return attempt_blocked(context, task, exit_, verdict, detail, carry, agent)
        return [_failed(context, task, exit_, verdict, output, carry, captured.tree)]
    if not context.state.checks_of(task.id) and not context.state.specs[task.id].validators:
        context.workspaces.mark_collected(task, captured.commit)
    return [
        ev.AttemptDone(
            task=task.id,
            attempt=task.attempt,
            token=task.latest.token,
            head=captured.commit,
            tree=captured.tree,
            summary=_summary(task, output),
            remarks=captured.remarks,
            duration_s=exit_.duration_s,
        )
    ]


def _commit(context: RunContext, task: TaskRow) -> WorkCommit:
    spec = context.state.specs[task.id]
    title = " ".join(spec.title.split())
    subject = f"{task.id}: {title}" if title else task.id
    message = f"{subject}\n\n{task.latest.kind}\n\n{trailers(context.run, task.id, task.attempt)}"
    ref = ids.task_ref(context.run, task.id, task.attempt)
    stray = ids.archive_ref(context.run, f"{task.id}-stray-{task.attempt}")
    return commit_work(context.repo, context.workspaces.of(task), task.latest.start, ref, message, stray)


def _objections(
    context: RunContext,
    task: TaskRow,
    exit_: Exit,
    captured: WorkCommit,
    heard: StreamSummary,
    agent: Preset | None,
) -> Iterator[Outcome]:
    """Yield every reason not to accept the work, the most telling first."""
    spec = context.state.specs[task.id]
    by_code = agent.error_patterns().of_exit(exit_.code) if agent is not None and exit_.code > 0 else None
    outcome = judge_outcome(exit_, heard, _work(context, task, captured), task.latest.halt, by_code)
    if outcome.end is not OutcomeKind.DONE and outcome.failure not in _OF_THE_WORK:
        yield outcome
    for problem in captured.problems:
        yield _objection(FailureKind.REJECTED, problem)
    if task.conflict:
        for sentence in _lost_sides(context, task, captured.commit):
            yield _objection(FailureKind.SIDE_LOST, sentence)
    if outcome.end is not OutcomeKind.DONE:
        yield outcome
    missing = [path for path in spec.files if context.repo.file_at(captured.commit, path) is None]
    if missing:
        yield _objection(FailureKind.MISSING_FILES, f"these files were to be delivered: {', '.join(missing)}")


def _objection(failure: FailureKind, error: str) -> Outcome:
    return Outcome(OutcomeKind.FAILED, failure, error)


def _work(context: RunContext, task: TaskRow, captured: WorkCommit) -> WorkSign:
    if context.state.specs[task.id].allow_empty:
        return WorkSign.NOT_NEEDED
    return WorkSign.UNCHANGED if _changed_nothing(context, task, captured) else WorkSign.CHANGED


def _changed_nothing(context: RunContext, task: TaskRow, captured: WorkCommit) -> bool:
    """Nothing in all, or nothing since the tree that failed last time. Work that a crash cut off counts."""
    if captured.tree == context.repo.tree_of(task.base):
        return True
    failed_here = bool(task.failures) and task.failures[-1].attempt == task.attempt - 1
    return not captured.changed and failed_here


def _lost_sides(context: RunContext, task: TaskRow, head: str) -> Iterator[str]:
    """Compare each conflicted file with both sides, which are the parents of the commit with the markers."""
    repo = context.repo
    ours, theirs = f"{task.conflict}^1", f"{task.conflict}^2"
    base = repo.merge_base(ours, theirs)
    for path in task.conflict_files:
        versions = [_text(repo.file_at(commit, path)) for commit in (base, ours, theirs, head)]
        sentence = judge_resolution(ConflictedFile(path, *versions))
        if sentence:
            yield sentence


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")


def _failed(
    context: RunContext, task: TaskRow, exit_: Exit, verdict: Outcome, output: str, carry: str, tree: str = ""
) -> ev.Event:
    return ev.AttemptFailed(
        task=task.id,
        attempt=task.attempt,
        token=task.latest.token,
        failure=verdict.failure or FailureKind.AGENT,
        error=verdict.error,
        detail=clip(output, _TAIL_CHARS),
        carry=carry,
        tree=tree,
        duration_s=exit_.duration_s,
        clock=context.clock(),
    )


def _summary(task: TaskRow, output: str) -> str:
    """Return the agent's own summary, whole, if it reported one, else the last line that it printed."""
    reported = task.latest.report.summary if task.latest.report is not None else ""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return reported or (lines[-1] if lines else "")[:_SUMMARY_CHARS]
