"""The process above one agent: starts it, keeps its output, bounds it, and leaves no process of it alive.

It lives on when Holdfast dies. It is a subreaper, so every orphan below it becomes its child: "no child is
left" means that the whole tree is gone, even if parts of it detached themselves. Limits are counted on the
monotonic clock, which has no jumps and does not charge an agent for the time that the machine was suspended.

It runs in a fork of the fork server: it must import nothing beyond what the fork server loaded, and no code of the runner.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from holdfast import locks
from holdfast.disk_sync import sync_filesystem
from holdfast.process import cgroups, procfs
from holdfast.process.launch_order import (
    SHOW_VARIABLE,
    STARTED,
    SUPERVISOR_NAME,
    TAKEN,
    LaunchOrder,
    exit_file,
    file_identity,
    log_file,
    make_folder,
    read_until,
    record_file,
    scratch_folder,
    signed,
    to_json,
    write_whole,
)
from holdfast.process.network_proxy import LaunchProxy
from holdfast.process.output_log import BoundedLog, remove_output
from holdfast.process.scratch_folder import remove_scratch
from holdfast.process.spawn import NotStartedError, spawn

_PR_SET_DUMPABLE = 4
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_PRCTL = ctypes.CDLL(None).prctl
_CHUNK = 16384
_NEVER = float("inf")
_KILL_AGAIN_S = 0.05
_KILL_AGAIN_MAX_S = 1.0
_NAP_MAX_S = 3600.0
_LEASED_NAP_MAX_S = 1.0
"""How long a supervisor sleeps whose launch may go on only for a while: the clock of the boot also runs in a suspended machine."""
_LAPSED = "nobody renewed its lease in time: its host lost touch with the fleet"
_PIPE_BYTES_MAX = 1024 * 1024
_NOT_STARTED_CODE = 127
_NOT_FOUND_CODES = (126, 127)
"""How shells tell that a program is not there or cannot be executed."""
_HIDDEN = (
    "a program was not found: its name is mistyped, it is not installed, git ignores it, "
    f"or the sandbox hides it ({SHOW_VARIABLE} shows more)"
)

# The values of core's ExitReason, which would bring the whole core into every supervisor. The fleet decodes them
# strictly, and its contract suite meets each of them.
_EXITED = "exited"
_TIMEOUT = "timeout"
_STALLED = "stalled"
_CANCELLED = "cancelled"
_NOT_STARTED = "not_started"
_STOP = int(signal.SIGTERM)
_SHELL_SIGNAL = 128
_DEADLY = frozenset(
    (
        signal.SIGILL,
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGKILL,
        signal.SIGSEGV,
        signal.SIGTERM,
    )
)
"""The signals that end agents. Other numbers above 128 are more likely to be exit statuses of their own."""


def main(link: int, boot: str) -> None:
    """Take the order that comes through `link`, answer it, and supervise until nothing is left.

    If the launch has or had a supervisor, nothing is started: the same key is never two processes.
    """
    order = _read_order(link)
    if order is None:
        return
    os.setsid()
    _PRCTL(_PR_SET_NAME, SUPERVISOR_NAME.encode(), 0, 0, 0)
    # No process of the user, such as the agent, may read the secrets in its memory.
    _PRCTL(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    named = order.folder
    try:
        make_folder(named)
        order.folder, order.work = _held_folder(named), os.path.relpath(order.cwd, named)
        supervision = Supervision(order)
        answer = _take(order, boot, link)
    except OSError as error:
        _answer(link, f"{named}: {error.strerror}".encode())
        return
    _answer(link, answer)
    if answer == STARTED:
        supervision.run()


def _answer(link: int, words: bytes) -> None:
    with suppress(BrokenPipeError):  # a runner that died meanwhile finds the launch when it comes back
        os.write(link, words)
    os.close(link)


def _read_order(link: int) -> LaunchOrder | None:
    data = b""
    while chunk := os.read(link, _CHUNK):
        data += chunk
    try:
        return LaunchOrder.decode(data)
    except EOFError:
        return None  # the sender died while it wrote


def _held_folder(folder: str) -> str:
    """Open the folder of a launch for as long as this process lives; return a path that leads there wherever it is moved.

    Somebody may rename the repository, or a folder above it, while the agent works.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    return f"/proc/self/fd/{fd}"


def _take(order: LaunchOrder, boot: str, link: int) -> bytes:
    """Make the launch ours: hold its lock until this process ends, and fill the locked file.

    A file that is filled already is the mark of a supervisor that died. One that is empty started nothing yet.
    An order whose sender is gone is dropped: the next runner may be preparing the workspace at this moment.
    """
    held = locks.hold_record_lock(record_file(order.folder))
    if held is None or os.fstat(held).st_size or is_abandoned(link):
        return TAKEN
    remove_output(log_file(order.folder))
    which = file_identity(os.fstat(held))
    about: dict[str, str | float] = {
        "pid": os.getpid(),
        "boot": boot,
        "token": order.token,
        "cwd": order.cwd,
        "file": which,
        "began": time.time(),
    }
    os.write(held, to_json(about))
    return STARTED


