"""What an ended agent left: committed by us, looked over, and judged done or failed. Git decides, not its word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.core import events as ev, ids
from holdfast.core.brief import clip
from holdfast.core.conflicts import ConflictedFile, judge_resolution
from holdfast.core.events import FailureKind
from holdfast.core.facts import Exit, ExitReason
from holdfast.core.projection import TaskRow
from holdfast.repo.capture import Captured, commit_work
from holdfast.repo.landing import trailers
from holdfast.repo.workspaces import WorkspaceGoneError
from holdfast.runner.workshop import Workshop

_TAIL_CHARS = 4_000
_SUMMARY_CHARS = 200

_PROCESS_FAILURES = {
    ExitReason.TIMEOUT: FailureKind.TIMEOUT,
    ExitReason.STALLED: FailureKind.STALLED,
    ExitReason.NOT_STARTED: FailureKind.ENVIRONMENT,
    ExitReason.CANCELLED: FailureKind.AGENT,
}


@dataclass(frozen=True, slots=True)
class _Verdict:
    failure: FailureKind
    error: str


def collect(shop: Workshop, task: TaskRow, exit_: Exit) -> list[ev.AnyEvent]:
    """Commit the workspace and say how the attempt ended. Collecting twice finds the commit made before."""
    output = shop.fleet.logs(shop.agent_key(task)).decode(errors="replace")
    try:
        captured = _commit(shop, task)
    except WorkspaceGoneError as gone:
        return [_failed(shop, task, exit_, _Verdict(FailureKind.AGENT, gone.message), output, task.wip)]
    verdict = next(_objections(shop, task, exit_, captured), None)
    if verdict is not None:
        carry = "" if captured.tree == shop.repo.tree_of(task.base) else captured.commit
        return [_failed(shop, task, exit_, verdict, output, carry, captured.tree)]
    if not shop.state.checks_of(task.id) and not shop.state.specs[task.id].validators:
        # Nothing of ours will write to the workspace any more, so whatever still changes in it is news.
        shop.captured[str(task.slot)] = captured.commit
    return [
        ev.AttemptDone(
            task=task.id,
            attempt=task.attempt,
            token=task.token,
            head=captured.commit,
            tree=captured.tree,
            summary=_summary(task, output),
            remarks=captured.remarks,
            duration_s=exit_.duration_s,
        )
    ]


def _commit(shop: Workshop, task: TaskRow) -> Captured:
    spec = shop.state.specs[task.id]
    title = " ".join(spec.title.split())
    subject = f"{task.id}: {title}" if title else task.id
    message = f"{subject}\n\n{task.reason}\n\n{trailers(shop.run, task.id, task.attempt)}"
    ref = ids.task_ref(shop.run, task.id, task.attempt)
    stray = ids.archive_ref(shop.run, f"{task.id}-stray-{task.attempt}")
    return commit_work(shop.repo, shop.workspaces.get(str(task.slot)), task.start, ref, message, stray)


def _objections(shop: Workshop, task: TaskRow, exit_: Exit, captured: Captured) -> Iterator[_Verdict]:
    """Yield every reason not to accept the work, the most telling first."""
    if exit_.reason is not ExitReason.EXITED:
        yield _Verdict(
            _PROCESS_FAILURES[exit_.reason], exit_.error or f"the agent was stopped: {exit_.reason}"
        )
    elif exit_.code != 0:
        kind = FailureKind.AGENT if exit_.code > 0 else FailureKind.KILLED
        yield _Verdict(kind, _describe_exit(exit_.code))
    for problem in captured.problems:
        yield _Verdict(FailureKind.REJECTED, problem)
    if task.conflict:
        for sentence in _lost_sides(shop, task, captured.commit):
            yield _Verdict(FailureKind.SIDE_LOST, sentence)
    spec = shop.state.specs[task.id]
    if not spec.allow_empty and _changed_nothing(shop, task, captured):
        yield _Verdict(FailureKind.NO_CHANGE, "the agent reported success but changed no file")
    missing = [path for path in spec.files if shop.repo.file_at(captured.commit, path) is None]
    if missing:
        yield _Verdict(FailureKind.MISSING_FILES, f"these files were to be delivered: {', '.join(missing)}")


def _changed_nothing(shop: Workshop, task: TaskRow, captured: Captured) -> bool:
    """Nothing in all, or nothing since the tree that failed last time. Work that a crash cut off counts."""
    if captured.tree == shop.repo.tree_of(task.base):
        return True
    failed_here = bool(task.failures) and task.failures[-1].attempt == task.attempt - 1
    return captured.empty and failed_here


def _lost_sides(shop: Workshop, task: TaskRow, head: str) -> Iterator[str]:
    """Compare each conflicted file with both sides, which are the parents of the commit with the markers."""
    repo = shop.repo
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
    shop: Workshop, task: TaskRow, exit_: Exit, verdict: _Verdict, output: str, carry: str, tree: str = ""
) -> ev.AnyEvent:
    return ev.AttemptFailed(
        task=task.id,
        attempt=task.attempt,
        token=task.token,
        failure=verdict.failure,
        error=verdict.error,
        detail=clip(output, _TAIL_CHARS),
        carry=carry,
        tree=tree,
        duration_s=exit_.duration_s,
        clock=shop.clock(),
    )


def _describe_exit(code: int) -> str:
    return f"the agent exited with status {code}" if code > 0 else f"the agent was killed by signal {-code}"


def _summary(task: TaskRow, output: str) -> str:
    """Return the agent's own summary, whole, if it reported one, else the last line that it printed."""
    reported = task.report.summary if task.report is not None else ""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return reported or (lines[-1] if lines else "")[:_SUMMARY_CHARS]
