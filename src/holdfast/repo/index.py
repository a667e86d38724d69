"""Private git indexes: compare a work tree with one, and make a temporary one.

An index says which file has which content. The user's and the agents' indexes are only read here, never written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from holdfast.paths import STATE_DIR, is_of_state_dir
from holdfast.repo.files import link_atomically
from holdfast.repo.git import Git, GitError, decode_text

# A pattern of a few dozen stars keeps git busy for years; no listing of files takes this long.
LISTING_S = 120.0
_PASSED_OVER = "could not open directory"  # git's message; it continues without that folder


def changed_paths(
    private_git: Git,
    work_tree: Path,
    index: Path,
    unlock: Callable[[Path], None] | None = None,
    left_out: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the modified, deleted and untracked paths, without ignored ones.

    A nested repository appears as one path that ends in a slash. Holdfast's own folder never appears.
    Unreadable directories are skipped unless `unlock` can open them. Untracked paths that match an ignore
    pattern in `left_out` are omitted.
    """
    for part in index.parent.glob("sharedindex.*"):
        # Git looks for the second half of a split index in its git directory.
        link_atomically(private_git.git_dir / part.name, part)
    patterns = [f"--exclude={pattern}" for pattern in left_out]
    question = ("ls-files", "-z", "-o", "-m", "--exclude-standard", *patterns)
    result = private_git.try_run(*question, work_tree=work_tree, index=index, timeout_s=LISTING_S)
    if unlock and _PASSED_OVER in result.stderr:
        unlock(work_tree)
        result = private_git.try_run(*question, work_tree=work_tree, index=index)
    if result.rc != 0 and GitError(question, result.rc, result.stderr).is_about_filter:
        # Then files count as changed that are not: who adds them to an index notices.
        question = (*without_filters(private_git), *question)
        result = private_git.try_run(*question, work_tree=work_tree, index=index)
    if result.rc != 0:
        raise GitError(question, result.rc, result.stderr)
    # A deleted file can be listed twice; a dictionary keeps the order.
    paths = dict.fromkeys(decode_text(result.stdout).split("\0"))
    return tuple(path for path in paths if path and not is_of_state_dir(path))


def unkept_paths(private_git: Git, work_tree: Path, index: Path) -> tuple[str, ...]:
    """Return what is in a work tree and not in an index, ignored or not; a folder of such files, or an empty one, once.

    No ignore rule is applied. Holdfast's own folder never appears.
    """
    question = ("ls-files", "-z", "-o", "--directory")
    found = private_git.paths(*question, work_tree=work_tree, index=index)
    return tuple(path for path in found if path != f"{STATE_DIR}/")


def tracked_changes(private_git: Git, work_tree: Path, index: Path) -> tuple[str, ...]:
    """Return the modified and deleted paths alone. No ignore rule is applied."""
    found = private_git.paths("ls-files", "-z", "-m", work_tree=work_tree, index=index)
    return tuple(dict.fromkeys(found))


def set_as_in(private_git: Git, work_tree: Path, index: Path, commit: str, paths: Sequence[str]) -> None:
    """Make an index hold at these paths, and below them, what a commit has there; nothing if there is no commit."""
    if not paths:
        return
    literal = [f":(literal){path}" for path in paths]
    drop = ("rm", "-r", "-q", "--cached", "--ignore-unmatch", "--", *literal)
    private_git.run(*drop, work_tree=work_tree, index=index)
    if commit and (found := private_git.run("ls-tree", "-r", "-z", commit, "--", *literal)):
        private_git.run("update-index", "--replace", "-z", "--index-info", stdin=found, index=index)


def without_filters(private_git: Git) -> list[str]:
    """Return the options with which git reads and writes files as they are stored, without any content filter."""
    found = private_git.try_run("config", "-z", "--name-only", "--get-regexp", r"^filter\.").stdout
    names = dict.fromkeys(key.rpartition(".")[0] for key in decode_text(found).split("\0") if key)
    off = ("clean=", "smudge=", "process=", "required=false")
    return [part for name in names for switch in off for part in ("-c", f"{name}.{switch}")]


def gitlinks(private_git: Git, index: Path) -> list[str]:
    """Return the paths at which an index has a submodule."""
    # The mode of a submodule stands in the index as these four bytes. Most repositories have none, and looking for
    # the bytes is far cheaper than listing every file.
    if not index.is_file() or b"\0\0\xe0\0" not in index.read_bytes():
        return []
    entries = (entry.partition("\t") for entry in private_git.paths("ls-files", "-z", "--stage", index=index))
    return [path for facts, _, path in entries if facts.startswith("160000 ")]


@contextmanager
def temporary_index(private_git: Git, commit: str = "") -> Iterator[Path]:
    """Lend an index outside the repository. It holds the files of `commit`; without one there is no file."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder, "index")
        if commit:
            private_git.run("read-tree", "--reset", commit, index=index)
        yield index
