"""W6: disjoint branches land on a large repository, compared to `git merge --no-ff` in a worktree of it.

And thousands of new files are committed, compared to `git add` and `git commit`. Holdfast's way is synced to disk; git
syncs hardly anything unless it is told to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from bench.measurement import Figure, Span, scratch, timed
from bench.project import generate_repository, run_git
from holdfast.core import events as ev
from holdfast.core.commands import LandTasks
from holdfast.core.decide import LANDING_BATCH_MAX
from holdfast.core.plan import Plan, Stage, Task
from holdfast.core.projection import AttemptRow, RunRow, TaskRow
from holdfast.core.state import RunState
from holdfast.repo.landing import commit_merge, merge, move_branch, trailers
from holdfast.repo.repository import Repository
from holdfast.repo.workspace_commit import commit_work
from holdfast.repo.workspaces import Workspaces
from holdfast.runner.context import RunContext
from holdfast.runner.landing.merge_queue import land_tasks

_RUN = "01-bench"
_QUEUE = "refs/heads/holdfast/queue"
_ALONE = "refs/heads/holdfast/alone"
_MERGED, _SYNCED = _GIT = ("merged", "synced")
_KEPT = "refs/holdfast/bench/new"
_OURS, _COMMIT, _SYNCED_COMMIT = "commit of work", "git add, commit", "git -c core.fsync=all add, commit"


@dataclass(slots=True)
class _Landings:
    """How long all landings took: by the merge queue, one at a time, by `git merge`, and by one that syncs."""

    queue: Span = field(default_factory=Span)
    alone: Span = field(default_factory=Span)
    merged: Span = field(default_factory=Span)
    synced: Span = field(default_factory=Span)


def measure(*, quick: bool) -> list[Figure]:
    """Land the same branches in all ways and compare. All must end with the same tree."""
    files, branches = (500, 20) if quick else (5_000, 200)
    with scratch() as folder:
        checkout = folder / "repo"
        generate_repository(checkout, files, branches)
        landings = asyncio.run(_compare(checkout, folder, branches))
        refs = (_QUEUE, _ALONE, *(f"refs/heads/{name}" for name in _GIT))
        trees = {run_git(checkout, "rev-parse", f"{ref}^{{tree}}") for ref in refs}
        commits = _commit_new_files(checkout, folder, files)
    assert len(trees) == 1, "all ways must give the same tree"
    return [*_landing_figures(landings, files, branches), *_commit_figures(commits, files)]


def _landing_figures(landings: _Landings, files: int, branches: int) -> list[Figure]:
    queue, alone, theirs, synced = landings.queue, landings.alone, landings.merged, landings.synced
    return [
        *_cost(
            f"landing on {files:,} files, {branches} branches", queue, branches, "merge queue, 16 to a move"
        ),
        *_cost("landing one at a time", alone, branches, "a move of the branch for each"),
        *_cost("git merge --no-ff", theirs, branches, "no sync"),
        *_cost("git -c core.fsync=all merge --no-ff", synced, branches, "syncs no folder, no reflog"),
        _ratio("git merge / landing, wall", theirs.wall_s / queue.wall_s, 3),
        _ratio("git merge / landing, CPU", theirs.cpu_s / queue.cpu_s),
        _ratio("git merge / landing one at a time, wall", theirs.wall_s / alone.wall_s),
        _ratio("git merge / landing one at a time, CPU", theirs.cpu_s / alone.cpu_s),
        _ratio("git merge with core.fsync=all / landing, wall", synced.wall_s / queue.wall_s),
    ]


def _commit_figures(commits: dict[str, Span], files: int) -> list[Figure]:
    ours = commits[_OURS]
    costs = [
        Figure("W6", f"{files:,} new files, {name}", span.wall_s, "s", note=note)
        for (name, span), note in zip(commits.items(), ("synced", "no sync", "syncs no folder"), strict=True)
    ]
    theirs = {name: span for name, span in commits.items() if name != _OURS}
    return costs + [
        _ratio(f"{name} / {_OURS}, wall", span.wall_s / ours.wall_s) for name, span in theirs.items()
    ]


def _cost(name: str, span: Span, branches: int, note: str) -> list[Figure]:
    wall, cpu = (seconds / branches * 1000 for seconds in (span.wall_s, span.cpu_s))
    return [
        Figure("W6", name, wall, "ms/branch", note=note),
        Figure("W6", f"{name}, CPU", cpu, "ms/branch"),
    ]


def _ratio(name: str, value: float, bound: float | None = None) -> Figure:
    return Figure("W6", name, value, "x", bound=bound)


async def _compare(checkout: Path, folder: Path, branches: int) -> _Landings:
    """Land each batch in all ways in turn, so that other work on the machine slows all equally."""
    landings = _Landings()
    repo = Repository.open(checkout)
    context, tip = _context(repo, branches), repo.resolve("main")
    for branch in (_QUEUE, _ALONE):
        move_branch(repo, branch, tip, "")
    for name in _GIT:
        run_git(checkout, "worktree", "add", "-q", "-b", name, str(folder / name), "main")
    names = list(context.state.tasks)
    for batch in (names[i : i + LANDING_BATCH_MAX] for i in range(0, branches, LANDING_BATCH_MAX)):
        with timed() as span:
            await _land_together(context, batch)
        landings.queue += span
        with timed() as span:
            for name in batch:
                tip = _land(repo, tip, context.state.tasks[name].latest.head, name)
        landings.alone += span
        landings.merged += _merge(folder / _MERGED, batch)
        landings.synced += _merge(folder / _SYNCED, batch, "-c", "core.fsync=all")
    return landings


def _merge(tree: Path, batch: list[str], *options: str) -> Span:
    with timed() as span:
        for name in batch:
            run_git(tree, *options, "merge", "-q", "--no-ff", "-m", f"Land {name}", name)
    return span


def _commit_new_files(checkout: Path, folder: Path, files: int) -> dict[str, Span]:
    """Commit as many new files as there are in all ways. The content differs, or the objects would be there already."""
    repo = Repository.open(checkout)
    pool = Workspaces(repo, folder / "work")
    base = repo.resolve("main")
    _write_new_files(pool.prepare("0", base), files, _OURS)
    repo.keep(_KEPT, base)  # what was written to the repository before is synced by now
    spans = {}
    with timed() as spans[_OURS]:
        commit_work(repo, pool.get("0"), base, _KEPT, "new files", _KEPT)
    for name, tree, options in ((_COMMIT, _MERGED, ()), (_SYNCED_COMMIT, _SYNCED, ("-c", "core.fsync=all"))):
        _write_new_files(folder / tree, files, name)
        with timed() as spans[name]:
            run_git(folder / tree, *options, "add", "-A")
            run_git(folder / tree, *options, "commit", "-q", "-m", "new files")
    return spans


def _write_new_files(tree: Path, files: int, content: str) -> None:
    for number in range(files):
        path = tree / f"new-{number % 50}" / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{content} {number}\n" * 20)


def _context(repo: Repository, branches: int) -> RunContext:
    """Return what the merge queue needs, with a head to land for every task and a journal that costs nothing."""
    names = [f"t{number}" for number in range(branches)]
    tasks = tuple(Task(id=name, run=("true",)) for name in names)
    tip = repo.resolve("main")
    row = RunRow(run=_RUN, goal="bench", plan_hash="", base=tip, branch=_QUEUE, tip=tip)
    rows = [TaskRow(id=name, attempt=1, latest=AttemptRow(head=repo.resolve(name))) for name in names]
    state = RunState(Plan(goal="bench", stages=(Stage(id="only", tasks=tasks),)), row, rows)
    context = SimpleNamespace(repo=repo, state=state, require_lease=_is_ours, record=_record, run=_RUN)
    return cast("RunContext", context)


async def _is_ours() -> None:
    """Nobody else lands here."""


async def _record(_events: Sequence[ev.Event]) -> None:
    """Keep nothing: W1 measures the journal."""


async def _land_together(context: RunContext, batch: list[str]) -> None:
    """Land a batch with the runner's own code, synced to disk."""
    landed = await land_tasks(context, LandTasks(tuple((name, 1) for name in batch)))
    tips = [event.commit for event in landed if isinstance(event, ev.TaskLanded)]
    assert len(tips) == len(batch)
    context.state.row.tip = tips[-1]


def _land(repo: Repository, tip: str, head: str, task: str) -> str:
    """Land one branch with a move of its own, as the runner does with a task that has checks; return the new tip."""
    outcome = merge(repo, tip, head)
    assert isinstance(outcome, str)
    commit = commit_merge(repo, outcome, tip, head, f"Land {task}\n\n{trailers(_RUN, task, 1)}")
    assert move_branch(repo, _ALONE, commit, tip)
    return commit
