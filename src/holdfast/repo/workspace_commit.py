"""Commits what an agent did: the files of a workspace become a tree, and the tree a commit on a ref.

Nothing here touches the agent's index, HEAD, branches or stash. The index used is Holdfast's own, so it also
sees files that an agent told git to overlook. In the workspace, only files that would block git change, and the modes of
closed folders; in that of a person, nothing.

Only paths that changed are looked at. Nothing is run inside nested repositories: their files are stored as plain
files, because a commit that points into a repository nobody else has would be useless.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from holdfast.core.ids import ALL_RUN_BRANCHES, ALL_RUN_REFS, attempts_of_ref, is_work_ref
from holdfast.paths import STATE_DIR, is_of_state_dir
from holdfast.repo.blocking_files import refuse_blocking_files, remove_blocking_files, too_deep_folders
from holdfast.repo.files import closed_folders, copy_atomically, is_plain_directory, is_there, open_up, remove
from holdfast.repo.git import GitError, as_lines, decode_text
from holdfast.repo.index import (
    LISTING_S,
    changed_paths,
    set_as_in,
    temporary_index,
    tracked_changes,
    unkept_paths,
)
from holdfast.repo.index_additions import add_files
from holdfast.repo.persons_merge import holds_landed, landed_below, merge_under_way
from holdfast.repo.refs import list_refs
from holdfast.repo.repository import Repository
from holdfast.repo.workspace import Workspace
from holdfast.repo.workspace_clone import head_of_clone, other_commits, take_over
from holdfast.repo.workspace_files import ignore_patterns, without_paths
from holdfast.system_errors import doing

FILE_BYTES_MAX = 50 * 1024 * 1024
_TRIES = 3
_NESTING_MAX = 4
_SHOWN_CHARS = 100
_NAMED_MAX = 5
_GITLINK = "160000"


@dataclass(frozen=True, slots=True)
class WorkCommit:
    """What an attempt produced: `changed` are the paths that differ from the commit it started from.

    `problems` name work that could not be taken; `remarks` are worth knowing, but nothing is missing. `left_behind` are
    the paths in the workspace that are not part of the commit: ignored files and empty folders.
    """

    commit: str
    tree: str
    changed: tuple[str, ...]
    problems: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkspaceTree:
    """A tree of all the files, a sentence for each that could not be taken, and what else is worth knowing."""

    tree: str
    problems: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    left_behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _ChangedPaths:
    """What to do with each changed path: drop it, add it, go into it, or say why not."""

    gone: list[str] = field(default_factory=list)
    present: list[str] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


# -- commits --------------------------------------------------------------------------------------------------


def commit_work(
    repo: Repository,
    workspace: Workspace,
    start: str,
    ref: str,
    message: str,
    archive: str,
    *,
    look_behind: bool = False,
    by_hand_on: str = "",
) -> WorkCommit:
    """Commit all that a workspace holds and keep it at `ref`, after the agent is dead.

    Commits the agent made itself are kept below ours; if they hold everything, the last one is the work. If it moved to a
    history without `start`, that history is kept at the ref `archive` and our commit follows `start`. With `look_behind`,
    what is not part of it is listed. Safe to repeat after a crash: finds our commit.

    A person's work, done while the run branch was at `by_hand_on` or below it, always gets a commit with our message, and
    what the person merged from the run branch is below it.
    """
    workspace.require_present()
    head = agent_head(repo, workspace, ref, by_hand_on)
    remarks: list[str] = []
    parent = head
    merged = merge_under_way(repo, workspace, by_hand_on)
    newest = merged or landed_below(repo, start, head, by_hand_on)
    if head != start and not (head and (newest or repo.is_ancestor(start, head))):
        remarks.append(_archive_stray_head(repo, head, archive))
        parent = start
    elif left_out := left_out_in_commits(repo, workspace, head):
        repo.keep(archive, head)
        remarks.append(
            f"The agent committed {', '.join(left_out)}, which never lands: its files were taken, its own commits are kept at {archive}."
        )
        parent = start
    remarks += _archive_other_commits(repo, workspace, head, archive)
    found = tree_of_workspace(repo, workspace, parent, look_behind=look_behind)
    if newest and not holds_landed(repo, start, newest, found.tree):
        repo.keep(archive, head or start)
        remarks.append(f"Nothing of {newest[:12]} is in the files; your own commits are kept at {archive}.")
        parent, merged = start, ""
    # Even work that changed nothing gets a commit of its own: a merge needs a second parent to prove it landed.
    reuses = parent != start and not by_hand_on
    commit = commit_on_ref(
        repo, found.tree, parent, ref, lambda: message, may_reuse_parent=reuses, merged=merged
    )
    changed, pointers = _changes(repo, start, commit)
    problems = [
        f"{path} points to a commit of another repository; its files are not part of it." for path in pointers
    ]
    problems += found.problems
    return WorkCommit(
        commit, found.tree, changed, tuple(problems), (*remarks, *found.remarks), found.left_behind
    )


def commit_on_ref(
    repo: Repository,
    tree: str,
    parent: str,
    ref: str,
    message: Callable[[], str],
    *,
    may_reuse_parent: bool,
    merged: str = "",
    logged: bool = False,
) -> str:
    """Return a commit with this tree on top of `parent`, or `parent` itself if it has the tree; `ref` holds it.

    If a commit was `merged` into the tree, it is the second parent. The commits that a `logged` ref held before stay reachable.
    """
    parents_tree, before, *made_before = repo.ids_of(
        f"{parent}^{{tree}}", ref, f"{ref}^{{tree}}", f"{ref}^1", f"{ref}^2"
    )
    if may_reuse_parent and tree == parents_tree:
        commit = parent
    elif made_before == [tree, parent, merged]:
        commit = before
    else:
        parents = [parent, merged] if merged else [parent]
        commit = repo.private_git.commit_tree(tree, *parents, message=message())
    if commit == before:
        repo.ref_updates.sync(ref)  # whoever moved it may have been killed before it was on disk
    else:
        repo.keep(ref, commit, logged=logged)
    return commit


def agent_head(repo: Repository, workspace: Workspace, ref: str, landed: str = "") -> str:
    """Return the commit that the workspace is on, or an empty string if it is gone, invalid, not all there, malformed or others'.

    `ref` is where the work of its task is kept. What is in `landed` may be in a person's history. Git is not asked where it is: it would read configuration that the agent
    controls.
    """
    head, start = _head_of_workspace(repo, workspace), workspace.start()
    return head if head in ("", start) or _is_own_work(repo, start, head, ref, landed) else ""


def left_out_in_commits(repo: Repository, workspace: Workspace, head: str) -> list[str]:
    """Return the paths that never land and that an agent committed by itself since the workspace was prepared."""
    start, paths = workspace.start(), workspace.left_out
    if not paths or not start or head in ("", start):
        return []
    literal = [f":(literal){path}" for path in paths]
    question = ("log", "-m", "-z", "--format=", "--name-only", "--no-renames", f"{start}..{head}", "--")
    found = set(repo.git.paths(*question, *literal))
    return [path for path in paths if any(f"{one}/".startswith(f"{path}/") for one in found)]


def _is_own_work(repo: Repository, start: str, head: str, ref: str, landed: str) -> bool:
    """Tell whether no commit from `start` to `head` is the work of another task, or a landing; those in `landed` are passed over.

    An agent can find and check out such a commit. Its own files lack what that one brought, and yet it would be merged.
    """
    own, refs = attempts_of_ref(ref), list_refs(repo, ALL_RUN_REFS, ALL_RUN_BRANCHES)
    others = [commit for name, commit in refs.items() if is_work_ref(name) and not name.startswith(own)]
    lines = [head, *(f"^{known}" for known in (start, landed) if known)]
    count = partial(repo.git.text, "rev-list", "--count", "--stdin")
    return count(stdin=as_lines(lines)) == count(stdin=as_lines([*lines, *(f"^{one}" for one in others)]))


def _head_of_workspace(repo: Repository, workspace: Workspace) -> str:
    if workspace.is_clone:
        return _head_of_clone(repo, workspace)
    head = decode_text(workspace.git_file("HEAD"))
    named = re.fullmatch(r"(?:ref: (refs/heads/\S+)|([0-9a-f]{40,64}))\n?", head)
    if not named:
        return ""
    branch, commit = named.groups()
    start = workspace.start()
    if commit and commit == start:
        return str(commit)  # where we put it, as nearly always: no need to ask git whether it exists
    found = repo.ids_of(f"{branch or commit}^{{commit}}")[0]
    return found if found and repo.is_complete(found, start) and repo.is_well_formed(found, start) else ""


def _head_of_clone(repo: Repository, workspace: Workspace) -> str:
    """Return the commit that a clone is on, after the repository has it, too; an empty string if it cannot have it."""
    commit, start = head_of_clone(workspace.git_dir), workspace.start()
    if commit in ("", start):
        return commit
    if not repo.exists(commit) and not (
        start and take_over(repo, workspace.git_dir, workspace.index.stem, commit, start)
    ):
        return ""
    return commit if repo.is_complete(commit, start) else ""


def _changes(repo: Repository, old: str, new: str) -> tuple[tuple[str, ...], list[str]]:
    """Return the changed paths, and those of them which are pointers into other repositories now."""
    fields = repo.git.fields("diff-tree", "-r", "-z", "--raw", "--no-renames", old, new)
    pairs = list(zip(fields[::2], fields[1::2], strict=False))
    return tuple(path for _, path in pairs), [path for mode, path in pairs if mode.split()[1] == _GITLINK]


def _archive_stray_head(repo: Repository, head: str, archive: str) -> str:
    if not head:
        return "The agent left its workspace on no commit of its own; the files were taken as they are."
    repo.keep(archive, head)
    return f"The agent moved to {head[:12]}, which lacks the commit it started from; that history is kept at {archive}."


def _archive_other_commits(repo: Repository, workspace: Workspace, head: str, archive: str) -> list[str]:
    """Keep what an agent left on branches of a clone, or in its stash: nobody else has it, and the clone will be removed."""
    start = workspace.start()
    if not workspace.is_clone or not start:
        return []
    name, kept = workspace.index.stem, []
    for commit in other_commits(repo, workspace.git_dir):
        if (
            commit not in (head, start)
            and take_over(repo, workspace.git_dir, name, commit, start)
            and repo.is_complete(commit, start)
        ):
            repo.keep(f"{archive}-{commit[:12]}", commit)
            kept.append(
                f"The agent left {commit[:12]} on another branch or in its stash; it is kept at {archive}-{commit[:12]}."
            )
    return kept


# -- trees ----------------------------------------------------------------------------------------------------


def tree_of_workspace(
    repo: Repository, workspace: Workspace, base: str, *, look_behind: bool = False
) -> WorkspaceTree:
    """Return the workspace's files as a tree. What `base` tracks stays tracked even where it is ignored.

    With `look_behind`, what is not in the tree is listed. If the agent is alive, a file can vanish while it is read; then
    everything is read again.
    """
    for _ in range(_TRIES - 1):
        try:
            return _tree_once(repo, workspace, base, look_behind)
        except (GitError, FileNotFoundError) as error:
            workspace.require_present()
            if isinstance(error, GitError) and error.is_about_index:
                remove(workspace.index)  # a power cut tore it; without it, every file is read
    return _tree_once(repo, workspace, base, look_behind)


def tree_of_worktree(repo: Repository, root: Path, base: str, left_out: Sequence[str]) -> WorkspaceTree:
    """Return the files of somebody else's working tree as a tree. Changes nothing but our own index.

    Files that `base` lacks are omitted if they match a pattern in `left_out`. Raises RepositoryError if a
    file in there would block git forever.
    """
    refuse_blocking_files(root)
    with temporary_index(repo.private_git, base) as index:
        found = _sort_worktree(root, changed_paths(repo.private_git, root, index, left_out=left_out))
        made = _add(repo, root, index, found, 0)
        return WorkspaceTree(made.tree, made.problems, made.remarks)


def files_left_out(root: Path, paths: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence for each of these changed paths that `tree_of_worktree` leaves out. Reads no file."""
    return tuple(_sort_worktree(root, paths).problems)


