"""W6: disjoint branches land on a large repository, compared to `git merge --no-ff` in a worktree of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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
from holdfast.runner.context import RunContext
from holdfast.runner.landing.merge_queue import land_tasks

_RUN = "01-bench"
_QUEUE = "refs/heads/holdfast/queue"
_ALONE = "refs/heads/holdfast/alone"
_MAIN = "refs/heads/main"


def measure(*, quick: bool) -> list[Figure]:
    """Land the same branches in all ways and compare. All must end with the same tree."""
    files, branches = (500, 20) if quick else (5_000, 200)
    with scratch() as folder:
        checkout = folder / "repo"
        generate_repository(checkout, files, branches)
        queue, alone, theirs = asyncio.run(_compare(checkout, folder / "tree", branches))
        trees = {
            run_git(checkout, "rev-parse", f"{ref}^{{tree}}") for ref in (_QUEUE, _ALONE, "refs/heads/merged")
        }
    assert len(trees) == 1, "all ways must give the same tree"
    return [
        *_cost(
            f"landing on {files:,} files, {branches} branches", queue, branches, "merge queue, 16 to a move"
        ),
        *_cost("landing one at a time", alone, branches, "a move of the branch for each"),
        *_cost("git merge --no-ff", theirs, branches, "no sync"),
        _ratio("git merge / landing, wall", theirs.wall_s / queue.wall_s, 3),
        _ratio("git merge / landing, CPU", theirs.cpu_s / queue.cpu_s),
        _ratio("git merge / landing one at a time, wall", theirs.wall_s / alone.wall_s),
        _ratio("git merge / landing one at a time, CPU", theirs.cpu_s / alone.cpu_s),
    ]


def _cost(name: str, span: Span, branches: int, note: str) -> list[Figure]:
    wall, cpu = (seconds / branches * 1000 for seconds in (span.wall_s, span.cpu_s))
    return [
        Figure("W6", name, wall, "ms/branch", note=note),
        Figure("W6", f"{name}, CPU", cpu, "ms/branch"),
    ]


def _ratio(name: str, value: float, bound: float | None = None) -> Figure:
    return Figure("W6", name, value, "x", bound=bound)


async def _compare(checkout: Path, tree: Path, branches: int) -> tuple[Span, Span, Span]:
    """Land each batch in all ways in turn, so that other work on the machine slows all equally."""
    queue, alone, theirs = Span(), Span(), Span()
    repo = Repository.open(checkout)
    context, tip = _context(repo, branches), repo.resolve("main")
    for branch in (_QUEUE, _ALONE):
        move_branch(repo, branch, tip, "")
    run_git(checkout, "worktree", "add", "-q", "-b", "merged", str(tree), "main")
    names = list(context.state.tasks)
    for batch in (names[i : i + LANDING_BATCH_MAX] for i in range(0, branches, LANDING_BATCH_MAX)):
        with timed() as span:
            await _land_together(context, batch)
        queue += span
        with timed() as span:
            for name in batch:
                tip = _land(repo, tip, context.state.tasks[name].latest.head, name)
        alone += span
        with timed() as span:
            for name in batch:
                run_git(tree, "merge", "-q", "--no-ff", "-m", f"Land {name}", name)
        theirs += span
    return queue, alone, theirs


def _context(repo: Repository, branches: int) -> RunContext:
    """Return what the merge queue needs, with a head to land for every task and a journal that costs nothing."""
    names = [f"t{number}" for number in range(branches)]
    tasks = tuple(Task(id=name, run=("true",)) for name in names)
    tip = repo.resolve("main")
    row = RunRow(run=_RUN, goal="bench", plan_hash="", base=tip, branch=_QUEUE, tip=tip)
    rows = [TaskRow(id=name, attempt=1, latest=AttemptRow(head=repo.resolve(name))) for name in names]
    state = RunState(Plan(goal="bench", stages=(Stage(id="only", tasks=tasks),)), row, rows)
    lease = SimpleNamespace(is_ours=lambda: True)
    return cast("RunContext", SimpleNamespace(repo=repo, state=state, lease=lease, record=_record, run=_RUN))


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
