"""The git directory of a workspace in a sandbox: a clone of its own, which borrows the repository's objects.

Git works in it as usual, and whatever an agent does to it stays in it. Its commits are taken over as data: git is never
run on the clone. Its objects get a second name in a folder that no agent reaches, without anything else that lies beside
them (lists of other repositories, links, pipes, indexes of commits); a pack is made of those that the repository lacks, and
git checks it like one from a stranger. Only commits that build on the one that we put there are taken.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.core.ids import ALL_RUN_BRANCHES
from holdfast.errors import RepositoryError
from holdfast.repo.agent_files import opened_file, opened_folder, plain_files, read_plain, write_plain
from holdfast.repo.files import remove, write_atomically
from holdfast.repo.git import CommitIdentity, Git, GitError, as_lines
from holdfast.repo.private_git_dir import private_dir, render_config
from holdfast.repo.repository import Repository
from holdfast.system_errors import machine_error

_COMMIT_ID = re.compile(rb"[0-9a-f]{40}|[0-9a-f]{64}")
_HEAD = re.compile(rb"ref: (refs/heads/[!-~]+)|([0-9a-f]{40,64})")
_SETTINGS = re.compile(
    r"core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode)|extensions\.objectformat"
)
_EXCLUDE = "info/exclude"
_COPIED = (_EXCLUDE, "info/attributes", "shallow")
_REFS = ("refs/heads", "refs/tags", "refs/remotes")
_OBJECT_FOLDER = re.compile(r"[0-9a-f]{2}|pack")
_OBJECT_FILE = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}|pack-[0-9a-f]{40,64}\.(pack|idx)")
_FILE_BYTES = 1024 * 1024
_OBJECT_FILES_MAX = 200_000
_OBJECT_BYTES_MAX = 512 * 1024 * 1024
_LOOSE_MAX = 1000
_LOOSE_REFS_MAX = 1000
_OTHERS_MAX = 20
# A commit of some kilobytes on disk can have gigabytes of message. Large files need little: they are passed on in pieces.
_MEMORY_BYTES = 512 * 1024 * 1024
_FRUGAL = ("-c", "core.bigFileThreshold=16m", "-c", "pack.windowMemory=64m", "-c", "pack.threads=1")
_TOO_LARGE = "The commits that an agent made are too large to be taken."
_COUNT_IN_PACK = slice(8, 12)


def make_clone(repo: Repository, git_dir: Path, commit: str, ignored: Sequence[str] = ()) -> None:
    """Make a clone on `commit`, on no branch, in the place of whatever is there. It knows the user's branches and tags.

    Its git passes over what the `ignored` patterns match, besides what the user's own does.
    Nothing is synced: a torn clone harms nobody, and it is made anew before each use.
    """
    remove(git_dir)
    for folder in ("objects/info", "objects/pack", "refs/heads", "info"):
        (git_dir / folder).mkdir(parents=True)
    files = {
        "HEAD": f"{commit}\n".encode(),
        "config": _config(repo),
        "packed-refs": _packed_refs(repo),
        **{name: found for name in _COPIED if (found := read_plain(repo.common_dir, name, _FILE_BYTES))},
        **_borrowing(repo, git_dir),
    }
    if ignored:
        files[_EXCLUDE] = b"\n".join([files.get(_EXCLUDE, b""), *map(os.fsencode, ignored), b""])
    for name, content in files.items():
        write_atomically(git_dir / name, content)


def still_borrows(repo: Repository, git_dir: Path) -> bool:
    """Tell whether a clone finds the repository's objects as it did when it was made."""
    return all(_read(git_dir, name) == content for name, content in _borrowing(repo, git_dir).items())


def restore_borrowing(repo: Repository, git_dir: Path) -> list[Path]:
    """Let a clone find the repository's objects again; return what was written: nothing if an agent left no place for it."""
    with suppress(OSError):
        for name, content in _borrowing(repo, git_dir).items():
            write_plain(git_dir.parent, f"{git_dir.name}/{name}", content)
        return [git_dir / name for name in _borrowing(repo, git_dir)]
    return []


