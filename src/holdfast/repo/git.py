"""The only door to git: starts it with a small, fixed environment and an explicit git directory, and raises typed errors.

No other module of Holdfast starts git. What we ask of git is in the modules beside this one.

Git never goes to the network for us, but for `run_as_user`, when the user asked to push: an object that a partial clone
lacks would be fetched with a program and from a place that an agent may have written into the configuration.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypedDict, Unpack

from holdfast.errors import ExitCode, RepositoryError
from holdfast.system_errors import machine_error, way_out_of

MINIMUM_VERSION = (2, 38)
_STDERR_MAX = 2000
# No call takes this long, but git waits forever for a pipe in place of a file.
_TIMEOUT_S = 600.0
# After this long it is worth a look whether git waits for such a pipe.
_LOOK_S = 5.0
_LATE = "did not end within"
_ASK_TIMEOUT_S = 60.0
# The limit is set before git runs, and not in a fork of ours, which has threads. If it cannot be set, a lower one is in force.
_SHELL, _BOUNDED = b"/bin/sh", 'ulimit -S -d "$0" 2> /dev/null; exec "$@"'
_INSTALL_HINT = "Install git 2.38 or newer and make sure that `git --version` works."

# What git and the user's own content filters (git-lfs, git-crypt) need; no secret of the user is among it. Of git's own
# variables only those stay that name the user's configuration: others may point at another repository, index or
# identity, for instance when Holdfast is started from inside a git hook.
_KEPT_VARIABLES = frozenset((
    "PATH", "HOME", "USER", "LOGNAME", "TZ", "TMPDIR", "XDG_CONFIG_HOME", "LD_LIBRARY_PATH", "GNUPGHOME", "SSH_AUTH_SOCK",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy",
    "no_proxy", "all_proxy", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
))  # fmt: skip
# Relative folders in these mean the work tree, once git is there: what an agent put into it would be run.
_SEARCH_PATHS = {"PATH": ":", "LD_LIBRARY_PATH": "[:;]"}
# Older versions of git know only the protocols: no transport has this name, so none is allowed.
_NO_NETWORK = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}

# What a push may use besides: how the user reaches remotes, and which configuration is the user's.
_USERS_GIT_VARIABLES = frozenset((
    "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSH_VARIANT", "GIT_ASKPASS", "GIT_PROXY_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH",
    "GIT_SSL_CERT", "GIT_SSL_KEY", "GIT_SSL_NO_VERIFY", "GIT_HTTP_USER_AGENT", "GIT_TERMINAL_PROMPT",
    "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM",
))  # fmt: skip
# Not `ext`, which is a program in the place of an address.
_PUSH_PROTOCOLS = "https:http:ssh:git:file"

# Since git 2.54 a hook can be plain configuration, which core.hooksPath does not switch off.
_HOOK_EVENTS = (
    "commit-msg",
    "post-checkout",
    "post-commit",
    "post-index-change",
    "post-merge",
    "pre-commit",
    "pre-merge-commit",
    "pre-push",
    "prepare-commit-msg",
    "reference-transaction",
)

_OVERRIDES = {
    "core.hooksPath": "/dev/null",
    **{f"hook.{event}.enabled": "false" for event in _HOOK_EVENTS},
    "core.fsmonitor": "false",
    "core.untrackedCache": "keep",
    "core.safecrlf": "false",
    # Objects are synced side by side before a ref moves to them: see object_sync.py and ref_updates.py.
    "core.fsync": "reference",
    "core.fsyncMethod": "fsync",
    "core.quotePath": "false",
    "core.protectHFS": "true",  # no name that is `.git` on the machine of somebody else
    "checkout.workers": "4",
    "gc.auto": "0",
    # Git warns about grafts whenever a graft file is set, even an absent one.
    "advice.graftFileDeprecated": "false",
    "maintenance.auto": "false",
    "i18n.commitEncoding": "UTF-8",
    "log.showSignature": "false",
    "safe.bareRepository": "explicit",
    "user.useConfigOnly": "true",
}

Setting = tuple[str, str]
"""A key of git's configuration and its value."""