def _sort_worktree(root: Path, paths: Sequence[str]) -> _ChangedPaths:
    """Sort out the paths of somebody else's working tree: repositories in it are left out."""
    found = _sort_out(root, paths)
    found.problems[:0] = [f"{path} is a repository of its own and was left out." for path in found.nested]
    found.nested.clear()
    return found


def _tree_once(repo: Repository, workspace: Workspace, base: str, look_behind: bool) -> WorkspaceTree:
    workspace.unlock()
    left_out = workspace.left_out
    if workspace.is_persons:
        refuse_blocking_files(workspace.path)
    removed = [
        *(() if workspace.is_persons else remove_blocking_files(workspace.path)),
        *_own_names(workspace.path),
    ]
    workspace.index.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=workspace.index.parent, prefix=f"{workspace.index.name}.capture-"))
    try:
        index = folder / "index"
        # Our own index knows the files as they were checked out, so unchanged ones need not be read again.
        is_known = workspace.index.is_file()
        if is_known:
            copy_atomically(workspace.index, index)
        if base != workspace.start() or not is_known:
            repo.private_git.run("read-tree", "--reset", base, work_tree=workspace.path, index=index)
            # An agent that commits by itself may have forced its reports in, or settings for the user's next agents.
            _untrack(repo, workspace.path, index, f":(icase){STATE_DIR}")
            set_as_in(repo.private_git, workspace.path, index, workspace.start(), left_out)
        forced = _staged_though_ignored(repo, workspace, folder)
        wanted = without_paths(forced, left_out)
        removed += [f"{path} was left out: it never lands." for path in forced if path not in wanted]
        in_vain = workspace.changed_since_setup()[:_NAMED_MAX]
        removed += [f"{path} was changed, and left out: set-up makes it." for path in in_vain]
        may_change = not workspace.is_persons
        found = _add_all(repo, workspace.path, index, wanted, 0, left_out, may_change=may_change)
        behind = unkept_paths(repo.private_git, workspace.path, index) if look_behind else ()
        absent = tuple(path for path in behind if without_paths([path.rstrip("/")], left_out))
        return WorkspaceTree(found.tree, found.problems, (*removed, *found.remarks), absent)
    finally:
        remove(folder)


