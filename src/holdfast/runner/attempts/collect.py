"""Collects what an ended agent left: commit it, examine it, judge the attempt. Git decides, not the agent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from holdfast.agents.presets import Preset
from holdfast.agents.streams.reader import readable_output
from holdfast.core import events as ev, ids
from holdfast.core.brief import clip, closing_line_of
from holdfast.core.conflicts import ConflictedFile, judge_resolution
from holdfast.core.facts import Exit
from holdfast.core.observations import AgentTrouble, StreamSummary
from holdfast.core.outcome import (
    Outcome,
    OutcomeKind,
    WorkSign,
    is_closed_by,
    judge_outcome,
)
from holdfast.core.projection import TaskRow
from holdfast.core.provider_limits import provider_answered
from holdfast.core.retry import CUT_SHORT, was_found_wanting
from holdfast.core.status import AttemptKind, FailureKind
from holdfast.core.unrunnable import CANNOT_EXECUTE, lacks_program, tree_path, words_said
from holdfast.repo.landing import trailers
from holdfast.repo.repository import Repository
from holdfast.repo.workspace import Workspace, WorkspaceGoneError
from holdfast.repo.workspace_commit import WorkCommit, commit_work
from holdfast.runner.attempts.attempt_events import (
    attempt_asked,
    attempt_blocked,
    attempt_failed,
    attempt_limited,
    is_kept_from_provider,
    is_network_closed,
    network_note,
)
from holdfast.runner.attempts.snapshots import keep_set_aside, save_last_snapshot
from holdfast.runner.attempts.start import agent_of_attempt
from holdfast.runner.context import RunContext

_TAIL_CHARS = 4_000
_SUMMARY_CHARS = 200
_LAST_LINE_CHARS = 64_000
"""Where the last line is looked for. An output may have millions of lines."""


def collect(context: RunContext, task: TaskRow, exit_: Exit, heard: StreamSummary) -> list[ev.Event]:
    """Commit the workspace; return how the attempt ended. Safe to repeat after a crash: reuses the commit."""
    agent = agent_of_attempt(context, task)
    output = _output(context, task, heard, agent)
    tail = clip(output, _TAIL_CHARS)
    try:
        work = commit_attempt(context, task, context.workspaces.of(task))
    except WorkspaceGoneError:
        return [_workspace_gone(context, task, exit_)]
    objection = first_objection(context, task, exit_, work, heard, agent)
    carry = carry_of(context, task, work)
    if objection is not None and objection.end is OutcomeKind.LIMITED:
        return attempt_limited(context, task, exit_, objection, heard, carry)
    if objection is not None and objection.end is OutcomeKind.BLOCKED:
        return attempt_blocked(context, task, exit_, objection, tail, carry, agent)
    if asked := attempt_asked(task, carry, exit_.duration_s, failed=objection is not None):
        return asked
    if objection is None:
        answered = provider_answered(context.state, task.latest.provider) if task.latest.probes else []
        return [*answered, _done(context, task, exit_, work, output)]
    kind = objection.failure or FailureKind.AGENT
    error = objection.error + (network_note(context, exit_) if kind is FailureKind.AGENT else "")
    return [attempt_failed(context, task, kind, error, tail, carry, work.tree, exit_.duration_s)]


def cut_short(context: RunContext, task: TaskRow, exit_: Exit, heard: StreamSummary) -> Outcome | None:
    """Return how an attempt ended that did not come to its own end; None if it did. Git need not be asked."""
    by_code = _trouble_of_exit(exit_, agent_of_attempt(context, task))
    closing = closing_line_of(task)
    outcome = judge_outcome(exit_, heard, WorkSign.CHANGED, task.latest.halt, by_code, closing)
    return outcome if outcome.failure in CUT_SHORT else None


def keep_unfinished(
    context: RunContext, task: TaskRow, exit_: Exit, heard: StreamSummary, outcome: Outcome
) -> ev.Event:
    """Keep the half-done work of an attempt that was cut short, for one that starts without it.

    It is not at the ref of a finished attempt, and has no tree to compare: a clean start makes the same tree again.
    """
    kind = outcome.failure or FailureKind.KILLED
    output = _output(context, task, heard, agent_of_attempt(context, task))
    set_aside = save_last_snapshot(context, task)
    detail = clip(output, _TAIL_CHARS)
    return attempt_failed(
        context, task, kind, outcome.error, detail, "", set_aside=set_aside, duration_s=exit_.duration_s
    )


def _workspace_gone(context: RunContext, task: TaskRow, exit_: Exit) -> ev.Event:
    """The last snapshot is half-done work, although the agent ended by itself. Whoever deleted the rest, it is not charged."""
    keep_set_aside(context, task, task.latest.snapshot)
    carry, set_aside = context.state.carry_or_set_aside(task, task.latest.snapshot, lost=True)
    return ev.AttemptLost(
        task=task.id,
        attempt=task.attempt,
        carry=carry,
        set_aside=set_aside,
        cause="deletion",
        duration_s=exit_.duration_s,
    )


def _output(context: RunContext, task: TaskRow, heard: StreamSummary, agent: Preset | None) -> str:
    return readable_output(agent, context.fleet.output(context.agent_key(task)).data, heard)


def _trouble_of_exit(exit_: Exit, agent: Preset | None) -> AgentTrouble | None:
    """Return what an exit status means by the agent's own convention, if anything."""
    return agent.error_patterns().of_exit(exit_.code) if agent is not None and exit_.code > 0 else None


