"""Agents' reports during their work: read from the file in their workspace and turned into events.

An agent wrote everything in that file: it is checked, bounded and cleaned, and a meaningless line is skipped.
Each line counts once, because the event also records how far the file was read.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from holdfast.core import events as ev
from holdfast.core.ids import is_valid_id
from holdfast.core.people import heard_questions
from holdfast.core.projection import Question, Report, Spent, TaskRow
from holdfast.paths import STATE_DIR
from holdfast.redaction import redact, secret_values
from holdfast.repo.agent_files import opened_file, opened_folder
from holdfast.report_channel import (
    CONTRACT_BYTES_MAX,
    FILE_BYTES_MAX,
    LINE_BYTES_MAX,
    OPTION_CHARS_MAX,
    OPTIONS_MAX,
    QUESTION_CHARS_MAX,
    REPORT_FILE,
)

INTERFACES_MAX = 32
_WORDS_MAX = 500
_TEXT_MAX = 4_000
_COST_MAX = 1e6
_TOKENS_MAX = 10**12
_LINE_NUMBER_MAX = 10**9


class ReportLine(Report, frozen=True, kw_only=True):
    """One report as an agent wrote it. Every part is optional; `contract` belongs to `interface`, `options` to `question`."""

    cost_usd: float = 0.0
    tokens: float = 0.0
    question: str = ""
    options: tuple[str, ...] = ()
    interface: str = ""
    contract: str = ""


def report_file(workspace: Path, name: str = REPORT_FILE) -> Path:
    """Return the file to which the agent of a workspace reports. It is never part of the work."""
    return workspace / STATE_DIR / name


class AttemptReports:
    """The report files of the attempts that are being watched, how far each was read, and who waits for a report."""

    def __init__(self) -> None:
        self._watched: dict[str, tuple[TaskRow, Path]] = {}
        self._arrived: dict[str, asyncio.Event] = {}
        self._read: dict[str, tuple[int, int]] = {}

    @contextmanager
    def watched(self, task: TaskRow, workspace: Path) -> Iterator[None]:
        """Let `fresh` include the task while its agent is at work."""
        self._watched[task.id] = (task, workspace)
        self._arrived[task.id] = asyncio.Event()
        try:
            yield
        finally:
            del self._watched[task.id], self._arrived[task.id]

    def note_recorded(self, events: Iterable[ev.Event]) -> None:
        """Wake everybody who waits for spending if these events, which are durable now, tell of any.

        All of them: what one agent uses may be the end of a budget that they share.
        """
        if any(isinstance(event, ev.ProgressReported | ev.AgentObserved) for event in events):
            for arrived in self._arrived.values():
                arrived.set()

    async def arrived(self, task: TaskRow, seconds: float | None) -> None:
        """Return once something new about any agent's spending is recorded, at the latest after so many seconds, if given."""
        try:
            # Not `wait_for`: it swallows a cancellation that comes together with a report.
            async with asyncio.timeout(seconds):
                await self._arrived[task.id].wait()
        except TimeoutError:
            return
        self._arrived[task.id].clear()

    def fresh(self) -> list[ev.Event]:
        """Return what the watched attempts reported since the last call."""
        return [event for task, workspace in self._watched.values() for event in self.of(task, workspace)]

    def of(self, task: TaskRow, workspace: Path) -> list[ev.Event]:
        """Return one attempt's reports unread by any runner: at most one progress event, interfaces, questions."""
        attempt, offset = self._read.get(task.id, (0, 0))
        offset = offset if attempt == task.attempt else task.latest.report_bytes
        lines, end = read_reports(report_file(workspace), offset)
        self._read[task.id] = (task.attempt, end)
        return [*_progress(task, lines, end), *_interfaces(task, lines), *_questions(task, lines)]


def read_reports(path: Path, offset: int = 0) -> tuple[list[ReportLine], int]:
    """Return the whole lines after `offset` that make sense, and where they end.

    A line that is still being written is left for the next time. A file that got shorter is read from its beginning.
    """
    data, offset = _read_on(path, offset)
    whole = data[: data.rfind(b"\n") + 1]
    lines = (_decode(line) for line in whole.split(b"\n") if line.strip())
    return [line for line in lines if line is not None], offset + len(whole)


def _read_on(path: Path, offset: int) -> tuple[bytes, int]:
    """Read an agent's file, up to a limit. What is behind a link, or is no regular file, has nothing new."""
    try:
        with opened_folder(path.parent) as folder, opened_file(folder, path.name) as fd:
            offset = offset if offset <= os.fstat(fd).st_size else 0
            return os.pread(fd, max(0, FILE_BYTES_MAX - offset), offset), offset
    except OSError:
        return b"", offset


