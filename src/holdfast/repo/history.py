"""What a run branch proves: which tasks have landed on it."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.facts import BranchFacts, Landing
from holdfast.repo.landing import ADOPTED_TRAILER, ATTEMPT_TRAILER, RUN_TRAILER, TASK_TRAILER
from holdfast.repo.repository import Repository

_KEYS = (RUN_TRAILER, TASK_TRAILER, ATTEMPT_TRAILER, ADOPTED_TRAILER)
_TRAILERS = [f"%(trailers:key={key},valueonly,unfold,separator=%x1f)" for key in _KEYS]
_FORMAT = "%x00".join(["%H", "%T", "%P", *_TRAILERS])
_FIELDS = 7


def branch_facts(repo: Repository, branch_ref: str, base: str, run: str) -> BranchFacts:
    """Return the branch's tip and the run's landings after `base`, oldest first.

    Only merges on the first-parent line count: everything else on the branch came from agents, who can write any
    trailer into their own commits. What was adopted is told by the very first commit upon the base, which changes
    no file.
    """
    tip = repo.read_ref(branch_ref)
    if not tip:
        return BranchFacts(tip="")
    args = ("log", "-z", "--first-parent", "--reverse", "--no-color", f"--format={_FORMAT}", f"{base}..{tip}")
    fields = repo.git.run(*args).decode("utf-8", "replace").split("\0")[:-1]
    records = [fields[at : at + _FIELDS] for at in range(0, len(fields), _FIELDS)]
    rooted = records[0][2].split()[:1] == [base] if records else tip == base
    adopted = _adopted(repo, records[0], base, run) if records and rooted else ()
    return BranchFacts(tip, (*adopted, *_landings(records, run)), rooted)


def first_parents(repo: Repository, base: str, tip: str) -> list[str]:
    """Return the commits of the first-parent line after `base`, oldest first."""
    return repo.git.text("rev-list", "--first-parent", "--reverse", f"{base}..{tip}").split()


def _landings(records: list[list[str]], run: str) -> Iterator[Landing]:
    for commit, tree, parents, runs, tasks, attempts, _ in records:
        ids = parents.split()
        task, attempt = _last(tasks), _last(attempts)
        if len(ids) == 2 and _last(runs) == run and task and attempt.isdecimal():
            yield Landing(task, int(attempt), commit, ids[1], tree)


def _adopted(repo: Repository, record: list[str], base: str, run: str) -> Iterator[Landing]:
    commit, tree, parents, runs, _, _, adopted = record
    if not adopted or parents != base or _last(runs) != run or tree != repo.tree_of(base):
        return
    for line in adopted.split("\x1f"):
        task, attempts, evidence = [*line.split(), "", "", ""][:3]
        if attempts.isdecimal() and evidence:
            yield Landing(task, int(attempts), commit, evidence, tree, adopted=True)


def _last(values: str) -> str:
    """Return the last of a trailer's values: ours is written below whatever the message says above."""
    return values.split("\x1f")[-1].strip()
