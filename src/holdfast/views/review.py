"""`review` as data and as text: what a run, or one task of it, changed; landed, finished or unfinished.

Names and contents of files are an agent's: text that is shown is redacted and steers no terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from holdfast.core.facts import NOWHERE, BranchFacts, Landing, ResultPlaces
from holdfast.core.ids import short_name, snapshot_ref
from holdfast.core.projection import RunRow, TaskRow
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus, TaskStatus
from holdfast.escapes import without_controls
from holdfast.redaction import redact
from holdfast.repo.commit_contents import (
    CommitLine,
    FileStat,
    commit_lines,
    diffstat,
    line_counts,
    subject_of,
)
from holdfast.repo.landing import branch_facts, commits_outside_line
from holdfast.repo.repository import Repository
from holdfast.runner.landing.result_landing import moved_branch, no_branch
from holdfast.views.text import block, count, one_line

PATCH_BYTES_MAX = 64 * 2**20
_CHECKED = (TaskStatus.VERIFIED, TaskStatus.MERGING)
_FINISHED = (TaskStatus.VERIFYING, *_CHECKED)


class WorkState(StrEnum):
    """How far the work on a task is that a review shows."""

    LANDED = "landed"
    ADOPTED = "adopted"
    FINISHED = "finished"
    UNFINISHED = "unfinished"
    NONE = "none"


class CheckView(msgspec.Struct, frozen=True, kw_only=True):
    """A check of a task; `passed` is null if it has not been run to its end on this work."""

    command: str
    passed: bool | None


class TaskReview(msgspec.Struct, frozen=True, kw_only=True):
    """One task: its work is the difference between `base` and `commit`, made in `commits`, by the latest of `attempts`."""

    task: str
    title: str
    status: TaskStatus
    work: WorkState
    attempts: int
    base: str | None
    commit: str | None
    checks: tuple[CheckView, ...]
    commits: tuple[CommitLine, ...] = ()
    files: tuple[FileStat, ...] = ()


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a whole, or one task of it: then `tasks` has that one, and `files` and `patch` are about its work.

    `notes` says what is unusual: commits of others, a discarded run. `patch` is there if it was asked for.
    """

    run: str
    goal: str
    status: RunStatus
    branch: str
    base: str
    tip: str
    landed_in: tuple[str, ...]
    notes: tuple[str, ...]
    tasks: tuple[TaskReview, ...]
    files: tuple[FileStat, ...]
    insertions: int
    deletions: int
    patch: str | None = None


@dataclass(frozen=True, slots=True)
class ReviewSource:
    """What a review is made from: the repository, the run, and what git shows of its branch, or of its archive."""

    repo: Repository
    state: RunState
    facts: BranchFacts
    places: ResultPlaces = NOWHERE
    has_branch: bool = True

    @property
    def row(self) -> RunRow:
        """The run."""
        return self.state.row


def review_source(repo: Repository, state: RunState, places: ResultPlaces = NOWHERE) -> ReviewSource:
    """Look at a run branch, or at its archive if it was removed. Raises HoldfastError if there is neither."""
    row = state.row
    facts = branch_facts(repo, row.branch, row.base, row.run)
    has_branch = bool(facts.tip)
    if not has_branch and repo.exists(row.tip):
        facts = branch_facts(repo, row.tip, row.base, row.run)
    if not facts.tip:
        raise no_branch(repo, row)
    return ReviewSource(repo, state, facts, places, has_branch)


def review_of(source: ReviewSource, task: str | None, *, patch: bool) -> Review:
    """Return what a run changed, or one task of it."""
    row, facts = source.row, source.facts
    names = [task] if task else source.state.names
    tasks = tuple(task_review(source, name) for name in names)
    old, new = (row.base, facts.tip) if task is None else (tasks[0].base, tasks[0].commit)
    files = line_counts(source.repo, old, new) if old and new else ()
    return Review(
        run=row.run,
        goal=row.goal,
        status=row.status,
        branch=short_name(row.branch),
        base=row.base,
        tip=facts.tip,
        landed_in=source.places.branches,
        notes=tuple(notes(source)),
        tasks=tasks,
        files=files,
        insertions=sum(one.insertions or 0 for one in files),
        deletions=sum(one.deletions or 0 for one in files),
        patch=patch_text(source.repo, old, new) if patch and old and new else None,
    )


