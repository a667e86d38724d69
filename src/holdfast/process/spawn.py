"""Starts the agent itself: finds its program, and gives it its input, output, environment and a session of its own."""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress

from holdfast.process.landlock import enter_domain, leave_abstract_sockets
from holdfast.process.launch_order import SHOW_VARIABLE, LaunchOrder, scratch_folder
from holdfast.process.procfs import TOKEN_VARIABLE
from holdfast.process.scratch_folder import make_scratch
from holdfast.process.seccomp import FILTER, KEYCTL, refuse_system_calls

# An ignored signal stays ignored through exec, and Python ignores two: every agent starts with all of them at default.
_SIGNALS = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_NOT_EXECUTABLE = 8  # ENOEXEC
_FIRST_LINE_BYTES = 256
_KEYCTL_JOIN_SESSION_KEYRING = 1
_LIBC = ctypes.CDLL(None)
_MESSAGE_BYTES = 4096
_HIDDEN = f"{{}}, or the interpreter that it names, is hidden by the sandbox; name it in {SHOW_VARIABLE}"


class NotStartedError(Exception):
    """The command cannot be executed; the message says why, for the person who wrote it."""


def spawn(order: LaunchOrder, output: int, sandbox_arguments: list[str]) -> int:
    """Start the agent with both outputs into `output` and return its pid. Moves this process to the agent's folder.

    A sandbox gets further arguments that only its supervisor knows.
    """
    try:
        os.chdir(order.cwd)
    except OSError as error:
        raise NotStartedError(f"workspace {order.cwd} cannot be entered: {error.strerror}") from error
    program = find_program(order.argv[0], order.env)
    env = {**order.env, TOKEN_VARIABLE: order.token}
    stdin = _open_stdin(order.stdin or os.devnull)
    try:
        if order.file_rules:
            return _start_in_domain(order, program, env, stdin, output)
        if order.sandbox:
            return _start_in_bubblewrap(order, program, env, stdin, output, sandbox_arguments)
        return _start(program, order.argv, env, stdin, output)
    except OSError as error:
        raise NotStartedError(_explain(program, error)) from error
    finally:
        os.close(stdin)


def find_program(name: str, env: dict[str, str]) -> str:
    """Return the path to execute for `name`: as written if it has a slash, else looked up in the agent's own PATH."""
    if "/" in name:
        return name
    for folder in env.get("PATH", os.defpath).split(":"):
        path = f"{folder or '.'}/{name}"
        if os.access(path, os.X_OK) and not os.path.isdir(path):  # noqa: PTH112 - pathlib is too heavy here
            return path
    raise NotStartedError(f"command not found: {name}")


def _start(program: str, argv: list[str], env: dict[str, str], stdin: int, output: int) -> int:
    return os.posix_spawn(
        program,
        argv,
        env,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_DUP2, output, 1),
            (os.POSIX_SPAWN_DUP2, output, 2),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=_SIGNALS,
    )


def _start_in_bubblewrap(
    order: LaunchOrder, program: str, env: dict[str, str], stdin: int, output: int, more_arguments: list[str]
) -> int:
    """Start the agent in a sandbox and return the pid of bubblewrap, which starts as nobody's but our own program.

    Its loader would heed variables of a plan, and a library of the agent's in the current directory. So it is started
    elsewhere, and of the environment it gets only the token, by which it is found.
    """
    _require_executable(program)  # the sandbox would start, and only then fail
    leave_abstract_sockets()
    _leave_keyring()
    os.chdir("/")
    files: list[int] = []
    try:
        arguments = ["--args", _hold_in_memory(_as_arguments(env), files)]
        if FILTER:
            arguments += "--seccomp", _hold_in_memory(FILTER, files)
        argv = [
            order.sandbox[0],
            *arguments,
            *_without_gone(order.sandbox[1:]),
            *more_arguments,
            "--",
            program,
        ]
        token = {TOKEN_VARIABLE: order.token}
        return _start(argv[0], [*argv, *order.argv[1:]], token, stdin, output)
    except OSError as error:
        raise NotStartedError(_explain(order.sandbox[0], error)) from error
    finally:
        for fd in files:
            os.close(fd)


def _without_gone(words: list[str]) -> list[str]:
    """Leave out what covers a file that is gone since the order was made, such as the socket of a program that ended.

    Bubblewrap cannot cover a file that is not there, and would end.
    """
    cover = ["--ro-bind", os.devnull]
    gone = [
        at for at in range(2, len(words)) if words[at - 2 : at] == cover and not os.path.lexists(words[at])
    ]
    return [word for at, word in enumerate(words) if not {at, at + 1, at + 2} & {*gone}]