def _done(context: RunContext, task: TaskRow, exit_: Exit, work: WorkCommit, output: str) -> ev.AttemptDone:
    if not context.state.checks_of(task.id) and not context.state.specs[task.id].validators:
        context.workspaces.mark_collected(task, work.commit)
    # The agent's own summary, whole, if it reported one, else the last line that it printed.
    reported = task.latest.report.summary if task.latest.report is not None else ""
    closing, printed = closing_line_of(task), output[-_LAST_LINE_CHARS:].splitlines()
    lines = [line.strip() for line in printed if line.strip() and not is_closed_by(closing, line)]
    return work_done(context, task, exit_, work, reported or (lines[-1] if lines else "")[:_SUMMARY_CHARS])


def carry_of(context: RunContext, task: TaskRow, work: WorkCommit) -> str:
    """Return the commit that the next attempt continues from; empty if it holds nothing that the base lacks."""
    return "" if work.tree == context.repo.tree_of(task.base) else work.commit


def work_done(
    context: RunContext, task: TaskRow, exit_: Exit, work: WorkCommit, summary: str
) -> ev.AttemptDone:
    """Return the good end of an attempt, whoever made it. Its checks come next."""
    context.workspaces.mark_left_behind(task, work.left_behind)
    return ev.AttemptDone(
        task=task.id,
        attempt=task.attempt,
        token=task.latest.token,
        head=work.commit,
        tree=work.tree,
        summary=summary,
        remarks=work.remarks,
        duration_s=exit_.duration_s,
        clock=context.clock(),
    )


def commit_attempt(context: RunContext, task: TaskRow, workspace: Workspace, subject: str = "") -> WorkCommit:
    """Commit a workspace as the work of a task's present attempt. Safe to repeat.

    A person's own last commit may say "WIP": what a person gives has a commit above it that speaks for the task.
    """
    by_hand = task.latest.kind is AttemptKind.PERSON
    subject = subject or context.state.specs[task.id].headline
    message = f"{subject}\n\n{task.latest.kind}\n\n{trailers(context.run, task.id, task.attempt)}"
    ref = ids.task_ref(context.run, task.id, task.attempt)
    stray = ids.archive_ref(context.run, f"{task.id}-stray-{task.attempt}")
    checked = bool(context.state.checks_of(task.id))
    return commit_work(
        context.repo,
        workspace,
        task.latest.start,
        ref,
        message,
        stray,
        look_behind=checked,
        by_hand_on=context.state.row.tip if by_hand else "",
    )