def _decode(line: bytes) -> ReportLine | None:
    if len(line) > LINE_BYTES_MAX:
        return None
    try:
        return msgspec.json.decode(line, type=ReportLine)
    except msgspec.MsgspecError:
        return None


def _progress(task: TaskRow, lines: list[ReportLine], end: int) -> Iterator[ev.Event]:
    """Return the progress in these lines as one event, each part as last reported."""
    said = [line for line in lines if line != ReportLine(interface=line.interface, contract=line.contract)]
    if not said:
        return
    spent = reported_spending(said)
    yield ev.ProgressReported(
        task=task.id,
        attempt=task.attempt,
        progress=last_number([line.progress for line in said], 100.0),
        file=_last([line.file for line in said], _WORDS_MAX),
        line=_line_number([line.line for line in said]),
        section_done=_last([line.section_done for line in said], _WORDS_MAX),
        section_next=_last([line.section_next for line in said], _WORDS_MAX),
        confidence=last_number([line.confidence for line in said], 1.0),
        blocked=clean(said[-1].blocked)[:_TEXT_MAX],
        summary=_last([line.summary for line in said], _TEXT_MAX),
        cost_usd=spent.cost_usd,
        tokens=spent.tokens,
        heard=end,
    )


def reported_spending(lines: Iterable[ReportLine]) -> Spent:
    """Return what reports add up to: each tells what was used since the one before."""
    told = list(lines)
    return Spent(
        tokens=int(sum(_within(line.tokens, _TOKENS_MAX) for line in told)),
        cost_usd=math.fsum(_within(line.cost_usd, _COST_MAX) for line in told),
    )


def _interfaces(task: TaskRow, lines: list[ReportLine]) -> Iterator[ev.Event]:
    """Publish each contract as last reported, unless it is known already."""
    contracts = {line.interface: clean(line.contract) for line in lines if _is_contract(line)}
    room = INTERFACES_MAX - len(task.interfaces)
    new = [name for name in contracts if name not in task.interfaces][:room]
    for name in [
        *new,
        *(name for name in contracts if task.interfaces.get(name, contracts[name]) != contracts[name]),
    ]:
        yield ev.InterfacePublished(task=task.id, attempt=task.attempt, name=name, contract=contracts[name])


def _questions(task: TaskRow, lines: list[ReportLine]) -> Iterator[ev.Event]:
    """Ask the questions of these lines that are heard. Options are one line each: a person chooses them by number."""
    asked = [
        Question(attempt=task.attempt, question=question, options=_options(line))
        for line in lines
        if (question := clean(line.question)[:QUESTION_CHARS_MAX])
    ]
    for one in heard_questions(task, asked):
        yield ev.QuestionAsked(task=task.id, attempt=task.attempt, question=one.question, options=one.options)


def _options(line: ReportLine) -> tuple[str, ...]:
    words = (" ".join(clean(option).split())[:OPTION_CHARS_MAX] for option in line.options[:OPTIONS_MAX])
    return tuple(option for option in words if option)


def _is_contract(line: ReportLine) -> bool:
    return (
        is_valid_id(line.interface) and 0 < len(line.contract.encode(errors="replace")) <= CONTRACT_BYTES_MAX
    )


def last_number(numbers: list[float | None], most: float) -> float | None:
    """Return the last reported number, clamped to 0..`most`; None if there was none."""
    said = [number for number in numbers if number is not None and not math.isnan(number)]
    return _within(said[-1], most) if said else None


def _line_number(numbers: list[int | None]) -> int | None:
    said = [number for number in numbers if number is not None and 0 <= number <= _LINE_NUMBER_MAX]
    return said[-1] if said else None


def _within(number: float, most: float) -> float:
    return 0.0 if math.isnan(number) else min(max(number, 0.0), most)


def _last(texts: list[str], most: int) -> str:
    return next((clean(text)[:most] for text in reversed(texts) if text), "")


def clean(text: str) -> str:
    """Return an agent's text without secrets, terminal control sequences and invalid characters."""
    # Agents may have secrets from the user's environment, which have no recognisable shape. Colours are still there:
    # without their escape, what is left of them would cut a secret in two.
    safe = redact(text, secret_values(dict(os.environ)))
    return re.sub(r"[^\t\n]", lambda found: found[0] if found[0].isprintable() else " ", safe).strip()
