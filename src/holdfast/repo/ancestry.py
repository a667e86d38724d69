"""Where commits stand towards another, many of them at once: below it, beside it with the same change, or named in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.core.facts import Equivalent
from holdfast.repo.repository import Repository

_HASH = re.compile(r"[0-9a-fA-F]{7,64}")
_HISTORY_MAX = 2_000
_PATCHES_MAX = 300
_FOUND_BY_PATCH = ("-p", "-r", "--no-renames", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color")


def resolve_hashes(repo: Repository, hashes: Iterable[str]) -> dict[str, str]:
    """Return the full id of each recorded hash, short ones too; those that are gone or ambiguous are left out.

    Only hashes are asked for: a word such as `HEAD` names no commit that anybody recorded.
    """
    asked = [one for one in dict.fromkeys(hashes) if _HASH.fullmatch(one)]
    if not asked:
        return {}
    ids = repo.ids_of(*(f"{one.lower()}^{{commit}}" for one in asked))
    return {one: commit for one, commit in zip(asked, ids, strict=True) if commit}


def commits_outside(repo: Repository, commits: Collection[str], tip: str) -> frozenset[str]:
    """Return those of `commits` that `tip` does not contain."""
    if not commits:
        return frozenset()
    question = "".join(f"{commit}\n" for commit in commits) + f"^{tip}\n"
    listed = repo.git.run("rev-list", "--stdin", stdin=question.encode()).decode().split()
    return frozenset(commits).intersection(listed)


def local_branches(repo: Repository) -> dict[str, str]:
    """Return every local branch by its short name, with its commit."""
    said = repo.git.run("for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/")
    pairs = (line.partition(" ") for line in said.decode("utf-8", "surrogateescape").splitlines())
    return {ref.removeprefix("refs/heads/"): commit for commit, _, ref in pairs}


def branch_with_all(repo: Repository, commits: Sequence[str]) -> tuple[str, str]:
    """Return the short name and the commit of a branch that contains all these commits, or two empty strings.

    One of a remote is taken if no local branch does: in a clone, that is where the work of others is.
    """
    if not commits:
        return "", ""
    places = ("refs/heads/", "refs/remotes/")
    contains = f"--contains={commits[0]}"
    said = repo.git.try_run("for-each-ref", "--format=%(objectname) %(refname)", contains, *places)
    for line in said.stdout.decode("utf-8", "surrogateescape").splitlines():
        commit, _, ref = line.partition(" ")
        if not commits_outside(repo, commits, commit):
            return ref.removeprefix("refs/heads/").removeprefix("refs/remotes/"), commit
    return "", ""


def same_changes(repo: Repository, commits: Collection[str], tip: str) -> dict[str, str]:
    """Return for each commit whose change is provably below `tip` the commit that holds it: squashed, or rebased.

    The same patch, or every file that it changed is at `tip` exactly what it made of it. One that changed nothing
    proves nothing.
    """
    if not commits:
        return {}
    found = _same_contents(repo, commits, tip)
    rest = [commit for commit in commits if commit not in found]
    return found | (_same_patches(repo, rest, tip) if rest else {})


def commits_naming(repo: Repository, tip: str, words: Mapping[str, str]) -> dict[str, str]:
    """Return for each key the newest commit below `tip` whose message has its word, as a whole word.

    Words that could mean anything, such as a number, are not looked for.
    """
    wanted = {word.casefold(): key for key, word in words.items() if _is_telling(word)}
    if not wanted:
        return {}
    said = repo.git.run("log", "-z", f"--max-count={_HISTORY_MAX}", "--no-color", "--format=%H %B", tip)
    found: dict[str, str] = {}
    for entry in said.decode("utf-8", "replace").split("\0"):
        commit, _, message = entry.partition(" ")
        for word in set(re.findall(r"[\w.-]*\w", message.casefold())) & wanted.keys():
            found.setdefault(wanted[word], commit)
    return found


def files_changed_by(repo: Repository, commits: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the paths that each commit changed, compared with its first parent."""
    asked = list(dict.fromkeys(commits))
    if not asked:
        return {}
    found: dict[str, list[str]] = {commit: [] for commit in asked}
    at = ""
    for field in _diffs(repo, asked, "--name-only"):
        if field in found:
            at = field
        elif field and at:
            found[at].append(field)
    return {commit: tuple(paths) for commit, paths in found.items()}


def _is_telling(word: str) -> bool:
    return (
        len(word) >= 4
        and re.search(r"[^\W\d_]", word) is not None
        and re.search(r"[\d_.-]", word) is not None
    )


def _same_contents(repo: Repository, commits: Collection[str], tip: str) -> dict[str, str]:
    made = _made_by(repo, commits)
    paths = sorted({path for files in made.values() for path in files})
    there = dict(zip(paths, repo.ids_of(*(f"{tip}:{path}" for path in paths)), strict=True)) if paths else {}
    return {
        commit: tip
        for commit, files in made.items()
        if files and all(there[path] == blob for path, blob in files.items())
    }