def first_objection(
    context: RunContext,
    task: TaskRow,
    exit_: Exit,
    work: WorkCommit,
    heard: StreamSummary,
    agent: Preset | None,
) -> Outcome | None:
    """Return the most telling reason not to accept the work; None if there is none."""
    sign = _work_sign(context, task, work)
    by_code, closing = _trouble_of_exit(exit_, agent), closing_line_of(task)
    outcome = judge_outcome(exit_, heard, sign, task.latest.halt, by_code, closing)
    if outcome.failure is FailureKind.OUTAGE and is_network_closed(context):
        outcome = replace(outcome, end=OutcomeKind.FAILED, failure=FailureKind.AGENT)
    if outcome.failure in (FailureKind.OUTAGE, FailureKind.AUTH) and is_kept_from_provider(exit_):
        # Our proxy's refusal looks like one of the provider, or like no provider at all. Waiting does not help.
        error = f"the agent's network is an allow-list, and that lacks {exit_.refused_hosts}"
        outcome = Outcome(OutcomeKind.BLOCKED, FailureKind.PERMISSION, error)
    outcome = _unless_not_executed(context, task, exit_, outcome, agent)
    return next(_objections(context, task, work, outcome), None)


def _objections(context: RunContext, task: TaskRow, work: WorkCommit, outcome: Outcome) -> Iterator[Outcome]:
    """Yield every reason not to accept the work, the most telling first."""
    if outcome.end is not OutcomeKind.DONE and outcome.failure is not FailureKind.NO_CHANGE:
        yield outcome
    for problem in work.problems:
        yield Outcome(OutcomeKind.FAILED, FailureKind.REJECTED, problem)
    if task.conflict:
        for sentence in _lost_sides(context.repo, task, work.commit):
            yield Outcome(OutcomeKind.FAILED, FailureKind.SIDE_LOST, sentence)
    if outcome.end is not OutcomeKind.DONE:
        yield outcome
    files = context.state.specs[task.id].files
    if missing := [path for path in files if context.repo.file_at(work.commit, path) is None]:
        error = f"these files were to be delivered: {', '.join(missing)}"
        yield Outcome(OutcomeKind.FAILED, FailureKind.MISSING_FILES, error)


def _unless_not_executed(
    context: RunContext, task: TaskRow, exit_: Exit, outcome: Outcome, agent: Preset | None
) -> Outcome:
    """Return the outcome, with whose fault it is if the program of the attempt could not be executed.

    A program of the machine is nobody's work. A command of the tree is: what landed before may be to blame.
    """
    own = context.state.specs[task.id].run
    if outcome.end is OutcomeKind.BLOCKED and outcome.failure is FailureKind.ENVIRONMENT:
        of_tree = bool(own) and bool(tree_path(own[0]))
        return replace(outcome, end=OutcomeKind.FAILED) if of_tree else outcome
    if outcome.failure is not FailureKind.AGENT or exit_.code not in CANNOT_EXECUTE:
        return outcome
    output = context.fleet.output(context.agent_key(task)).data.decode(errors="replace")
    argv = own or (agent.command if agent is not None else ())
    if not lacks_program(" ".join(argv), exit_.code, output):
        return outcome
    return Outcome(OutcomeKind.BLOCKED, FailureKind.ENVIRONMENT, words_said(output))


def _work_sign(context: RunContext, task: TaskRow, work: WorkCommit) -> WorkSign:
    """Unchanged: no change, or none since the tree that was judged and failed. Work that was cut off counts.

    A person may give work as it was judged: what made it fail was mended elsewhere, and the checks say whether it was.
    """
    if context.state.specs[task.id].allow_empty:
        return WorkSign.NOT_NEEDED
    by_hand = task.latest.kind is AttemptKind.PERSON
    as_judged = not work.changed and not by_hand and was_found_wanting(task)
    unchanged = as_judged or work.tree == context.repo.tree_of(task.base)
    return WorkSign.UNCHANGED if unchanged else WorkSign.CHANGED


def _lost_sides(repo: Repository, task: TaskRow, head: str) -> Iterator[str]:
    """Compare each conflicted file with both sides, which are the parents of the commit with the markers."""
    ours, theirs = f"{task.conflict}^1", f"{task.conflict}^2"
    commits = (repo.merge_base(ours, theirs), ours, theirs, head)
    for path in task.conflict_files:
        contents = [repo.file_at(commit, path) for commit in commits]
        versions = [None if data is None else data.decode(errors="replace") for data in contents]
        if sentence := judge_resolution(ConflictedFile(path, *versions)):
            yield sentence
