"""A launch's output on disk, bounded no matter how much the agent prints.

Output goes to segments of at most half the bound; only the last two are kept. The first is `output.log`, a later
one is `output.log.<n>`, where n bytes were printed before it. So an offset always means the same byte, also
after older segments are gone.
"""

from __future__ import annotations

import os
from _blake2 import blake2b  # hashlib would bring OpenSSL into every supervisor
from contextlib import suppress

from holdfast.redaction import Redactor

_CHUNK = 65536


class BoundedLog:
    """Writes output to the segments, without the secrets in it. A full disk loses output, never the agent."""

    def __init__(self, path: str, bytes_max: int, secrets: list[bytes]) -> None:
        self.total = 0
        self.digest = blake2b(digest_size=16)
        """Of all that was printed, also what is no longer kept."""
        self._redactor = Redactor(secrets)
        self._path = path
        self._half = max(1, bytes_max // 2)
        self._start = -self._half  # as if a full segment came before: the first byte opens the first segment
        self._fd = -1
        self._kept: list[str] = []

    def pump(self, pipe: int) -> bool:
        """Move one chunk from `pipe` to disk. Return False when there is none: nothing waits, or the end is reached."""
        try:
            data = os.read(pipe, min(_CHUNK, self._half))
        except BlockingIOError:
            return False
        self._append(self._redactor.feed(data))
        return bool(data)

    def finish(self) -> None:
        """The output is over: write the rest, which was held back because it could have become a secret."""
        self._append(self._redactor.finish())

    def _append(self, data: bytes) -> None:
        if not data:
            return
        # When the disk is full or gone, output is lost. Each byte has its place in the file, so the loss is a hole and
        # what comes later is still found at its offset.
        with suppress(OSError):
            if self.total + len(data) > self._start + self._half:
                self._rotate()
            os.pwrite(self._fd, data, self.total - self._start)
        self.total += len(data)
        self.digest.update(data)

    def _rotate(self) -> None:
        self._start = self.total
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        segment = _segment(self._path, self._start)
        self._fd = os.open(segment, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        self._kept.append(segment)
        if len(self._kept) > 2:
            os.unlink(self._kept.pop(0))  # noqa: PTH108 - pathlib is too heavy for the supervisor


def remove_output(path: str) -> None:
    """Remove all output: it is of an earlier launch, whose record a power cut took. Usually there is none."""
    for _, segment in _segments(path):
        os.unlink(segment)  # noqa: PTH108 - pathlib is too heavy for the supervisor


def append_output(path: str, start: int, data: bytes, *, over_gap: bool = False) -> int:
    """Add to a copy of a log what was printed from `start` on, as far as the copy lacks it; return where the copy ends then.

    What comes after a gap is left for later, or, `over_gap`, opens a segment of its own: the rest is no longer kept anywhere.
    """
    segments = _segments(path)
    last = segments[-1] if segments else (0, path)
    end = last[0] + os.stat(last[1]).st_size if segments else 0  # noqa: PTH116 - pathlib is too heavy here
    if start > end and not over_gap:
        return end
    begin, target = (start, _segment(path, start)) if start > end else last
    new = data[max(0, end - start) :]
    if new:
        with open(target, "ab", opener=_open_private) as file:
            file.write(new)
    return max(end, start + len(data)) if new or begin == start else end


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def read_output(path: str, offset: int, most: int | None = None) -> tuple[int, bytes, int]:
    """Return where the output from `offset` on really begins, at most `most` bytes of it, and where the output ends.

    What is no longer kept is left out; what a full disk lost reads as zeros.
    """
    segments = _segments(path)
    if not segments:
        return offset, b"", offset
    begin = max(offset, segments[0][0])
    data = b""
    try:
        for start, segment in segments:
            data = data.ljust(start - begin, b"\0")[:most]
            if most is None or len(data) < most:
                with open(segment, "rb") as file:  # noqa: PTH123 - pathlib is too heavy for the supervisor
                    file.seek(begin + len(data) - start)
                    data += file.read(-1 if most is None else most - len(data))
        last = os.stat(segments[-1][1]).st_size  # noqa: PTH116
    except FileNotFoundError:
        return read_output(path, offset, most)  # the supervisor dropped a segment since they were listed
    return begin, data, max(begin + len(data), segments[-1][0] + last)


def _segments(path: str) -> list[tuple[int, str]]:
    folder, base = os.path.split(path)
    try:
        names = os.listdir(folder)  # noqa: PTH208 - pathlib is too heavy for the supervisor
    except FileNotFoundError:
        return []
    starts = sorted(int(name[len(base) + 1 :] or 0) for name in names if name.startswith(base))
    return [(start, _segment(path, start)) for start in starts]


def _segment(path: str, start: int) -> str:
    return f"{path}.{start}" if start else path
