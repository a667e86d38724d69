"""Starts the agent itself: finds its program, and gives it its input, output, environment and a session of its own."""

from __future__ import annotations

import ctypes
import os
import signal

from holdfast.process.launch_order import LaunchOrder
from holdfast.process.procfs import TOKEN_VARIABLE

# An ignored signal stays ignored through exec, and Python ignores two: every agent starts with all of them at default.
_SIGNALS = tuple(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_NOT_EXECUTABLE = 8  # ENOEXEC
_FIRST_LINE_BYTES = 256
_LANDLOCK_CREATE_RULESET, _LANDLOCK_RESTRICT_SELF = 444, 446
_SCOPE_ABSTRACT_UNIX_SOCKET = 1
_PR_SET_NO_NEW_PRIVS = 38
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}
_KEYCTL_JOIN_SESSION_KEYRING = 1
_LIBC = ctypes.CDLL(None)


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
    executed, argv = program, order.argv
    if order.sandbox:
        _require_executable(program)  # the sandbox would start, and only then fail
        _leave_abstract_sockets()
        _leave_keyring()
        executed, argv = (
            order.sandbox[0],
            [*order.sandbox, *sandbox_arguments, "--", program, *order.argv[1:]],
        )
    stdin = _open_stdin(order.stdin or os.devnull)
    try:
        return os.posix_spawn(
            executed,
            argv,
            {**order.env, TOKEN_VARIABLE: order.token},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_SIGNALS,
        )
    except OSError as error:
        raise NotStartedError(_explain(executed, error)) from error
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


def _leave_abstract_sockets() -> bool:
    """Keep this process and all that it starts from sockets without a file, such as that of a desktop; tell whether it works.

    A sandbox that shares the network hides only sockets that are files. Kernels before 6.12 cannot do more.
    """
    rules = (ctypes.c_uint64 * 3)(
        0, 0, _SCOPE_ABSTRACT_UNIX_SOCKET
    )  # no rules for files, none for the network
    fd = _LIBC.syscall(_LANDLOCK_CREATE_RULESET, rules, ctypes.c_size_t(ctypes.sizeof(rules)), 0)
    if fd < 0:
        return False
    try:
        _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
        return bool(_LIBC.syscall(_LANDLOCK_RESTRICT_SELF, fd, 0) == 0)
    finally:
        os.close(fd)


def _leave_keyring() -> None:
    """Give this process and all that it starts an empty keyring of the kernel's, in the place of the user's session.

    Where the kernel or a container has no keyrings, there is nothing to leave.
    """
    if number := _KEYCTL.get(os.uname().machine):
        _LIBC.syscall(number, _KEYCTL_JOIN_SESSION_KEYRING, None)


def _require_executable(program: str) -> None:
    """Raise NotStartedError if the kernel would refuse to execute a program."""
    try:
        with open(program, "rb") as file:  # noqa: PTH123 - pathlib is too heavy here
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