_HINTS = (
    (
        r"\.lock': File exists",
        "Another git command may be running. If none is, `holdfast doctor --fix` removes the lock.",
    ),
    (r"dubious ownership", "The repository belongs to another user; see `git help config`, safe.directory."),
    (r"Permission denied|insufficient permission", "Check who owns the files of the repository."),
    (
        r"unable to write file",
        "Look whether the disk has room (`df .`) and who may write there, then try again.",
    ),
    (
        r"filter '.*' failed|filter .* not available",
        "A content filter such as git-lfs is configured but does not run.",
    ),
    (
        r"from promisor remote|lazy fetching disabled",
        "The clone is partial and Holdfast fetches nothing; `git fetch --refetch --no-filter` gets what it lacks.",
    ),
    (
        r"bad object|missing blob|missing tree|corrupt|unable to read",
        "Run `git fsck` to see what the repository lacks.",
    ),
    (
        r"'refs/\S+' exists; cannot create",
        "A branch has the name that git needs for a folder of branches; rename it with `git branch -m`.",
    ),
    (
        r"waits for the pipe or device",
        "`holdfast doctor --fix` removes it; then run the command again.",
    ),
    (
        r"did not end within",
        "Look for a pipe or a dead network drive in its work tree, remove it, then run `holdfast resume`.",
    ),
    (r"unrelated histories", "The two commits have no common ancestor, so git cannot merge them."),
)

_ANY_WAY_OUT = "Fix what git names (`holdfast doctor` looks for more)"


class GitError(RepositoryError):
    """A git command failed; carries what was run, its exit status and the end of what it said."""

    exit_code = ExitCode.NEEDS_DECISION

    def __init__(self, argv: tuple[str, ...], rc: int, stderr: str) -> None:
        said = stderr.strip()[-_STDERR_MAX:]
        hint = known_way_out(said) or f"{_ANY_WAY_OUT}, then try again."
        super().__init__(f"`git {' '.join(argv)}` failed ({rc}): {said}", hint)
        self.argv = argv
        self.rc = rc
        self.stderr = said

    @property
    def is_about_index(self) -> bool:
        """Whether git could not read its index."""
        return "index file" in self.stderr

    @property
    def is_late(self) -> bool:
        """Whether git took longer than it may."""
        return _LATE in self.stderr

    @property
    def is_about_filter(self) -> bool:
        """Whether a content filter failed."""
        return re.search(r"\b(clean|smudge|external) filter\b", self.stderr) is not None


def known_way_out(said: str) -> str:
    """Return what to do about what git said; empty if that is nothing we know."""
    if hint := next((hint for pattern, hint in _HINTS if re.search(pattern, said)), ""):
        return hint
    return f"{cause}, then try again." if (cause := way_out_of(said)) else ""


@dataclass(frozen=True, slots=True)
class GitResult:
    """How a git command ended."""

    rc: int
    stdout: bytes
    stderr: str


@dataclass(frozen=True, slots=True)
class CommitIdentity:
    """The author of commits."""

    name: str = "Holdfast"
    email: str = "holdfast@localhost"


class CallOptions(TypedDict, total=False):
    """What one git command gets besides its arguments. Without a `work_tree` it sees no files.

    With `memory_bytes` it fails if it needs more; the files that it maps do not count.
    """

    stdin: bytes
    work_tree: Path
    git_dir: Path
    index: Path
    env: Mapping[str, str]
    timeout_s: float
    memory_bytes: int


class PrivateSettings(Protocol):
    """Configuration that replaces the repository's own: settings, and the directory that git takes for shared."""

    @property
    def settings(self) -> Sequence[Setting]:
        """The settings in force besides the user's and the machine's."""
        ...

    @property
    def objects(self) -> Path:
        """Where the objects are: named directly, so that git's messages name that place."""
        ...

    def restored(self) -> Path:
        """Return the directory after making sure that it is as we wrote it."""
        ...


