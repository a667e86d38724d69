"""What an agent prints, as it comes: the entries of its log, from near its end on, in bounded pieces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import msgspec

from holdfast.agents.presets import agent_of_attempt, presets_of
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.agents.streams.reader import LogReader
from holdfast.core.facts import Presence
from holdfast.core.observations import EntryKind, LogEntry
from holdfast.core.status import TaskStatus
from holdfast.fleet import open_fleet
from holdfast.fleet.protocol import AGENT_STEP, Fleet, LaunchKey
from holdfast.redaction import redact
from holdfast.views.read_only_repo import ReadOnlyRepo
from holdfast.web.answers import RefusedRequestError
from holdfast.web.dashboard import read
from holdfast.web.event_stream import HEARTBEAT, HEARTBEAT_S, message
from holdfast.web.repositories import ServedRepository, load_run, require_task

_TAIL_BYTES = 512 * 1024
_PIECE_BYTES = 128 * 1024
_ENTRY_CHARS_MAX = 32_000
_POLL_S = 0.2


class LogLine(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a log: a message, the use of a tool, its result, or a plain line."""

    kind: EntryKind
    text: str
    detail: str


class SkippedBytes(msgspec.Struct, frozen=True, kw_only=True):
    """How many bytes of the log are left out here."""

    bytes: int


@dataclass(slots=True)
class AttemptLog:
    """The log of one attempt, as far as it was read."""

    key: LaunchKey
    reader: LogReader
    fleet: Fleet
    is_elsewhere: bool
    is_latest: bool
    seen: int = 0
    is_over: bool = False

    @classmethod
    def find(cls, opened: ReadOnlyRepo, run: str, task: str, attempt: int | None) -> AttemptLog:
        """Return the log of an attempt, the latest if none is named. Raises RefusedRequestError if there is none."""
        state = load_run(opened, run).state()
        row = state.tasks[require_task(state, task)]
        number = attempt or row.attempt
        if not 1 <= number <= row.attempt:
            raise RefusedRequestError(
                404, f"task {task} has no attempt {number}", f"it has had {row.attempt}; leave `attempt` out"
            )
        agent = agent_of_attempt(state, task, number, presets_of(opened.checkout))
        stream, patterns = (
            ("raw", ErrorPatterns()) if agent is None else (agent.stream, agent.error_patterns())
        )
        is_shared = opened.require_journal().durability is not None
        return cls(
            LaunchKey(run, task, number, AGENT_STEP),
            LogReader(stream, patterns),
            open_fleet(opened.state_dir.fleet),
            is_elsewhere=is_shared and not opened.directory(run).attempts.is_dir(),
            is_latest=number == row.attempt,
        )

    def more(self, opened: ReadOnlyRepo) -> list[bytes]:
        """Return the messages for what is new, at most a piece of it."""
        # Asked before it is read, so that the last output is included.
        over = not self._is_alive(opened)
        if not self.seen and (end := self.fleet.output(self.key, 0, 0).end) > _TAIL_BYTES:
            self.seen = end - _TAIL_BYTES
            self.reader.skip()
            said = [message("skipped", SkippedBytes(bytes=self.seen))]
        else:
            said = []
        piece = self.fleet.output(self.key, self.seen, _PIECE_BYTES)
        if piece.data and piece.start > self.seen:
            said.append(message("skipped", SkippedBytes(bytes=piece.start - self.seen)))
            self.reader.skip()
        self.seen = piece.start + len(piece.data)
        entries = self.reader.feed(piece.data)
        if over and (not piece.data or self.seen >= piece.end):
            self.is_over = True
            entries = [*entries, *self.reader.close()]
        if entries:
            said.append(message("entries", _lines(entries)))
        return said

    def _is_alive(self, opened: ReadOnlyRepo) -> bool:
        """Tell whether more may come: the agent lives, or the attempt is at work and its agent is about to start."""
        if self.fleet.inspect(self.key).presence is Presence.ALIVE:
            return True
        row = load_run(opened, self.key.run).state().tasks.get(self.key.owner)
        at_work = row is not None and row.attempt == self.key.attempt and row.status is TaskStatus.RUNNING
        return at_work and opened.holder(self.key.run) is not None


def _lines(entries: Iterable[LogEntry]) -> list[LogLine]:
    # What a stream wrote with escapes is spelled out here: it must not uncover a secret.
    return [
        LogLine(kind=EntryKind(one.kind), text=_shown(one.text), detail=_shown(one.detail)) for one in entries
    ]


def _shown(text: str) -> str:
    if len(text) <= _ENTRY_CHARS_MAX:
        return redact(text)
    return f"{redact(text)[:_ENTRY_CHARS_MAX]}\n[… {len(text) - _ENTRY_CHARS_MAX:,} characters more …]"


async def log_messages(
    served: ServedRepository, log: AttemptLog, is_closing: asyncio.Event
) -> AsyncIterator[bytes]:
    """Yield what an agent printed, and what it prints from now on, until its attempt is over."""
    if log.is_elsewhere:
        yield message("elsewhere", {"task": log.key.owner, "attempt": log.key.attempt})
        return
    silent_s = 0.0
    while not is_closing.is_set():
        before = log.seen
        for text in await read(served, log.more):
            yield text
        if log.is_over:
            yield message("end", {"attempt": log.key.attempt})
            return
        if log.seen == before:
            await asyncio.sleep(_POLL_S)
            silent_s += _POLL_S
        if silent_s >= HEARTBEAT_S or log.seen > before:
            if silent_s >= HEARTBEAT_S:
                yield HEARTBEAT
            silent_s = 0.0