def task_review(source: ReviewSource, name: str) -> TaskReview:
    """Return the latest work on a task: what landed, else what is finished, else what there is of it."""
    task, spec = source.state.tasks[name], source.state.specs[name]
    work, base, commit = _work_of(source, task)
    judged = work in (WorkState.LANDED, WorkState.FINISHED)
    shown = bool(base and commit)
    return TaskReview(
        task=name,
        title=spec.title,
        status=task.status,
        work=work,
        attempts=task.attempt,
        base=base or None,
        commit=commit or None,
        checks=tuple(_check(command, task, judged=judged) for command in source.state.checks_of(name)),
        commits=commit_lines(source.repo, base, commit) if shown else (),
        files=line_counts(source.repo, base, commit) if shown else (),
    )


def _work_of(source: ReviewSource, task: TaskRow) -> tuple[WorkState, str, str]:
    landing = next((one for one in reversed(source.facts.landings) if one.task == task.id), None)
    if landing is not None and landing.adopted:
        return WorkState.ADOPTED, "", ""
    if landing is not None and landing.commit not in foreign_commits(source):
        return WorkState.LANDED, source.repo.ids_of(f"{landing.commit}^1")[0], landing.commit
    if task.status in _FINISHED and task.latest.head:
        return WorkState.FINISHED, _below(source, task.latest.head), task.latest.head
    saved = source.repo.read_ref(snapshot_ref(source.row.run, task.id))
    running = task.status is TaskStatus.RUNNING
    found = (task.latest.snapshot or saved) if running else (task.carry or task.set_aside or saved)
    if found and source.repo.exists(found):
        return WorkState.UNFINISHED, _below(source, found), found
    return WorkState.NONE, "", ""


def _below(source: ReviewSource, work: str) -> str:
    """Return the commit that work is compared with, so that what others landed is not taken for its own."""
    return source.repo.merge_base(source.facts.tip, work) or source.row.base


def _check(command: str, task: TaskRow, *, judged: bool) -> CheckView:
    """Checks ran on what landed and on what waits for its merge; a failed one is known by name."""
    failed = (
        task.failures[-1].check == command if task.failures and task.status is TaskStatus.FAILED else False
    )
    passed = judged and (task.status in (TaskStatus.COMPLETED, *_CHECKED) or task.latest.checks_succeeded)
    return CheckView(command=redact(command), passed=False if failed else True if passed else None)


def notes(source: ReviewSource) -> Iterator[str]:
    """Yield what is unusual about a run branch."""
    row, tip = source.row, source.facts.tip
    if source.places.archive and not source.places.branches:
        yield f"It was discarded; this is its archive, {source.places.archive}."
    elif not source.has_branch:
        landed = (
            f"its result is in {source.places.branches[0]}"
            if source.places.branches
            else "its commits are kept"
        )
        yield f"Its branch {short_name(row.branch)} was removed; {landed}."
    if tip != row.tip:
        yield f"{moved_branch(row, tip)}. `holdfast land` refuses it and says how to continue."
    for commit in foreign_commits(source):
        subject = one_line(redact(subject_of(source.repo, commit)))
        yield f"not made by Holdfast: {commit[:12]}  {subject}"


def foreign_commits(source: ReviewSource) -> list[str]:
    """Return the commits of the branch that the run did not leave there, newest first."""
    row, tip = source.row, source.facts.tip
    known = {row.base, row.tip} - source.repo.missing([row.base, row.tip])
    return [] if tip == row.tip else commits_outside_line(source.repo, tip, known)


# -- text -------------------------------------------------------------------------------------------------------


def patch_text(repo: Repository, old: str, new: str) -> str:
    """Return a difference as a patch, without secrets and controls of the terminal."""
    return without_controls(redact(repo.diff(old, new, PATCH_BYTES_MAX)))