def _own_names(root: Path) -> list[str]:
    """Return a sentence for each file, link or folder that has Holdfast's own name and is not the folder of reports."""
    found = [path for path in root.iterdir() if is_of_state_dir(path.name)]
    strange = [path.name for path in found if path.name != STATE_DIR or not is_plain_directory(path)]
    return [f"{name} was left out: that name is for Holdfast's own folder." for name in strange]


def _add_all(
    repo: Repository,
    root: Path,
    index: Path,
    forced: list[str],
    depth: int,
    left_out: Sequence[str] = (),
    *,
    may_change: bool = True,
) -> WorkspaceTree:
    too_deep: list[str] = []
    closed = [] if may_change else closed_folders(root)
    passed_over: list[str] = []

    def unlock(folder: Path) -> None:
        """Open closed directories, leave nothing in them that would block git, and note what it cannot reach."""
        if may_change:
            open_up(folder)
            remove_blocking_files(folder)
        passed_over.extend(closed)
        too_deep.extend(too_deep_folders(folder))

    late = ""
    try:
        changed = changed_paths(repo.private_git, root, index, unlock, ignore_patterns(left_out))
    except GitError as error:
        if not error.is_late:
            raise
        changed = tracked_changes(repo.private_git, root, index)
        late = (
            "Git could not apply the rules in .gitignore in time, so new files were left out: simplify them."
        )
    # A commit may track what is left out: then it stays as that commit has it.
    wanted = [*without_paths(changed, left_out), *forced]
    hidden = [folder for folder in closed if folder in passed_over or _any_in(folder, wanted)]
    found = _sort_out(root, [path for path in wanted if not any(_any_in(one, [path]) for one in hidden)])
    found.problems.extend(f"{folder} cannot be read and was left out." for folder in hidden)
    found.problems.extend(filter(None, [late]))
    found.problems.extend(
        f"{path[:_SHOWN_CHARS]}… is a chain of folders deeper than any path may be; what is in its end was left out."
        for path in too_deep
    )
    return _add(repo, root, index, found, depth, may_change=may_change)


