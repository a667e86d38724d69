"""The channel for an agent's reports to the runner: names and bounds that both ends agree on, and how to write to it.

An agent appends one JSON line per report to a file inside its workspace, because every sandbox lets it write there.
A leaf module, and a light one: `holdfast report` must start at once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from holdfast.errors import HoldfastError
from holdfast.system_errors import doing

REPORT_VARIABLE = "HOLDFAST_REPORT"
"""Names the file to append to; only agents and validators have it."""
WAKE_VARIABLE = "HOLDFAST_BELL"
"""Names the FIFO that wakes the runner, if one listens, and the file system and the agent's sandbox allow it."""
REPORT_FILE = "report.jsonl"

LINE_BYTES_MAX = 64 * 1024
CONTRACT_BYTES_MAX = 32 * 1024
FILE_BYTES_MAX = 4 * 1024 * 1024
QUESTION_CHARS_MAX = 2_000
OPTION_CHARS_MAX = 200
OPTIONS_MAX = 9

ReportData = dict[str, str | float | list[str]]
"""One report as it is sent: what it tells, by name."""
HINT = "`holdfast report --help` shows how."
NUMBERS = {"progress": 100.0, "confidence": 1.0, "cost": 1e6, "tokens": 1e12, "line": 1e9}
"""What can be reported as a number, and the largest that makes sense. The least is 0."""


def checked_number(name: str, number: float) -> float:
    """Return a number that may be reported under that name, or raise HoldfastError."""
    if not 0 <= number <= NUMBERS[name]:
        raise HoldfastError(f"{name} takes a number from 0 to {NUMBERS[name]:g}, not {number:g}", HINT)
    return number


def checked_contract(name: str, contract: str) -> str:
    """Return an interface's contract if it can be published, or raise HoldfastError."""
    if not 0 < len(contract.encode(errors="replace")) <= CONTRACT_BYTES_MAX:
        raise HoldfastError(
            f"the contract of {name} is {'too long' if contract else 'empty'}",
            f"At most {CONTRACT_BYTES_MAX} bytes are taken: signatures, not the code behind them.",
        )
    return contract


def checked_question(question: str, options: Sequence[str]) -> ReportData:
    """Return the report of a question to a person, or raise HoldfastError."""
    if not question.strip():
        raise HoldfastError("the question is empty", HINT)
    if len(question) > QUESTION_CHARS_MAX or any(len(option) > OPTION_CHARS_MAX for option in options):
        raise HoldfastError(
            "the question is too long",
            f"At most {QUESTION_CHARS_MAX} characters are taken, {OPTION_CHARS_MAX} for an option.",
        )
    if len(options) > OPTIONS_MAX:
        raise HoldfastError(f"{len(options)} options are too many", f"At most {OPTIONS_MAX} are taken.")
    return {"question": question, "options": list(options)}


def send_report(path: str, wake_pipe: str, said: ReportData) -> None:
    """Append one report to the attempt's file and wake the runner, if one listens. Sent twice, it counts twice."""
    with doing("report", path):
        _append(path, json.dumps(said).encode() + b"\n")
    wake(wake_pipe)


def _append(path: str, line: bytes) -> None:
    """Add a line in one write, so that reports made at the same time do not mix."""
    if len(line) > LINE_BYTES_MAX:
        raise HoldfastError(f"the report has {len(line)} bytes; at most {LINE_BYTES_MAX} are read", HINT)
    folder, name = os.path.split(path)
    within = _open_folder(folder)
    try:
        fd = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=within)
    finally:
        os.close(within)
    try:
        if os.fstat(fd).st_size + len(line) > FILE_BYTES_MAX:
            raise HoldfastError(f"{path} is full", "The runner has read it; later reports would not be read.")
        if os.write(fd, line) < len(line):
            raise HoldfastError(f"{path} could not be written whole", "Free space on the disk.")
    finally:
        os.close(fd)


def _open_folder(folder: str) -> int:
    """Make and open the folder of the reports, but follow no link. Its workspace must be there; we never make one."""
    try:
        try:  # noqa: SIM105 - contextlib takes long to start
            os.mkdir(folder)  # noqa: PTH102 - pathlib, too
        except FileExistsError:
            pass
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        raise HoldfastError(
            f"{folder} is no folder, and Holdfast follows no link there", f"Remove it: `rm {folder}`."
        ) from None
    except FileNotFoundError:
        raise HoldfastError(
            f"the workspace of this attempt, {os.path.dirname(folder)}, is not there",  # noqa: PTH120
            "It was moved, or the attempt is over. Nothing was reported.",
        ) from None


def wake(wake_pipe: str) -> None:
    """Wake the runner. If none lives, or the pipe cannot be reached, the next look of a runner finds what was left."""
    try:
        fd = os.open(wake_pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return
    try:
        os.write(fd, b"!")
    except OSError:
        return  # the pipe is full, and the runner wakes anyway; or the runner has just ended
    finally:
        os.close(fd)
