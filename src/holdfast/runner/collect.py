"""What an ended agent left: committed by us, looked over, and judged done or failed. Git decides, not its word."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.agents.streams.words import in_words
from holdfast.core import events as ev, ids
from holdfast.core.brief import clip
from holdfast.core.conflicts import ConflictedFile, judge_resolution
from holdfast.core.events import FailureKind
from holdfast.core.facts import Exit
from holdfast.core.observations import Heard
from holdfast.core.outcome import End, Outcome, Work, judge
from holdfast.core.projection import TaskRow
from holdfast.repo.capture import Captured, commit_work
from holdfast.repo.landing import trailers
from holdfast.repo.workspaces import WorkspaceGoneError
from holdfast.runner.listening import agent_of_attempt, ear_for
from holdfast.runner.parked import blocked, limited
from holdfast.runner.workshop import Workshop

_TAIL_CHARS = 4_000
_OF_THE_WORK = (FailureKind.NO_CHANGE,)
_SUMMARY_CHARS = 200


def collect(shop: Workshop, task: TaskRow, exit_: Exit, heard: Heard) -> list[ev.AnyEvent]:
    """Commit the workspace and say how the attempt ended. Collecting twice finds the commit made before."""
    agent = agent_of_attempt(shop, task)
    output = in_words(agent, shop.fleet.logs(shop.agent_key(task)), heard)
    try:
        captured = _commit(shop, task)
    except WorkspaceGoneError as gone:
        outcome = Outcome(End.FAILED, FailureKind.AGENT, gone.message)
        return [_failed(shop, task, exit_, outcome, output, task.wip)]
    verdict = next(_objections(shop, task, exit_, captured, heard), None)
    if verdict is not None:
        carry = "" if captured.tree == shop.repo.tree_of(task.base) else captured.commit
        if verdict.end is End.LIMITED:
            return limited(shop, task, exit_, verdict, heard, carry)
        if verdict.end is End.BLOCKED:
            detail = clip(output, _TAIL_CHARS)
            return blocked(shop, task, exit_, verdict, detail, carry, agent)
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


def _objections(
    shop: Workshop, task: TaskRow, exit_: Exit, captured: Captured, heard: Heard
) -> Iterator[Outcome]:
    """Yield every reason not to accept the work, the most telling first."""
    spec = shop.state.specs[task.id]
    by_code = ear_for(shop, task).signals.of_exit(exit_.code) if exit_.code > 0 else None
    outcome = judge(exit_, heard, _work(shop, task, captured), task.halt, by_code)
    if outcome.end is not End.DONE and outcome.failure not in _OF_THE_WORK:
        yield outcome
    for problem in captured.problems:
        yield _objection(FailureKind.REJECTED, problem)
    if task.conflict:
        for sentence in _lost_sides(shop, task, captured.commit):
            yield _objection(FailureKind.SIDE_LOST, sentence)
    if outcome.end is not End.DONE:
        yield outcome
    missing = [path for path in spec.files if shop.repo.file_at(captured.commit, path) is None]
    if missing:
        yield _objection(FailureKind.MISSING_FILES, f"these files were to be delivered: {', '.join(missing)}")


def _objection(failure: FailureKind, error: str) -> Outcome:
    return Outcome(End.FAILED, failure, error)


def _work(shop: Workshop, task: TaskRow, captured: Captured) -> Work:
    if shop.state.specs[task.id].allow_empty:
        return Work.NOT_NEEDED
    return Work.UNCHANGED if _changed_nothing(shop, task, captured) else Work.CHANGED


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
    shop: Workshop, task: TaskRow, exit_: Exit, verdict: Outcome, output: str, carry: str, tree: str = ""
) -> ev.AnyEvent:
    return ev.AttemptFailed(
        task=task.id,
        attempt=task.attempt,
        token=task.token,
        failure=verdict.failure or FailureKind.AGENT,
        error=verdict.error,
        detail=clip(output, _TAIL_CHARS),
        carry=carry,
        tree=tree,
        duration_s=exit_.duration_s,
        clock=shop.clock(),
    )


def _summary(task: TaskRow, output: str) -> str:
    """Return the agent's own summary, whole, if it reported one, else the last line that it printed."""
    reported = task.report.summary if task.report is not None else ""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return reported or (lines[-1] if lines else "")[:_SUMMARY_CHARS]
