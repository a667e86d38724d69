"""Requests of other processes to a live runner: a folder of files, and a pipe that wakes the runner.

A request counts only while its sender keeps its file locked: so its author is known, and an agent, which can write
into the folder as well, cannot decide anything. It is removed only after its event is durable, and that tells the sender.
The event has the id of the request: so it counts once, also if its file outlives the runner.

The pipe is a FIFO. It only saves time: a timer finds everything that nobody woke us for, so a file system without
FIFOs will do.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, Self

import msgspec

from holdfast.core import events as ev
from holdfast.core.event_codec import Recorded
from holdfast.core.plan import Plan
from holdfast.core.status import Gate
from holdfast.errors import ExitCode, HoldfastError
from holdfast.journal.lease import Holder, holder
from holdfast.locks import hold_record_lock, record_lock_holder
from holdfast.paths import RunDir
from holdfast.repo.files import draft_prefix
from holdfast.report_channel import wake
from holdfast.system_errors import doing

_LOOK_S = 2.0
"""How often to look for requests and reports without a wake-up: a sandbox may keep an agent from writing to the pipe."""
_LOOK_WITHOUT_PIPE_S = 0.25
"""How often if nobody can wake us."""
_ANSWER_S = 20.0
_POLL_S = 0.02


class RequestError(HoldfastError):
    """A live runner did not do as it was asked."""

    exit_code = ExitCode.NEEDS_DECISION


class NotSavedError(HoldfastError):
    """Unfinished work could not be saved. It is in its workspace, and the earlier snapshots are valid."""

    exit_code = ExitCode.NEEDS_DECISION

    @classmethod
    def of(cls, why: str) -> Self:
        """Return the error for the tasks and reasons that a runner named."""
        return cls(
            why, "the files are in the workspaces, the earlier snapshots stay: remove the cause, save again"
        )


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request: a decision of a person, or to save all work now.

    `now` belongs to a pause: it does not wait for the agents. `accept` waives a gate. `plan` and `restart` belong to `amend`,
    `hint`, `agent` and `clean` to `retry`.
    """

    action: Literal[
        "stop",
        "pause",
        "retry",
        "skip",
        "accept",
        "save",
        "mirror",
        "unmirror",
        "answer",
        "take",
        "give",
        "tick",
        "untick",
        "amend",
    ]
    task: str = ""
    stage: str = ""
    gate: Gate = "entry"
    now: bool = False
    system: str = ""
    folder: str = ""
    words: str = ""
    """The answer to a question, or what a person did in a task."""
    back: bool = False
    plan: Plan | None = None
    restart: bool = False
    hint: str = ""
    agent: str = ""
    clean: bool = False


Decision = (
    ev.StopRequested
    | ev.PauseRequested
    | ev.TaskRetried
    | ev.TaskSkipped
    | ev.StageGateWaived
    | ev.MirrorKept
    | ev.MirrorEnded
    | ev.QuestionAnswered
    | ev.TaskTaken
    | ev.TaskGiven
    | ev.TickingStarted
    | ev.TickingEnded
    | ev.PlanAmended
)
"""What a request may become."""

_EVENTS: dict[str, Callable[[Request], Decision]] = {
    "stop": lambda _: ev.StopRequested(),
    "pause": lambda request: ev.PauseRequested(now=request.now),
    "retry": lambda request: ev.TaskRetried(
        task=request.task, hint=request.hint, agent=request.agent, clean=request.clean
    ),
    "skip": lambda request: ev.TaskSkipped(task=request.task),
    "accept": lambda request: ev.StageGateWaived(stage=request.stage, gate=request.gate),
    "mirror": lambda request: ev.MirrorKept(system=request.system, folder=request.folder),
    "unmirror": lambda request: ev.MirrorEnded(system=request.system),
    "answer": lambda request: ev.QuestionAnswered(task=request.task, answer=request.words),
    "take": lambda request: ev.TaskTaken(task=request.task),
    "give": lambda request: ev.TaskGiven(task=request.task, back=request.back, message=request.words),
    "tick": lambda _: ev.TickingStarted(),
    "untick": lambda _: ev.TickingEnded(),
}
"""The event of each decision. `save` has none: the loop has the work saved instead. That of `amend` depends on the state."""