def head_of_clone(git_dir: Path) -> str:
    """Return the commit that a clone is on; an empty string if it is on none, or says so in no way that we understand."""
    found = _HEAD.fullmatch(_read(git_dir, "HEAD").strip())
    if not found:
        return ""
    branch, commit = found.groups()
    if branch and b".." not in branch:
        loose = _read(git_dir, os.fsdecode(branch)).strip()
        packed = (line.split() for line in _read(git_dir, "packed-refs").splitlines())
        commit = loose or next((line[0] for line in packed if line[1:] == [branch]), b"")
    return commit.decode() if commit and _COMMIT_ID.fullmatch(commit) else ""


def other_commits(repo: Repository, git_dir: Path) -> list[str]:
    """Return the commits of a clone's branches and stash that no branch or tag of the repository is on: twenty at most.

    A commit that was taken over before is among them: whoever did that may have been killed before anything referred to it.
    """
    branches = plain_files(git_dir.parent, f"{git_dir.name}/refs/heads", _LOOSE_REFS_MAX)
    loose = [read_plain(git_dir.parent, name, _FILE_BYTES).strip() for name in branches]
    loose.append(_read(git_dir, "refs/stash").strip())
    named = {*loose, *_ids_in(_read(git_dir, "packed-refs"))}
    found = {name.decode() for name in named if _COMMIT_ID.fullmatch(name)}
    users = {name.decode() for name in _ids_in(_packed_refs(repo))} if found else set()
    return sorted(found - users)[:_OTHERS_MAX]


def _ids_in(packed_refs: bytes) -> Iterator[bytes]:
    return (line.split()[0] for line in packed_refs.splitlines() if line.strip())


def take_over(repo: Repository, git_dir: Path, name: str, commit: str, start: str) -> bool:
    """Bring a commit of a clone and all that it has beyond `start` into the repository; tell whether that could be done.

    Nothing refers to it yet. If it is there already, nothing happens. `name` is that of the folder of second names. The
    agent may be alive.
    """
    git = repo.private_git
    try:
        with _second_names(repo, git_dir, name) as objects:
            env = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(objects)}
            question = ("merge-base", "--is-ancestor", start, commit)
            if git.try_run(*question, env=env, memory_bytes=_MEMORY_BYTES).rc != 0:
                return False
            pack = _pack(git, as_lines([commit, f"^{start}"]), env)
        is_small = int.from_bytes(pack[_COUNT_IN_PACK]) <= _LOOSE_MAX
        command = ("unpack-objects", "-q") if is_small else ("index-pack", "--stdin")
        git.run(*_FRUGAL, *command, "--strict", stdin=pack, memory_bytes=_MEMORY_BYTES)
    except (GitError, RepositoryError):
        return False
    return True


def _pack(git: Git, revs: bytes, env: Mapping[str, str]) -> bytes:
    """Return a pack of what a clone has beyond the start. Raises RepositoryError if it is too large."""
    command = (*_FRUGAL, "pack-objects", "--revs", "--stdout", "-q")
    pack, is_more = git.read_up_to(
        _OBJECT_BYTES_MAX, *command, stdin=revs, env=env, memory_bytes=_MEMORY_BYTES
    )
    if is_more:
        raise RepositoryError(_TOO_LARGE)
    return pack


def _config(repo: Repository) -> bytes:
    """Return the settings of a clone. The user's own file, in the home, cannot be seen in there."""
    in_force = repo.config.in_force
    who = repo.config.identity() or CommitIdentity()
    own = {
        "core.repositoryformatversion": "1",
        "core.bare": "false",
        "core.logallrefupdates": "true",
        "user.name": who.name,
        "user.email": who.email,
    }
    known = {key: value for key, value in in_force.items() if _SETTINGS.fullmatch(key)}
    return render_config(list({**known, **own}.items()))


