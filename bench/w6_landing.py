"""W6: landing disjoint branches on a large repository, beside `git merge --no-ff` in a worktree of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bench.clock import Span, scratch, timed
from bench.figures import Figure
from holdfast.repo.landing import Merged, commit_merge, merge, move_branch, trailers
from holdfast.repo.repository import Repository

_BRANCH = "refs/heads/holdfast/bench"
_MAIN = "refs/heads/main"


def measure(*, quick: bool) -> list[Figure]:
    """Land the same branches both ways and compare; both must end with the same tree."""
    files, branches = (500, 20) if quick else (5_000, 200)
    with scratch() as folder:
        checkout = folder / "repo"
        generate(checkout, files, branches)
        ours, theirs = _race(checkout, folder / "tree", branches)
        trees = {_git(checkout, "rev-parse", f"{ref}^{{tree}}") for ref in (_BRANCH, "refs/heads/merged")}
    assert len(trees) == 1, "both ways must give the same tree"
    return [
        Figure(
            workload="W6",
            name=f"landing on {files:,} files, {branches} branches",
            value=ours.wall_s / branches * 1000,
            unit="ms/landing",
        ),
        Figure(workload="W6", name="landing, CPU", value=ours.cpu_s / branches * 1000, unit="ms/landing"),
        Figure(
            workload="W6",
            name="git merge --no-ff",
            value=theirs.wall_s / branches * 1000,
            unit="ms/merge",
            note="no sync",
        ),
        Figure(
            workload="W6",
            name="git merge --no-ff, CPU",
            value=theirs.cpu_s / branches * 1000,
            unit="ms/merge",
        ),
        Figure(
            workload="W6",
            name="git merge / landing, wall",
            value=theirs.wall_s / ours.wall_s,
            unit="x",
            bound=3,
        ),
        Figure(workload="W6", name="git merge / landing, CPU", value=theirs.cpu_s / ours.cpu_s, unit="x"),
    ]


def generate(checkout: Path, files: int, branches: int) -> None:
    """Make a repository whose branches `t0`, `t1` … each change one file of their own."""
    checkout.mkdir()
    _git(checkout, "init", "-q", "-b", "main")
    stream = "".join(_commits(files, branches)).encode()
    subprocess.run(["git", "-C", checkout, "fast-import", "--quiet"], input=stream, check=True)
    _git(checkout, "reset", "-q", "--hard", "main")


def _commits(files: int, branches: int) -> Iterator[str]:
    yield _commit(_MAIN, "", (f"d{i // 50}/f{i}.txt" for i in range(files)), "line\n" * 20)
    for branch in range(branches):
        number = branch * files // branches
        yield _commit(
            f"refs/heads/t{branch}", _MAIN, [f"d{number // 50}/f{number}.txt"], f"changed {branch}\n"
        )


def _commit(ref: str, parent: str, paths: Iterator[str] | list[str], content: str) -> str:
    who = "committer Bench <bench@localhost> 1700000000 +0000"
    start = f"from {parent}\n" if parent else ""
    changes = "".join(f"M 100644 inline {path}\ndata {len(content)}\n{content}\n" for path in paths)
    return f"commit {ref}\n{who}\ndata 2\nx\n{start}{changes}\n"


def _race(checkout: Path, tree: Path, branches: int) -> tuple[Span, Span]:
    """Do each merge both ways in turn, so that what else the machine does burdens both."""
    ours, theirs = Span(), Span()
    repo = Repository.open(checkout)
    heads = [repo.resolve(f"t{number}") for number in range(branches)]
    tip = repo.resolve("main")
    move_branch(repo, _BRANCH, tip, "")
    _git(checkout, "worktree", "add", "-q", "-b", "merged", str(tree), "main")
    for number, head in enumerate(heads):
        with timed() as span:
            tip = _land(repo, tip, head, f"t{number}")
        ours += span
        with timed() as span:
            _git(tree, "merge", "-q", "--no-ff", "-m", f"Land t{number}", head)
        theirs += span
    return ours, theirs


def _land(repo: Repository, tip: str, head: str, task: str) -> str:
    """Land one branch as the runner does, synced to disk; return the new tip."""
    outcome = merge(repo, tip, head)
    assert isinstance(outcome, Merged)
    message = f"Land {task}\n\n{trailers('01-bench', task, 1)}"
    commit = commit_merge(repo, outcome.tree, tip, head, message)
    assert move_branch(repo, _BRANCH, commit, tip)
    return commit


def _git(where: Path, *args: str) -> str:
    who = {f"GIT_{role}_{what}": "bench" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **who, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", "-C", where, *args], env=env, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
