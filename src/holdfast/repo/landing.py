"""Landing on a run branch: merges without a checkout, trailers that prove which task landed, and reading that proof back.

A branch moves only from where we saw it, by compare-and-swap (`move_branch`). What a run branch proves overrides every row of the journal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from holdfast.core.facts import BranchFacts, Landing
from holdfast.repo.git import GitError, as_lines, decode_text
from holdfast.repo.repository import Repository

RUN_TRAILER = "Holdfast-Run"
TASK_TRAILER = "Holdfast-Task"
ATTEMPT_TRAILER = "Holdfast-Attempt"
ADOPTED_TRAILER = "Holdfast-Adopted"
LAND = "Land "
"""How the message of the merge that lands a task begins; the title of the task follows."""

_KEYS = (RUN_TRAILER, TASK_TRAILER, ATTEMPT_TRAILER, ADOPTED_TRAILER)
_TRAILERS = [f"%(trailers:key={key},valueonly,unfold,separator=%x1f)" for key in _KEYS]
_FORMAT = "%x00".join(["%H", "%T", "%P", *_TRAILERS])
_FIELDS = 7


@dataclass(frozen=True, slots=True)
class Conflicted:
    """Two commits conflict in `files`. `tree` holds the conflict markers; `detail` is what git said."""

    tree: str
    files: tuple[str, ...]
    detail: str


def trailers(run: str, task: str, attempt: int) -> str:
    """Return the last paragraph of a landed merge's message: the proof of which task it is."""
    return f"{RUN_TRAILER}: {run}\n{TASK_TRAILER}: {task}\n{ATTEMPT_TRAILER}: {attempt}\n"


def merge(repo: Repository, onto: str, head: str) -> str | Conflicted:
    """Merge two commits and return the tree. Writes objects only; the same input gives the same tree."""
    args = ("merge-tree", "--write-tree", "-z", "--name-only", "--messages", onto, head)
    result = repo.private_git.try_run(*args)
    fields = decode_text(result.stdout).split("\0")
    # Exit status 1 also means a bad argument; only with a tree it is a conflict.
    if result.rc not in (0, 1) or not fields[0]:
        raise GitError(args, result.rc, result.stderr)
    if result.rc == 0:
        return fields[0]
    end = fields.index("", 1)
    return Conflicted(fields[0], tuple(fields[1:end]), _messages(fields[end + 1 :]))


def commit_merge(repo: Repository, tree: str, onto: str, head: str, message: str) -> str:
    """Commit a merged tree with `onto` as first and `head` as second parent. No ref moves.

    The tree may hold conflict markers: such a commit is where an agent that resolves them starts.
    """
    return repo.private_git.commit_tree(tree, onto, head, message=message)


def move_branch(repo: Repository, ref: str, new: str, old: str) -> bool:
    """Move `ref` from `old` to `new`, or create it if `old` is all zeros or empty.

    True when the ref holds `new` afterwards, also when it did before. False when it holds something else, moved by
    somebody else. Raises GitError when git could not even try, for instance because of a stale lock.
    The move is on disk when this returns.
    """
    before = old if old.strip("0") else ""
    expected = before or "0" * len(new)
    try:
        repo.ref_updates.move(ref, new, "land", expected)
    except GitError:
        now = repo.read_ref(ref)
        if now == before:
            raise
        if now == new:
            repo.ref_updates.sync(ref)
        return now == new
    return True


def branch_facts(repo: Repository, branch_ref: str, base: str, run: str) -> BranchFacts:
    """Return the branch's tip and the run's landings after `base`, oldest first.

    Only merges on the first-parent line count: everything else on the branch came from agents, who can write any
    trailer into their own commits. The very first commit on top of the base, which changes no file, says what
    was adopted.
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


def commits_outside_line(repo: Repository, tip: str, known: Collection[str]) -> list[str]:
    """Return the commits of `tip`'s first-parent line, newest first, down to the first that is on the line of a known one."""
    lines = [tip, *(f"^{commit}" for commit in known)]
    question = ("rev-list", "--first-parent", "--exclude-first-parent-only", "--stdin")
    return repo.git.text(*question, stdin=as_lines(lines)).split()


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
    """Return the last of a trailer's values: ours is written below the rest of the message."""
    return values.split("\x1f")[-1].strip()


def _messages(fields: list[str]) -> str:
    """Extract git's messages from its records: a count, that many paths, a kind, a sentence."""
    sentences = []
    position = 0
    while position < len(fields) and fields[position].isdigit():
        after_paths = position + 1 + int(fields[position])
        sentences.append(fields[after_paths + 1].strip())
        position = after_paths + 2
    return "\n".join(sentences)