def _packed_refs(repo: Repository) -> bytes:
    lines = repo.git.run("for-each-ref", "--format=%(objectname) %(refname)", *_REFS).splitlines(
        keepends=True
    )
    return b"".join(
        line for line in lines if not line.partition(b" ")[2].startswith(ALL_RUN_BRANCHES.encode())
    )


def _borrowing(repo: Repository, git_dir: Path) -> dict[str, bytes]:
    """Return the file that names the repository's objects, as seen from the clone's: somebody may move both.

    It also has the whole path: aider reads the file by itself and would look for the other one in its own folder. A path is
    quoted only if it must be: `git clone .` copies the lines.
    """
    objects = repo.common_dir / "objects"
    paths = (Path(os.path.relpath(objects, git_dir / "objects")), objects)
    lines = (_quoted(path) if "\n" in str(path) else str(path) for path in paths)
    return {"objects/info/alternates": b"".join(os.fsencode(line) + b"\n" for line in lines)}


def _quoted(path: Path) -> str:
    """Return a path as git reads it in a list of paths, whatever characters it has."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


@contextmanager
def _second_names(repo: Repository, git_dir: Path, name: str) -> Iterator[Path]:
    """Yield a folder in which a clone's own objects have second names. A killed runner's is removed with its leftovers."""
    staging = private_dir(repo.common_dir) / "staging"
    staging.mkdir(parents=True, exist_ok=True)
    folder = staging / f"{name}.{os.urandom(4).hex()}"
    folder.mkdir()
    try:
        _link_objects(git_dir, folder)
        yield folder
    finally:
        remove(folder)


def _link_objects(git_dir: Path, folder: Path) -> None:
    """Give every object file of a clone a second name. Raises RepositoryError if there is too much of it, or no way to it.

    Whatever a live agent swaps in the meantime, nothing outside the clone gets a name.
    """
    try:
        _link_folders(git_dir, folder)
    except OSError as error:
        # An agent can close its folders, or put links and files in their place. It does not fill the disk for long.
        if machine_error(error, "`holdfast resume`").is_lasting:
            raise
        raise RepositoryError("The commits that an agent made cannot be read.") from error


def _link_folders(git_dir: Path, folder: Path) -> None:
    files = size = 0
    with opened_folder(git_dir.parent, git_dir.name, "objects") as objects:
        parts = [part for part in os.listdir(objects) if _OBJECT_FOLDER.fullmatch(part)]  # noqa: PTH208 - of a descriptor
    for part in parts:
        (folder / part).mkdir()
        with (
            suppress(NotADirectoryError),
            opened_folder(git_dir.parent, git_dir.name, "objects", part) as inner,
        ):
            for name in filter(_OBJECT_FILE.fullmatch, os.listdir(inner)):  # noqa: PTH208 - of a descriptor
                size += _second_name(inner, name, folder / part / name)
                files += 1
                if files > _OBJECT_FILES_MAX or size > _OBJECT_BYTES_MAX:
                    raise RepositoryError(_TOO_LARGE)


def _second_name(within: int, name: str, target: Path) -> int:
    """Link a file, or copy it where that is not possible; return its size. What is no plain file gets no second name."""
    try:
        os.link(name, target, src_dir_fd=within, follow_symlinks=False)
    except OSError:
        _copy(within, name, target)
    found = target.lstat()
    if not stat.S_ISREG(found.st_mode):
        target.unlink()
        return 0
    return found.st_size


def _copy(within: int, name: str, target: Path) -> None:
    with (
        opened_file(within, name) as fd,
        os.fdopen(fd, "rb", closefd=False) as source,
        target.open("xb") as copy,
    ):
        if os.fstat(fd).st_size > _OBJECT_BYTES_MAX:
            raise RepositoryError(_TOO_LARGE)
        shutil.copyfileobj(source, copy)


def _read(git_dir: Path, name: str) -> bytes:
    """Return the content of a small file of a clone; nothing if it is anything else."""
    return read_plain(git_dir.parent, f"{git_dir.name}/{name}", _FILE_BYTES)