def stat_text(source: ReviewSource) -> list[str]:
    """Return each landed task with its commits and files, then the whole difference from the base."""
    row, facts, foreign = source.row, source.facts, foreign_commits(source)
    lines = [f"{row.run}  {row.status}  {one_line(row.goal)}"]
    if found := list(notes(source)):
        lines += ["", *found]
    own = [landing for landing in facts.landings if landing.commit not in foreign]
    if adopted := [landing.task for landing in own if landing.adopted]:
        lines += ["", f"done before it was adopted: {', '.join(adopted)}"]
    for landing in own:
        if not landing.adopted:
            lines += ["", *_landing_lines(source.repo, landing)]
    where = f" on {short_name(row.branch)}" if source.has_branch else ""
    lines += ["", f"in all, {row.base[:12]}..{facts.tip[:12]}{where}"]
    return [*lines, *_stat(source.repo, row.base, facts.tip)]


def task_text(source: ReviewSource, task: TaskReview) -> list[str]:
    """Return one task with its commits and files, and how far it is."""
    lines = [
        task_line(task),
        *(f"  {one.commit[:12]}  {one_line(redact(one.subject))}" for one in task.commits),
    ]
    if task.base and task.commit:
        lines += ["", *_stat(source.repo, task.base, task.commit)]
    for check in task.checks:
        said = {True: "passed", False: "failed", None: "not run on this"}[check.passed]
        lines.append(f"  check {said}: {one_line(check.command)}")
    return lines


def task_line(task: TaskReview) -> str:
    """Return what a review of one task is about."""
    commit = (task.commit or "")[:12]
    attempt = f"attempt {task.attempts}"
    said = {
        WorkState.LANDED: f"landed as {commit}, {attempt}",
        WorkState.ADOPTED: "done before it was adopted",
        WorkState.FINISHED: f"finished in {attempt}, not landed yet ({task.status}): {commit}",
        WorkState.UNFINISHED: f"unfinished, what {attempt} has saved so far ({task.status}): {commit}",
        WorkState.NONE: f"nothing to show yet ({task.status})",
    }
    title = f": {one_line(task.title)}" if task.title else ""
    return f"{task.task}{title}  {said[task.work]}"


def files_text(files: Sequence[FileStat]) -> list[str]:
    """Return the names of files, one per line, as they can be shown."""
    return [without_controls(redact(one.path)) for one in files]


def coloured(text: str, colours: Mapping[str, str]) -> str:
    """Return a patch or its statistics with the user's colours. The text has no colours of its own any more."""
    return "\n".join(_coloured_line(line, colours) for line in text.split("\n"))


_STAT = re.compile(r"(.*\| +\d+ )(\+*)(-*)")


def _coloured_line(line: str, colours: Mapping[str, str]) -> str:
    if found := _STAT.fullmatch(line):
        return found[1] + _in_colour(found[2], colours["new"]) + _in_colour(found[3], colours["old"])
    kinds = (
        (
            ("diff --git ", "index ", "--- ", "+++ ", "new file", "deleted file", "rename ", "similarity "),
            "meta",
        ),
        (("@@",), "frag"),
        (("+",), "new"),
        (("-",), "old"),
    )
    kind = next((name for beginnings, name in kinds if line.startswith(beginnings)), "")
    return _in_colour(line, colours[kind]) if kind else line


def _in_colour(text: str, colour: str) -> str:
    return f"{colour}{text}\x1b[m" if text and colour else text


def _landing_lines(repo: Repository, landing: Landing) -> list[str]:
    before = f"{landing.commit}^1"
    commits = count(repo.commit_count(before, landing.head), "commit")
    subject = one_line(subject_of(repo, landing.commit))
    head = f"{landing.commit[:12]}  {subject}  ({commits}, attempt {landing.attempt})"
    return [head, *_stat(repo, before, landing.commit)]


def _stat(repo: Repository, before: str, after: str) -> list[str]:
    return block(redact(diffstat(repo, before, after)) or "no change", "  ")