def event_for(request: Request, name: str) -> Decision:
    """Return the event that the request of that id becomes. Raises KeyError for one that is no decision."""
    return msgspec.structs.replace(_EVENTS[request.action](request), request=name)


class SentRequest:
    """A request and the lock by which its sender stands behind it. It counts until this is closed, and no longer.

    So a request always has an author who can be asked for: agents can write into the folder, too, and decide nothing.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def is_answered(self) -> bool:
        """Whether a runner recorded or refused it."""
        return not self.path.exists()

    def refusal(self) -> str:
        """Return why an answered request was refused; an empty string if it was not."""
        try:
            return _refusal(self.path).read_text("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def close(self) -> None:
        """Withdraw the request if nobody answered it, and remove the answer. Idempotent."""
        if self._fd >= 0:
            self.path.unlink(missing_ok=True)
            _refusal(self.path).unlink(missing_ok=True)
            _OWN.discard(self.path)
            os.close(self._fd)
            self._fd = -1


_OWN: set[Path] = set()
"""The requests of this very process to its own runner. The kernel tells a process nothing of its own locks."""


def send_request(directory: RunDir, request: Request) -> SentRequest:
    """Spool a request and wake the runner. The caller keeps it open until it is answered."""
    path = directory.requests / f"{secrets.token_hex(8)}.json"
    draft = path.with_name(f"{draft_prefix()}{path.stem}")
    with doing("leave a request for the runner"):
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = hold_record_lock(str(draft))
        assert fd is not None, "a name that nobody else has"
        try:
            os.write(fd, msgspec.json.encode(request))
            _OWN.add(path)
            draft.rename(path)
        except OSError:
            draft.unlink(missing_ok=True)
            _OWN.discard(path)
            os.close(fd)
            raise
    wake(str(directory.wake_pipe))
    return SentRequest(path, fd)


def ask_runner(directory: RunDir, request: Request, seconds: float = _ANSWER_S) -> None:
    """Have the live runner of a run record a decision, and return when it is durable.

    Raises RequestError if it is refused, or if no runner answers in this time.
    """
    deadline = time.monotonic() + seconds
    with send_request(directory, request) as sent:
        while not sent.is_answered:
            if (held := holder(directory.lease)) is None:
                raise RequestError("the runner ended before it could be asked", "give the command again")
            if time.monotonic() > deadline:
                raise RequestError(f"the runner ({held}) does not answer", way_out_of_silence(held))
            time.sleep(_POLL_S)
        if why := sent.refusal():
            raise RequestError(f"the runner refused: {why}")


def way_out_of_silence(held: Holder) -> str:
    """Return what to do about a runner that does not answer, which a live one does at once."""
    return f"if it was suspended, `kill -CONT {held.pid}` wakes it; `kill -9 {held.pid}`, then `holdfast resume`, continues without it"


def author_of(path: Path) -> int | None:
    """Return the process that stands behind a request; None if it has ended."""
    return os.getpid() if path in _OWN else record_lock_holder(str(path))


def remove_void_requests(directory: RunDir, recorded: Iterable[Recorded]) -> None:
    """Remove the requests that nobody stands behind any more, and those that an earlier runner recorded."""
    pending = list(pending_requests(directory))
    answered = (
        {record.event.request for record in recorded if isinstance(record.event, Decision)} if pending else ()
    )
    remove_requests(path for path, _ in pending if path.stem in answered or author_of(path) is None)
    remove_requests(path for path in directory.requests.glob("*.refused") if author_of(path) is None)


def remove_requests(paths: Iterable[Path]) -> None:
    """Remove requests: that is the answer that they are done. Idempotent."""
    with doing("remove requests that are done"):
        for path in paths:
            path.unlink(missing_ok=True)


def refuse_request(path: Path, why: str) -> None:
    """Answer a request that is not met. Needs no space on the disk, which may be full."""
    with doing("answer a request"):
        with path.open("r+b") as file:
            file.write(why.encode("utf-8", "replace"))
            file.truncate()
        path.rename(_refusal(path))


def _refusal(path: Path) -> Path:
    return path.with_suffix(".refused")


def _open_pipe(path: Path) -> int | None:
    """Return a descriptor that becomes readable when somebody wakes us, or None where no FIFO can be had."""
    try:
        with suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    if stat.S_ISFIFO(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    return None


def pending_requests(directory: RunDir) -> Iterator[tuple[Path, Request | None]]:
    """Yield the spooled requests, oldest first; None stands for one that cannot be read."""
    with doing("read the requests to the runner"):
        found = sorted(_contents(directory))
    for _, path, content in found:
        try:
            yield path, msgspec.json.decode(content, type=Request)
        except msgspec.MsgspecError:
            yield path, None


def _contents(directory: RunDir) -> Iterator[tuple[int, Path, bytes]]:
    """Yield for each request when it was written, its file, and what that holds."""
    for path in directory.requests.glob("*.json"):
        with suppress(FileNotFoundError):  # it was taken back a moment ago
            yield path.stat().st_mtime_ns, path, path.read_bytes()


class RequestListener:
    """Listens for requests, reports and signals while it is entered."""

    def __init__(
        self,
        directory: RunDir,
        read_requests: Callable[[], None],
        read_reports: Callable[[], None],
        stop: Callable[[], None],
    ) -> None:
        self._directory = directory
        self._read_requests = read_requests
        self._read_reports = read_reports
        self._stop = stop

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        with doing("make the folder for requests"):
            self._directory.requests.mkdir(parents=True, exist_ok=True)
        self._pipe = _open_pipe(self._directory.wake_pipe)
        if self._pipe is not None:
            loop.add_reader(self._pipe, self._woken, self._pipe)
        self._look_s = _LOOK_S if self._pipe is not None else _LOOK_WITHOUT_PIPE_S
        self._timer = loop.call_later(self._look_s, self._tick)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop)

    def __exit__(self, *exc: object) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        self._timer.cancel()
        if self._pipe is not None:
            loop.remove_reader(self._pipe)
            os.close(self._pipe)
            # Many tools cannot copy a pipe: a repository at rest has none.
            with suppress(OSError):
                self._directory.wake_pipe.unlink()

    def _woken(self, pipe: int) -> None:
        with suppress(BlockingIOError):  # agents can open the pipe, too, and one may have emptied it
            os.read(pipe, 4096)
        self._look()

    def _tick(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._look_s, self._tick)
        self._look()

    def _look(self) -> None:
        # What cannot be read now, or was just taken back, is looked for again at the next tick.
        with suppress(OSError):
            self._read_requests()
            self._read_reports()


class SaveRequests:
    """Requests to save all work under way now. Each attempt that is watched saves its own."""

    def __init__(self) -> None:
        self._wanted: dict[str, asyncio.Event] = {}
        self._waiting: dict[str, list[asyncio.Future[dict[str, str]]]] = {}

    @contextmanager
    def open_for(self, task: str) -> Iterator[asyncio.Event]:
        """Count a task among those that can save their work; yield the event that asks for it."""
        self._wanted[task], self._waiting[task] = asyncio.Event(), []
        try:
            yield self._wanted[task]
        finally:
            # Nobody needs to wait any longer: what an attempt leaves at its end is saved anyway.
            with self.taking(task):
                del self._wanted[task], self._waiting[task]

    @contextmanager
    def taking(self, task: str) -> Iterator[dict[str, str]]:
        """Save a task's work inside this, for all current waiters. Later ones wait for the next snapshot.

        Yields where to say why it could not be saved.
        """
        self._wanted[task].clear()
        waiting, self._waiting[task] = self._waiting[task], []
        failures: dict[str, str] = {}
        try:
            yield failures
        finally:
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(failures)

    async def take(self) -> dict[str, str]:
        """Ask every attempt to save its work, and wait until all have tried; return those that could not, and why."""
        waiters = [asyncio.get_running_loop().create_future() for _ in self._wanted]
        for (task, wanted), waiter in zip(self._wanted.items(), waiters, strict=True):
            self._waiting[task].append(waiter)
            wanted.set()
        answers = await asyncio.gather(*waiters)
        return {task: why for failures in answers for task, why in failures.items()}