class Git:
    """Runs git on one git directory.

    The directory is always passed explicitly and git never starts inside a workspace, so that nothing an agent wrote
    there decides which repository or configuration is used. Git gets a session of its own: Ctrl-C in the
    terminal does not stop it half-way. Each call has `timeout_s`.

    With `private`, its configuration is used instead of the repository's own.
    """

    def __init__(
        self,
        git_dir: Path,
        identity: CommitIdentity | None = None,
        timeout_s: float = _TIMEOUT_S,
        private: PrivateSettings | None = None,
    ) -> None:
        self.git_dir = git_dir
        self._timeout_s = timeout_s
        self._private = private
        self._env = _environment(identity or CommitIdentity(), private.settings if private else ())

    def run(self, *args: str, **options: Unpack[CallOptions]) -> bytes:
        """Run git and return its standard output; raise GitError if it fails."""
        result = self.try_run(*args, **options)
        if result.rc != 0:
            raise GitError(args, result.rc, result.stderr)
        return result.stdout

    def text(self, *args: str, **options: Unpack[CallOptions]) -> str:
        """Run git and return its standard output as text without surrounding white space."""
        return decode_text(self.run(*args, **options)).strip()

    def fields(self, *args: str, **options: Unpack[CallOptions]) -> list[str]:
        """Run git with `-z` and return the fields of its output, empty ones too."""
        return decode_text(self.run(*args, **options)).removesuffix("\0").split("\0")

    def paths(self, *args: str, **options: Unpack[CallOptions]) -> tuple[str, ...]:
        """Run git with `-z` and return the paths that it lists."""
        return tuple(filter(None, self.fields(*args, **options)))

    def commit_tree(
        self, tree: str, *parents: str, message: str, env: Mapping[str, str] | None = None
    ) -> str:
        """Make a commit and return its id. No ref moves."""
        links = [part for parent in parents for part in ("-p", parent)]
        text = message.encode("utf-8", "replace")
        return self.text("commit-tree", *links, tree, stdin=text, env=env or {})

    def try_run(self, *args: str, **options: Unpack[CallOptions]) -> GitResult:
        """Run git and return how it ended, with any exit status; raise GitError if it never ends."""
        with self._start(args, options) as process:
            limit = options.get("timeout_s", self._timeout_s)
            stdout, stderr = self._communicate(process, args, options.get("stdin", b""), limit)
        return GitResult(process.returncode, stdout, stderr.decode("utf-8", "replace"))

    def run_as_user(self, *args: str, settings: Sequence[Setting] = ()) -> GitResult:
        """Run git with the network, and with all that it needs to log in: the user's environment and own configuration.

        This is for pushing alone, which nobody can do without the user's keys: ssh, its agent, credential helpers, a
        terminal for a passphrase. Still no hook is run, and the repository's own configuration, which agents can write,
        is left out, but for `settings`, which the caller vouches for. Whoever calls it names the address itself.
        """
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in _USERS_GIT_VARIABLES or not name.startswith("GIT_")
        }
        private = self._private.settings if self._private else ()
        env = _configured(kept, [*private, *settings]) | {"GIT_ALLOW_PROTOCOL": _PUSH_PROTOCOLS}
        env |= self._private_variables()
        argv = ["git", f"--git-dir={self.git_dir}", *args]
        with _spawn(argv, self.git_dir, _encoded(env), keeps_terminal=True) as process:
            try:
                stdout, stderr = process.communicate(timeout=self._timeout_s)
            except subprocess.TimeoutExpired:
                process.kill()
                raise GitError(args, -signal.SIGKILL, f"it {_LATE} {self._timeout_s:g} s") from None
        return GitResult(process.returncode, stdout, stderr.decode("utf-8", "replace"))

    def read_up_to(self, max_bytes: int, *args: str, **options: Unpack[CallOptions]) -> tuple[bytes, bool]:
        """Run git and return at most `max_bytes` of its output, and whether there was more. Its input must be short."""
        with self._start(args, options) as process, _killed_after(process, self._timeout_s):
            assert process.stdin
            assert process.stdout
            assert process.stderr
            with suppress(BrokenPipeError):  # it ended at once; its status tells more
                process.stdin.write(options.get("stdin", b""))
                process.stdin.close()
            output = process.stdout.read(max_bytes + 1)
            process.stdout.close()
            stderr = process.stderr.read().decode("utf-8", "replace")
        if len(output) <= max_bytes and process.returncode != 0:
            late = f"it did not end within {self._timeout_s:g} s"
            raise GitError(args, process.returncode, late if process.returncode < 0 else stderr)
        return output[:max_bytes], len(output) > max_bytes

    def _communicate(
        self, process: subprocess.Popen[bytes], args: tuple[str, ...], stdin: bytes, timeout_s: float
    ) -> tuple[bytes, bytes]:
        """Return what git prints until it ends. It is killed if it takes too long, or waits for a pipe."""
        try:
            return process.communicate(stdin, timeout=min(_LOOK_S, timeout_s))
        except subprocess.TimeoutExpired:
            from holdfast.repo.blocking_files import blocking_git_files  # rarely needed

            pipe = next(blocking_git_files(self.git_dir), None)
            if pipe is None:
                with suppress(subprocess.TimeoutExpired):
                    return process.communicate(timeout=max(0.0, timeout_s - _LOOK_S))
            os.killpg(process.pid, signal.SIGKILL)
            late = f"it {_LATE} {timeout_s:g} s"
            said = f"it waits for the pipe or device {pipe}" if pipe else late
            raise GitError(args, -signal.SIGKILL, said) from None

    def _start(self, args: tuple[str, ...], options: CallOptions) -> subprocess.Popen[bytes]:
        directory, work_tree = options.get("git_dir", self.git_dir), options.get("work_tree")
        tree = [f"--work-tree={work_tree}"] if work_tree else []
        # With a work tree git goes there by itself. Starting outside keeps it from looking at one subdirectory only,
        # as it would do if the git directory lies inside the work tree.
        cwd = Path("/") if work_tree else directory
        env = {**options.get("env", {}), **self._private_variables()}
        if index := options.get("index"):
            env["GIT_INDEX_FILE"] = str(index)
        argv = ["git", f"--git-dir={directory}", *tree, *args]
        full_env = {**self._env, **_encoded(env)} if env else self._env
        return _spawn(argv, cwd, full_env, options.get("memory_bytes", 0))

    def _private_variables(self) -> dict[str, str]:
        """Return the variables by which git finds objects and refs beside the private configuration."""
        if self._private is None:
            return {}
        return {
            "GIT_COMMON_DIR": str(self._private.restored()),
            "GIT_OBJECT_DIRECTORY": str(self._private.objects),
        }