def _any_in(folder: str, paths: Sequence[str]) -> bool:
    """Tell whether one of these paths lies in a folder, or is it."""
    return any(f"{path}/".startswith(f"{folder}/") for path in paths)


def _add(
    repo: Repository, root: Path, index: Path, found: _ChangedPaths, depth: int, *, may_change: bool = True
) -> WorkspaceTree:
    if found.gone:
        listing = b"".join(os.fsencode(path) + b"\0" for path in found.gone)
        args = ("update-index", "--force-remove", "-z", "--stdin")
        repo.private_git.run(*args, stdin=listing, work_tree=root, index=index)
    found.problems.extend(add_files(repo.private_git, root, index, found.present))
    absorbed = [_absorb(repo, root, path, index, depth, may_change) for path in found.nested]
    tree = repo.private_git.text("write-tree", index=index)
    problems = (problem for inner in absorbed for problem in inner.problems)
    remarks = (remark for inner in absorbed for remark in inner.remarks)
    return WorkspaceTree(tree, (*found.problems, *problems), tuple(remarks))


def _absorb(
    repo: Repository, root: Path, path: str, index: Path, depth: int, may_change: bool
) -> WorkspaceTree:
    """Add the files of a nested repository to the index as plain files."""
    if depth == _NESTING_MAX:
        return WorkspaceTree("", (f"{path} is a repository nested too deeply; its files were left out.",))
    inner = index.with_name(f"{index.name}-{depth}")
    remove(inner)
    found = _add_all(repo, root / path, inner, [], depth + 1, may_change=may_change)
    _untrack(repo, root, index, path)
    repo.private_git.run("read-tree", f"--prefix={path}/", found.tree, work_tree=root, index=index)
    remark = f"{path} is a nested repository; its files were taken, its history was not."
    return WorkspaceTree(found.tree, found.problems, (remark, *found.remarks))