def _as_arguments(env: dict[str, str]) -> bytes:
    """Return arguments by which bubblewrap sets these variables and no others, for a file: those of a process are public."""
    words = ["--clearenv"]
    for name, value in env.items():
        words += "--setenv", name, value
    content = "".join(f"{word}\0" for word in words)
    if content.count("\0") != len(words):
        raise NotStartedError("a variable of its environment holds a character that is no text (NUL)")
    return os.fsencode(content)


def _hold_in_memory(content: bytes, files: list[int]) -> str:
    """Add a file to `files` that is nowhere but in memory and that who is started inherits; return its descriptor as text."""
    fd = os.memfd_create("holdfast", 0)
    files.append(fd)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    os.lseek(fd, 0, os.SEEK_SET)
    return str(fd)


def _start_in_domain(order: LaunchOrder, program: str, env: dict[str, str], stdin: int, output: int) -> int:
    """Start the agent in a Landlock domain of its own and return its pid. This process stays outside, and above it.

    The domain is entered between fork and exec, for which there is no other call.
    """
    said, saying = os.pipe()  # closed by a successful exec
    try:
        make_scratch(scratch_folder(order.folder))
        pid = os.fork()
    except OSError as error:
        raise NotStartedError(f"{program} cannot be started: {error.strerror}") from error
    if pid == 0:
        try:
            os.write(saying, _become(order, program, env, stdin, output).encode())
        finally:
            os._exit(1)
    os.close(saying)
    try:
        why = os.read(said, _MESSAGE_BYTES)
    finally:
        os.close(said)
    if why:
        os.waitpid(pid, 0)
        raise NotStartedError(why.decode(errors="replace"))
    return pid


def _become(order: LaunchOrder, program: str, env: dict[str, str], stdin: int, output: int) -> str:
    """Turn this process into the agent. Returns only if that fails: why."""
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)  # it is the supervisor's
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for fd, place in ((stdin, 0), (output, 1), (output, 2)):
            os.dup2(fd, place)
        _leave_keyring()
        enter_domain(order.file_rules)
        refuse_system_calls()
    except OSError as error:
        return f"the sandbox cannot be entered: {error.strerror}"
    _make_links(order.links)
    try:
        os.execve(program, order.argv, env)  # noqa: S606 - no shell is wanted
    except PermissionError as error:
        return _HIDDEN.format(program) if os.access(program, os.X_OK) else _explain(program, error)
    except OSError as error:
        return _explain(program, error)


def _make_links(links: list[tuple[str, str]]) -> None:
    """Make links in a folder that an agent may have filled: from inside the sandbox, so none is made outside."""
    for target, name in links:
        with suppress(OSError):  # it is there from an earlier attempt, or what is around it is a link already
            os.makedirs(name.rpartition("/")[0], exist_ok=True)  # noqa: PTH103 - pathlib is too heavy here
            os.symlink(target, name)  # noqa: PTH211


def _leave_keyring() -> None:
    """Give this process and all that it starts an empty keyring of the kernel's, in the place of the user's session.

    Where the kernel or a container has no keyrings, there is nothing to leave.
    """
    if number := KEYCTL.get(os.uname().machine):
        _LIBC.syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None)


def _require_executable(program: str) -> None:
    """Raise NotStartedError if the kernel would refuse to execute a program."""
    try:
        # An agent may have put a FIFO there, for which an ordinary open waits.
        with open(os.open(program, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:  # noqa: PTH123 - pathlib is too heavy
            first = file.readline(_FIRST_LINE_BYTES)
    except PermissionError:
        first = b""  # some programs can be executed, but not read
    except OSError as error:
        raise NotStartedError(_explain(program, error)) from error
    interpreter = first[2:].split()[:1] if first.startswith(b"#!") else []
    if not os.access(program, os.X_OK):
        raise NotStartedError(_explain(program, PermissionError()))
    if interpreter and not os.access(interpreter[0], os.F_OK):
        raise NotStartedError(_explain(program, FileNotFoundError()))


def _open_stdin(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY)
    except OSError as error:
        raise NotStartedError(f"input {path} cannot be read: {error.strerror}") from error


def _explain(program: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        if os.access(program, os.F_OK):
            return f"{program} names an interpreter that is not there (see its first line)"
        return f"command not found: {program}"
    if isinstance(error, PermissionError):
        return f"{program} is not executable"
    if error.errno == _NOT_EXECUTABLE:
        return f"{program} is no program and has no #! line"
    return f"{program} cannot be started: {error.strerror}"