def decode_text(output: bytes) -> str:
    """Return what git printed as text. Bytes that are not UTF-8 (odd file names) survive a round trip."""
    return output.decode("utf-8", "surrogateescape")


def as_lines(items: Iterable[str]) -> bytes:
    """Return what git reads from standard input, one item per line."""
    return "".join(f"{item}\n" for item in items).encode("utf-8", "surrogateescape")


def git_version() -> tuple[int, ...]:
    """Return the version of the installed git, such as (2, 39, 5)."""
    said = _ask("--version").stdout.decode("utf-8", "replace")
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", said)
    if not found:
        raise RepositoryError(f"`git --version` said {said.strip()!r}, which is no version.", _INSTALL_HINT)
    return tuple(int(part) for part in found.groups() if part)


def require_git() -> None:
    """Raise RepositoryError unless a git that can merge without a checkout is installed."""
    found = git_version()
    if found < MINIMUM_VERSION:
        have, need = (".".join(map(str, version)) for version in (found, MINIMUM_VERSION))
        raise RepositoryError(f"git {have} is too old: Holdfast needs {need} or newer.", _INSTALL_HINT)


def rev_parse_from(start: Path, *questions: str) -> GitResult:
    """Ask `git rev-parse` in a directory where the user stands. Only this call lets git look for a repository."""
    return _ask("-C", str(start), "rev-parse", "--path-format=absolute", *questions)


