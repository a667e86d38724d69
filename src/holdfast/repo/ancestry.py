"""How commits relate, many at once: contained, not contained but the same change, or named in a message.

The same change counts as proof in two cases. The same patch: a commit changes exactly what the other one changed. The
same content: every file that one commit changed is the same in the other. An empty change proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from holdfast.core.facts import Equivalent
from holdfast.repo.commit_contents import diffs_of
from holdfast.repo.git import as_lines, decode_text
from holdfast.repo.repository import Repository

_HASH = re.compile(r"[0-9a-fA-F]{7,64}")
_HISTORY_MAX = 2_000
_PATCHES_MAX = 300
_BRANCH_COMMITS_MAX = 200
_PATCH = ("-p", "-r", "--no-renames", "--full-index", "--no-ext-diff", "--no-textconv", "--no-color")

Contents = dict[str, str]
"""The files of a commit that matter, each with its mode and its object."""


# -- containment and names ------------------------------------------------------------------------------------


def resolve_hashes(repo: Repository, hashes: Iterable[str]) -> dict[str, str]:
    """Return the full id of each recorded hash, short ones too; those that are gone or ambiguous are left out.

    Only hashes are looked up: a word such as `HEAD` names no recorded commit.
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
    listed = repo.git.text("rev-list", "--stdin", stdin=as_lines([*commits, f"^{tip}"])).split()
    return frozenset(commits).intersection(listed)


def branch_with_all(repo: Repository, commits: Sequence[str]) -> tuple[str, str]:
    """Return the short name and the commit of a branch that contains all these commits, or two empty strings.

    If no local branch does, one of a remote is taken: in a clone, the work of others is there.
    """
    if not commits:
        return "", ""
    places = ("refs/heads/", "refs/remotes/")
    contains = f"--contains={commits[0]}"
    result = repo.git.try_run("for-each-ref", "--format=%(objectname) %(refname)", contains, *places)
    for line in decode_text(result.stdout).splitlines():
        commit, _, ref = line.partition(" ")
        if not commits_outside(repo, commits, commit):
            return ref.removeprefix("refs/heads/").removeprefix("refs/remotes/"), commit
    return "", ""


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


def _is_telling(word: str) -> bool:
    return (
        len(word) >= 4
        and re.search(r"[^\W\d_]", word) is not None
        and re.search(r"[\d_.-]", word) is not None
    )


# -- the same change, squashed or rebased ---------------------------------------------------------------------


def same_changes(repo: Repository, commits: Collection[str], tip: str) -> dict[str, str]:
    """Return for each commit whose change is provably below `tip` the commit that holds it."""
    if not commits:
        return {}
    found = _same_contents_at(repo, commits, tip)
    rest = [commit for commit in commits if commit not in found]
    if not rest:
        return found
    below = _patches_in_log(repo, "--diff-merges=first-parent", f"--max-count={_PATCHES_MAX}", tip)
    question = ("diff-tree", "--stdin", *_PATCH, "--root", "--format=commit %H")
    theirs = _patch_ids(repo, repo.git.run(*question, stdin=as_lines(rest)))
    return found | {commit: below[patch] for patch, commit in theirs.items() if patch in below}


def find_equivalents(
    repo: Repository, base: str, tip: str, missing: Mapping[str, str]
) -> dict[str, Equivalent]:
    """Return the proof for each missing landing whose change is on the branch. The same branch gives the same answer.

    `missing` has the merge that was recorded for each task and is no longer on the run branch. Only commits on the
    first-parent line count: the others came from agents.
    """
    lost = repo.missing(filter(None, missing.values()))
    there = {task: merge for task, merge in missing.items() if merge and merge not in lost}
    if not there:
        return {}
    line = ("--first-parent", f"--max-count={_BRANCH_COMMITS_MAX}", f"{base}..{tip}")
    patches = _patches_in_log(repo, "--diff-merges=first-parent", *line)
    ids = {task: _patch_of(repo, merge) for task, merge in there.items()}
    found = {task: Equivalent(patches[patch], "patch") for task, patch in ids.items() if patch in patches}
    rest = {task: merge for task, merge in there.items() if task not in found}
    commits = repo.git.text("rev-list", *line).split() if rest else []
    return found | _landings_with_same_contents(repo, base, commits, rest)


def _landings_with_same_contents(
    repo: Repository, base: str, branch: Sequence[str], missing: Mapping[str, str]
) -> dict[str, Equivalent]:
    """Prove landings by their files or by those of a later landing, which contains the earlier ones."""
    own = {task: repo.changed_files(f"{merge}^1", merge) for task, merge in missing.items()}
    whole = {task: repo.changed_files(base, merge) for task, merge in missing.items()}
    matter = {path for paths in (*own.values(), *whole.values()) for path in paths}
    there = {commit: _contents(repo, commit, matter) for commit in branch}
    found: dict[str, Equivalent] = {}
    for task, merge in missing.items():
        made = _contents(repo, merge, matter)
        if commit := _holding(there, made, own[task]):
            found[task] = Equivalent(commit, "tree")
        if commit := _holding(there, made, whole[task]):
            below = [other for other, earlier in missing.items() if repo.is_ancestor(earlier, merge)]
            found |= {other: Equivalent(commit, "tree") for other in below if other not in found}
    return found


def _holding(branch: dict[str, Contents], made: Contents, paths: Sequence[str]) -> str:
    """Return the newest commit of the branch in which all these files are as they were made, or an empty string."""
    for commit, contents in branch.items():
        if all(contents.get(path) == made.get(path) for path in paths):
            return commit
    return ""


def _contents(repo: Repository, commit: str, matter: Collection[str]) -> Contents:
    entries = (
        entry.partition("\t") for entry in repo.git.paths("ls-tree", "-r", "-z", "--full-tree", commit)
    )
    return {path: what for what, _, path in entries if path in matter}


def _same_contents_at(repo: Repository, commits: Collection[str], tip: str) -> dict[str, str]:
    diffs = diffs_of(repo, commits, "--raw", "--no-abbrev")
    made = {commit: _files_made(fields) for commit, fields in diffs.items()}
    paths = sorted({path for files in made.values() for path in files})
    there = dict(zip(paths, repo.ids_of(*(f"{tip}:{path}" for path in paths)), strict=True)) if paths else {}
    return {
        commit: tip
        for commit, files in made.items()
        if files and all(there[path] == blob for path, blob in files.items())
    }


def _files_made(fields: Sequence[str]) -> Contents:
    """Return the object that a commit left at each path it changed; an empty string where it deleted a file."""
    pairs = zip(fields[::2], fields[1::2], strict=True)
    blobs = {path: facts.split()[3] for facts, path in pairs if "\n" not in path}
    return {path: blob if blob.strip("0") else "" for path, blob in blobs.items()}


def _patch_of(repo: Repository, merge: str) -> str:
    """Return the id of what a merge changed. An empty one has none, and of binary files git compares no content."""
    patch = repo.git.run("diff-tree", *_PATCH, f"{merge}^1", merge)
    found = [] if b"\nBinary files " in patch else list(_patch_ids(repo, patch))
    return found[0] if found else ""


def _patches_in_log(repo: Repository, *which: str) -> dict[str, str]:
    return _patch_ids(repo, repo.git.run("log", *_PATCH, "--format=commit %H", *which))


def _patch_ids(repo: Repository, patches: bytes) -> dict[str, str]:
    """Return the id of each patch that git printed, with its commit; of several commits the oldest."""
    fields = repo.git.text("patch-id", "--stable", stdin=patches).split()
    return dict(zip(fields[::2], fields[1::2], strict=True))