def _made_by(repo: Repository, commits: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the object that each commit left at each path it changed; an empty string where it deleted a file."""
    fields = _diffs(repo, commits, "--raw", "--no-abbrev")
    made: dict[str, dict[str, str]] = {commit: {} for commit in commits}
    at, facts = "", ""
    for field in fields:
        if field in made:
            at = field
        elif field.startswith(":"):
            facts = field
        elif field and at and facts and "\n" not in field:
            blob = facts.split()[3]
            made[at][field] = blob if blob.strip("0") else ""
    return made


def _diffs(repo: Repository, commits: Collection[str], *shape: str) -> list[str]:
    """Return what git says of each commit's changes against its first parent: its id, then a field for each."""
    options = ("--stdin", "-r", "-z", "--root", "--no-renames", "--diff-merges=first-parent", *shape)
    output = repo.git.run("diff-tree", *options, stdin="\n".join(commits).encode() + b"\n")
    return output.decode("utf-8", "surrogateescape").split("\0")


def _same_patches(repo: Repository, commits: Sequence[str], tip: str) -> dict[str, str]:
    line = ("--diff-merges=first-parent", f"--max-count={_PATCHES_MAX}")
    history = repo.git.run("log", *_FOUND_BY_PATCH, "--format=commit %H", *line, tip)
    below = _patch_ids(repo, history)
    question = "\n".join(commits).encode() + b"\n"
    theirs = repo.git.run(
        "diff-tree", "--stdin", *_FOUND_BY_PATCH, "--root", "--format=commit %H", stdin=question
    )
    return {commit: below[patch] for patch, commit in _patch_ids(repo, theirs).items() if patch in below}


def _patch_ids(repo: Repository, patches: bytes) -> dict[str, str]:
    fields = repo.git.run("patch-id", "--stable", stdin=patches).decode().split()
    return dict(zip(fields[::2], fields[1::2], strict=True))


_DIFF = ("-p", "-r", "--no-renames", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color")
_COMMITS_MAX = 200

Contents = dict[str, str]
"""The files of a commit that matter here, each with its mode and its object."""


@dataclass(frozen=True, slots=True)
class MissingLanding:
    """A landing that is gone: the merge that was recorded for a task."""

    task: str
    merge: str


def find_equivalents(
    repo: Repository, base: str, tip: str, missing: Sequence[MissingLanding]
) -> dict[str, Equivalent]:
    """Return the proof for each missing landing that has one. The same branch gives the same answer."""
    lost = repo.missing([landing.merge for landing in missing if landing.merge])
    there = [landing for landing in missing if landing.merge and landing.merge not in lost]
    if not there:
        return {}
    patches = _patches_of_branch(repo, base, tip)
    found: dict[str, Equivalent] = {}
    for landing in there:
        patch = _patch_of(repo, landing.merge)
        if patch in patches:
            found[landing.task] = Equivalent(patches[patch], "patch")
    rest = [landing for landing in there if landing.task not in found]
    return found | _landings_with_same_contents(repo, base, tip, rest)


def _landings_with_same_contents(
    repo: Repository, base: str, tip: str, missing: Sequence[MissingLanding]
) -> dict[str, Equivalent]:
    """Prove landings by their files, and by those of a later one: what holds all of that holds what was below it."""
    if not missing:
        return {}
    own = {one.merge: repo.changed_files(f"{one.merge}^1", one.merge) for one in missing}
    whole = {one.merge: repo.changed_files(base, one.merge) for one in missing}
    matter = {path for paths in (*own.values(), *whole.values()) for path in paths}
    branch = {commit: _contents(repo, commit, matter) for commit in _line(repo, base, tip)}
    found: dict[str, Equivalent] = {}
    for one in missing:
        made = _contents(repo, one.merge, matter)
        if commit := _holding(branch, made, own[one.merge]):
            found[one.task] = Equivalent(commit, "tree")
        if commit := _holding(branch, made, whole[one.merge]):
            below = [other for other in missing if repo.is_ancestor(other.merge, one.merge)]
            found |= {other.task: Equivalent(commit, "tree") for other in below if other.task not in found}
    return found


def _holding(branch: dict[str, Contents], made: Contents, paths: Sequence[str]) -> str:
    """Return the newest commit of the branch in which all these files are as they were made, or an empty string."""
    return next(
        (
            commit
            for commit, contents in branch.items()
            if all(contents.get(path) == made.get(path) for path in paths)
        ),
        "",
    )


def _contents(repo: Repository, commit: str, matter: Collection[str]) -> Contents:
    listing = repo.git.run("ls-tree", "-r", "-z", "--full-tree", commit).decode("utf-8", "surrogateescape")
    entries = (entry.partition("\t") for entry in listing.split("\0") if entry)
    return {path: what for what, _, path in entries if path in matter}


def _line(repo: Repository, base: str, tip: str) -> list[str]:
    count = f"--max-count={_COMMITS_MAX}"
    return repo.git.text("rev-list", "--first-parent", count, f"{base}..{tip}").split()


def _patch_of(repo: Repository, merge: str) -> str:
    """Return the id of what a merge changed. An empty one has none, and of binary files git compares no content."""
    patch = repo.git.run("diff-tree", *_DIFF, f"{merge}^1", merge)
    found = [] if b"\nBinary files " in patch else list(_patch_ids_of(repo, patch))
    return found[0] if found else ""


def _patches_of_branch(repo: Repository, base: str, tip: str) -> dict[str, str]:
    line = ("--first-parent", "--diff-merges=first-parent", f"--max-count={_COMMITS_MAX}")
    return _patch_ids_of(repo, repo.git.run("log", *_DIFF, "--format=commit %H", *line, f"{base}..{tip}"))


def _patch_ids_of(repo: Repository, patches: bytes) -> dict[str, str]:
    """Return the id of each patch that git printed, with its commit; of several commits the oldest."""
    fields = repo.git.run("patch-id", "--stable", stdin=patches).decode().split()
    return dict(zip(fields[::2], fields[1::2], strict=True))