def _ask(*args: str) -> GitResult:
    """Run git without a git directory."""
    with _spawn(["git", *args], Path("/"), _environment(CommitIdentity())) as process:
        try:
            stdout, stderr = process.communicate(timeout=_ASK_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise GitError(args, -signal.SIGKILL, f"it did not end within {_ASK_TIMEOUT_S:g} s") from None
    return GitResult(process.returncode, stdout, stderr.decode("utf-8", "replace"))


@contextmanager
def _killed_after(process: subprocess.Popen[bytes], seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _spawn(
    argv: list[str],
    cwd: Path,
    env: dict[bytes, bytes],
    memory_bytes: int = 0,
    *,
    keeps_terminal: bool = False,
) -> subprocess.Popen[bytes]:
    pipe, program = subprocess.PIPE, _program(env.get(b"PATH", b""))
    if memory_bytes and program:
        argv = ["sh", "-c", _BOUNDED, str(memory_bytes // 1024), os.fsdecode(program), *argv[1:]]
        program = _SHELL
    try:
        return subprocess.Popen(
            argv,
            executable=program,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=cwd,
            env=env,
            close_fds=True,
            start_new_session=not keeps_terminal,
        )
    except FileNotFoundError as error:
        if cwd.is_dir():
            raise RepositoryError("git is not installed, or not on the PATH.", _INSTALL_HINT) from error
        raise RepositoryError(
            f"The git directory {cwd} is gone.", "Was the repository moved or deleted?"
        ) from error
    except OSError as error:
        error.filename = None  # of the program, which is not to blame
        raise machine_error(error, "run the command again", "start git") from error


@lru_cache(maxsize=8)
def _program(path: bytes) -> bytes | None:
    """Return the path of git, so that no call searches the whole PATH; None if it is not installed.

    Does not use `shutil`: loading it takes as long as starting git, and `status` starts git only once.
    """
    places = (os.path.join(folder, b"git") for folder in path.split(b":") if folder)  # noqa: PTH118 - bytes
    return next((place for place in places if os.path.isfile(place) and os.access(place, os.X_OK)), None)  # noqa: PTH113


def _environment(identity: CommitIdentity, settings: Sequence[Setting] = ()) -> dict[bytes, bytes]:
    env = {name: value for name, value in os.environ.items() if name in _KEPT_VARIABLES}
    for name, separator in _SEARCH_PATHS.items():
        if folders := [one for one in re.split(separator, env.pop(name, "")) if one.startswith("/")]:
            env[name] = ":".join(folders)
    env |= _NO_NETWORK | {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_GRAFT_FILE": "/dev/null",
        "GIT_AUTHOR_NAME": identity.name,
        "GIT_AUTHOR_EMAIL": identity.email,
        "GIT_COMMITTER_NAME": identity.name,
        "GIT_COMMITTER_EMAIL": identity.email,
    }
    return _encoded(_configured(env, settings))


def _configured(env: Mapping[str, str], settings: Sequence[Setting]) -> dict[str, str]:
    """Return an environment with these settings of git and, above them, our own."""
    pairs = [*settings, *_OVERRIDES.items()]
    keys = {f"GIT_CONFIG_KEY_{number}": key for number, (key, _) in enumerate(pairs)}
    values = {f"GIT_CONFIG_VALUE_{number}": value for number, (_, value) in enumerate(pairs)}
    return {**env, "GIT_CONFIG_COUNT": str(len(pairs)), **keys, **values}


def _encoded(env: Mapping[str, str]) -> dict[bytes, bytes]:
    """Return variables as bytes. Done once per object: there are many, and git is started often."""
    return {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