def is_abandoned(link: int) -> bool:
    """Tell whether the sender of the order has died: it keeps its end open until it has an answer."""
    poll = select.poll()
    poll.register(link, 0)
    return bool(poll.poll(0))


def install_signal_handlers(on_child: Callable[..., None]) -> None:
    """Let SIGTERM and SIGCHLD wake the process, and ignore other requests to end. Idempotent.

    The fork server does it once; every supervisor gets the handlers with the fork.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGTERM, _wake)
    signal.signal(signal.SIGCHLD, on_child)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


def _wake(*_: object) -> None:
    """Do nothing: the kernel writes to the signal pipe only for signals that have a handler."""


class SignalPipe:
    """Signals as bytes to read, so that one poll waits for output, children and orders to stop alike."""

    def __init__(self) -> None:
        self.fd, writing_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(writing_end, warn_on_full_buffer=False)

    def numbers(self) -> bytes:
        """Return the numbers of the signals that came; call it when the descriptor is readable."""
        return os.read(self.fd, 4096)


class Supervision:
    """One agent's life: running, then asked to stop, then killed, until no process of its tree is left."""

    def __init__(self, order: LaunchOrder) -> None:
        self.order = order
        self.log = BoundedLog(log_file(order.folder), order.log_bytes_max, order.secrets)
        self.began = self.heard = time.monotonic()
        self.proxy: LaunchProxy | None = None
        self.agent = 0
        self.code = 0
        self.reason = ""
        self.strays = 0
        self.cancelled = self.lapsed = False
        self.until = order.until
        self.kill_at = _NEVER
        self.patience = _KILL_AGAIN_S
        self.signals = SignalPipe()
        self.poll = select.poll()
        self.poll.register(self.signals.fd, select.POLLIN)

    def run(self) -> None:
        """Start the agent, wait until its whole tree is gone, and leave the exit record."""
        self.pipe, output = os.pipe()
        os.set_blocking(self.pipe, False)
        if self.order.hosts is not None:
            self.proxy = LaunchProxy(self.order.hosts, output)
        _PRCTL(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        cgroups.join(self.order.groups)
        try:
            self.agent = spawn(self.order, output, self.proxy.arguments if self.proxy else [])
        except NotStartedError as error:
            self._leave(_NOT_STARTED, _NOT_STARTED_CODE, str(error))
            return
        finally:
            cgroups.leave(self.order.groups)
        os.close(output)
        if self.proxy is not None:
            self.proxy.close()
        os.chdir("/")  # a supervisor must not prevent the removal of a workspace
        self.poll.register(self.pipe, select.POLLIN)
        while self._reap():
            self._enforce(time.monotonic())
            self._listen()
        self._drain()
        self._leave(self.reason, self.code, self._explanation())

    def _explanation(self) -> str:
        """Return what the exit code alone does not tell."""
        if self.lapsed:
            return _LAPSED
        if self.reason == _STALLED:
            return f"silent for {self.order.stall_s:g} s (limits.stall)"
        if self.reason != _EXITED or not self.code:
            return ""
        if bounds := cgroups.reached(self.order.groups):
            names = " and ".join(f"`limits: {name}`" for name in bounds)
            return f"ended with {self.code} after it reached the bound that {names} of the plan sets"
        hides = self.order.sandbox or self.order.file_rules
        return _HIDDEN if hides and self.code in _NOT_FOUND_CODES else ""

    def _reap(self) -> bool:
        """Collect every child that ended; return whether any is left."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.agent:
                    self.code = _exit_code(ended[1], sandboxed=bool(self.order.sandbox))
                    self.reason = self.reason or _EXITED
        except ChildProcessError:
            return False
        return True

    def _enforce(self, now: float) -> None:
        """Begin or escalate the end of the tree when it is due."""
        if now >= self.kill_at:
            self._signal_tree(signal.SIGKILL)
            self.patience = min(2 * self.patience, _KILL_AGAIN_MAX_S)
            self.kill_at = now + self.patience
        elif self.kill_at == _NEVER and (reason := self._reason_to_stop(now)):
            left = self._signal_tree(self.order.stop_signal)
            self.strays = left if reason == _EXITED else 0
            self.reason = reason
            self.kill_at = now if self.lapsed else now + self.order.grace_s  # somebody else may begin soon

    def _reason_to_stop(self, now: float) -> str:
        if self.reason:
            return self.reason
        if self.cancelled or self._is_lapsed():
            return _CANCELLED
        if now >= self.began + self.order.timeout_s:
            return _TIMEOUT
        return _STALLED if now >= self._stall_at() else ""

    def _is_lapsed(self) -> bool:
        """Tell whether the launch may not go on. Whoever renews it does so long before."""
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        if self.until and now >= self.until:
            self.until = max(self.until, read_until(self.order.folder))
            self.lapsed = now >= self.until
        return self.lapsed

    def _nap_max(self) -> float:
        """Return how long to sleep at most. A lease has a clock of its own, and the time up to its end is looked at again."""
        left = self.until - time.clock_gettime(time.CLOCK_BOOTTIME)
        return min(max(0.0, left), _LEASED_NAP_MAX_S) if self.until and not self.lapsed else _NAP_MAX_S

    def _stall_at(self) -> float:
        return self.heard + self.order.stall_s if self.order.stall_s > 0 else _NEVER

    def _signal_tree(self, number: int) -> int:
        """Signal every process below this one and return how many there were."""
        tree = procfs.descendants(os.getpid())
        asked = [entry for entry in tree.values() if number == signal.SIGKILL or not self._is_sandbox(entry)]
        return sum(_signal(entry, tree, number) for entry in asked)

    def _is_sandbox(self, entry: procfs.ProcessStat) -> bool:
        """Tell whether a process is the sandbox, not one in it. Its end would kill all in it, without any grace.

        Bubblewrap is two processes: our child, and the first process inside, which becomes our child when the agent has ended.
        All others inside are below that one.
        """
        return bool(self.order.sandbox) and entry.ppid in (os.getpid(), self.agent)

    def _listen(self) -> None:
        """Sleep until there is output, a signal, or a limit is reached."""
        limit = min(self.began + self.order.timeout_s, self._stall_at())
        due = limit if self.kill_at == _NEVER else self.kill_at
        nap = min(max(0.0, due - time.monotonic()), self._nap_max())
        for fd, _ in self.poll.poll(nap * 1000):
            if fd == self.signals.fd:
                self.cancelled |= _STOP in self.signals.numbers()
            elif self.log.pump(self.pipe):
                self.heard = time.monotonic()
            else:
                self.poll.unregister(self.pipe)  # every writer closed it

    def _drain(self) -> None:
        """Keep what the dead tree left in the pipe. Bounded, because another process may have been given the other end."""
        end = self.log.total + _PIPE_BYTES_MAX
        while self.log.total < end and self.log.pump(self.pipe):
            continue
        self.log.finish()

    def _leave(self, reason: str, code: int, error: str = "") -> None:
        exit_record: dict[str, str | float] = {
            "token": self.order.token,
            "reason": reason,
            "code": code,
            "error": error,
            "duration_s": round(time.monotonic() - self.began, 6),
            "output_bytes": self.log.total,
            "output_digest": self.log.digest.hexdigest(),
            "strays": self.strays,
            **(self.proxy.requests() if self.proxy else {}),
        }
        cgroups.remove(self.order.groups)
        if self.order.file_rules:
            remove_scratch(scratch_folder(self.order.folder))
        # A live runner takes in the work at once and makes it durable itself. If there is none, hours may pass.
        if is_durable := not self._is_awaited() and self._sync_work():
            exit_record["synced"] = True
        content = signed(exit_record, self.order.secret, self.order.signing_key)
        write_whole(exit_file(self.order.folder), content, durably=is_durable)

    def _is_awaited(self) -> bool:
        """Tell whether a runner is there that collects what the agent left."""
        try:
            fd = os.open(f"{self.order.folder}/{self.order.lease}", os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            return locks.is_locked(fd)
        finally:
            os.close(fd)

    def _sync_work(self) -> bool:
        """Make what the agent left survive a power cut, also what it committed; tell whether that is certain."""
        try:
            work = f"{self.order.folder}/{self.order.work}"
            return sync_filesystem(work) and sync_filesystem(self.order.folder)
        except OSError:
            return False


def _exit_code(status: int, *, sandboxed: bool) -> int:
    """Return an exit status, or a signal as a negative number, which a sandbox tells as shells do: 128 and the signal."""
    code = os.waitstatus_to_exitcode(status)
    return _SHELL_SIGNAL - code if sandboxed and code - _SHELL_SIGNAL in _DEADLY else code


def _signal(entry: procfs.ProcessStat, tree: dict[int, procfs.ProcessStat], number: int) -> bool:
    """Signal one process if it is still the one that was found in the tree; return whether it was."""
    fd = procfs.open_pidfd(entry.pid)
    if fd is None:
        return False
    try:
        now = procfs.stat(entry.pid)
        ours = (
            now is not None and now.started == entry.started and (now.ppid in tree or now.ppid == os.getpid())
        )
        if ours:
            signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True  # it runs as another user (sudo): still ours, and waited for
    finally:
        os.close(fd)
    return ours