def _untrack(repo: Repository, root: Path, index: Path, path: str) -> None:
    """Take a path and all below it out of an index. If it is not there, nothing happens."""
    args = ("rm", "-r", "-q", "--cached", "--ignore-unmatch", "--", path)
    repo.private_git.run(*args, work_tree=root, index=index)


def _sort_out(root: Path, paths: Sequence[str]) -> _ChangedPaths:
    found = _ChangedPaths()
    for path in paths:
        full = root / path
        if path.endswith("/"):
            found.nested.append(path.rstrip("/"))
        elif is_plain_directory(full) and os.path.lexists(full / ".git"):
            found.problems.append(f"{path} is a submodule on another commit; that change was left out.")
        elif is_plain_directory(full) or not is_there(root, full):
            found.gone.append(path)
        elif problem := _unfit(full):
            found.problems.append(f"{path} {problem}")
        else:
            found.present.append(path)
    return found


def _unfit(path: Path) -> str:
    """Say why a file cannot be stored; an empty string if it can."""
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return ""
    if not stat.S_ISREG(found.st_mode):
        return "is a pipe, a socket or a device now and was left out."
    if found.st_size > FILE_BYTES_MAX:
        return f"has {found.st_size >> 20} MB and was left out: over {FILE_BYTES_MAX >> 20} MB."
    return "" if os.access(path, os.R_OK) else "cannot be read and was left out."


def _staged_though_ignored(repo: Repository, workspace: Workspace, folder: Path) -> list[str]:
    """Return the files which the agent added by force although they are ignored: it wanted them kept."""
    content = workspace.git_file("index")
    if not content or (workspace.index.is_file() and content == workspace.index.read_bytes()):
        return []
    copy = folder / "agent"
    with doing("copy the agent's index", copy):
        copy.write_bytes(content)
    question = ("ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
    try:
        result = repo.private_git.try_run(
            *question, work_tree=workspace.path, index=copy, timeout_s=LISTING_S
        )
    except GitError:
        return []  # it has rules that take too long
    # An index that the agent broke, or is writing now, is unusable.
    paths = decode_text(result.stdout).split("\0") if result.rc == 0 else []
    return [path for path in paths if path and not is_of_state_dir(path)]
