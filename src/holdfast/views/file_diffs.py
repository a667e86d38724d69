"""The difference of two commits as data: files, hunks and lines, coloured and bounded, for a page that shows it.

Names and contents of files are an agent's: secrets and controls are removed, and all of it stays text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from holdfast.escapes import without_controls
from holdfast.redaction import redact
from holdfast.repo.commit_contents import FileStat, line_counts, printable
from holdfast.repo.repository import Repository
from holdfast.views.highlighting import TextSpan, changed_words, highlighted, marked
from holdfast.views.review import WorkState

PATCH_BYTES_MAX = 4 * 2**20
_FILES_MAX = 1_000
_LINES_MAX = 20_000
_LINES_OF_FILE_MAX = 12_000
_COLOURED_LINES_MAX = 4_000
"""Files that begin beyond so many lines of a difference stay plain: colours take long, and nobody reads so far."""
_LINE_CHARS_MAX = 2_000
_HEAD = re.compile(r"^diff --git ", re.M)
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)")
_STATUSES = (("new file mode", "added"), ("deleted file mode", "deleted"), ("rename from", "renamed"))
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", '"': b'"', "\\": b"\\", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v"}  # fmt: skip
_ESCAPED = re.compile(r"\\([0-7]{3}|.)|([^\\]+)")

FileChange = Literal["added", "deleted", "modified", "renamed"]


class DiffLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line: whether it is new, gone or neither, its numbers before and after, and its text in coloured spans."""

    kind: Literal[" ", "+", "-"]
    old: int | None
    new: int | None
    spans: list[TextSpan]


class DiffHunk(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that follow each other."""

    header: str
    lines: list[DiffLine]


class FileDiff(msgspec.Struct, frozen=True, kw_only=True):
    """One file; `truncated`: not all of its lines are here. Lines of a binary file are not counted."""

    path: str
    old_path: str | None
    status: FileChange
    insertions: int | None
    deletions: int | None
    binary: bool
    hunks: list[DiffHunk]
    truncated: bool


class DiffView(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between `base` and `commit`, which is null if there is none; `truncated`: files are left out."""

    base: str | None
    commit: str | None
    work: WorkState
    files: list[FileDiff]
    truncated: bool


def diff_view(repo: Repository, base: str | None, commit: str | None, work: WorkState) -> DiffView:
    """Return what changed between two commits, at most so much of it that a page can show it."""
    if not base or not commit:
        return DiffView(base=None, commit=None, work=work, files=[], truncated=False)
    text = repo.diff(base, commit, PATCH_BYTES_MAX)
    counts = {stat.path: stat for stat in line_counts(repo, base, commit)}
    sections = _HEAD.split(without_controls(redact(text)))[1:]
    files, room = [], _LINES_MAX
    for number, section in enumerate(sections[:_FILES_MAX]):
        is_last = number == len(sections) - 1
        file = _file(
            section, counts, min(room, _LINES_OF_FILE_MAX), coloured=room > _LINES_MAX - _COLOURED_LINES_MAX
        )
        clipped = is_last and len(text) >= PATCH_BYTES_MAX
        files.append(msgspec.structs.replace(file, truncated=True) if clipped else file)
        room -= sum(len(hunk.lines) for hunk in file.hunks)
        if room <= 0:
            break
    return DiffView(base=base, commit=commit, work=work, files=files, truncated=len(files) < len(counts))


def _file(section: str, counts: dict[str, FileStat], room: int, *, coloured: bool) -> FileDiff:
    head, *bodies = re.split(r"^(?=@@ )", section, flags=re.M)
    path, old_path = _paths(head)
    status = next((word for mark, word in _STATUSES if f"\n{mark}" in f"\n{head}"), "modified")
    hunks, truncated = [], False
    for body in bodies:
        if room <= 0:
            truncated = True
            break
        lines = body.removesuffix("\n").split("\n")
        truncated = truncated or len(lines) - 1 > room
        hunks.append(_hunk(path, lines[0], lines[1 : room + 1], coloured=coloured))
        room -= len(lines) - 1
    stat = counts.get(path)
    return FileDiff(
        path=path,
        old_path=old_path if old_path != path else None,
        status=status,  # type: ignore[arg-type]
        insertions=stat.insertions if stat else None,
        deletions=stat.deletions if stat else None,
        binary="\nBinary files " in head or (stat is not None and stat.insertions is None),
        hunks=hunks,
        truncated=truncated,
    )


def _paths(head: str) -> tuple[str, str | None]:
    """Return the path of a file, and what it was called before, by the header of its difference."""
    named = {}
    for line in head.split("\n"):
        for mark in ("--- ", "+++ ", "rename from ", "rename to "):
            if line.startswith(mark) and not line.endswith("/dev/null"):
                named[mark.strip()] = _unquoted(line.removeprefix(mark).rstrip("\t"))
    new = named.get("rename to") or named.get("+++", "")[2:] or named.get("---", "")[2:]
    old = named.get("rename from") or named.get("---", "")[2:]
    if not new:  # nothing but a mode changed, or it is binary: both names are the same
        both = head.split("\n", 1)[0]
        new = _unquoted(both[: len(both) // 2])[2:]
    return printable(new), printable(old) if old else None


def _unquoted(name: str) -> str:
    """Return a path as it is. Git quotes those with odd characters, as C does."""
    name = name.strip()
    if not (name.startswith('"') and name.endswith('"') and len(name) > 1):
        return name
    parts = []
    for escape, plain in _ESCAPED.findall(name[1:-1]):
        if plain:
            parts.append(plain.encode())
        else:
            parts.append(bytes([int(escape, 8) & 0xFF]) if escape.isdecimal() else _ESCAPES.get(escape, b""))
    return without_controls(b"".join(parts).decode("utf-8", "replace"))


def _hunk(path: str, header: str, lines: Sequence[str], *, coloured: bool) -> DiffHunk:
    found = _HUNK.match(header)
    old, new = (int(found[1]), int(found[2])) if found else (0, 0)
    kept = [line for line in lines if line[:1] in (" ", "+", "-")]
    texts = [_cut(line[1:]) for line in kept]
    kinds = [line[:1] for line in kept]
    spans = _spans(path, kinds, texts) if coloured else [[("", text)] if text else [] for text in texts]
    made = []
    for kind, parts in zip(kinds, spans, strict=True):
        made.append(
            DiffLine(
                kind=kind,  # type: ignore[arg-type]
                old=old if kind != "+" else None,
                new=new if kind != "-" else None,
                spans=parts,
            )
        )
        old, new = old + (kind != "+"), new + (kind != "-")
    return DiffHunk(header=header, lines=made)


def _cut(text: str) -> str:
    return text if len(text) <= _LINE_CHARS_MAX else f"{text[:_LINE_CHARS_MAX]}… ({len(text):,} characters)"


def _spans(path: str, kinds: Sequence[str], texts: Sequence[str]) -> list[list[TextSpan]]:
    """Return the lines of a hunk in spans: each side is coloured as a whole, so that what spans lines is known."""
    spans: list[list[TextSpan]] = [[] for _ in texts]
    for side in ("-", "+"):
        places = [at for at, kind in enumerate(kinds) if kind in (" ", side)]
        for at, found in zip(places, highlighted(path, [texts[at] for at in places]), strict=True):
            spans[at] = found
    for gone, come in _replaced(kinds):
        before, after = changed_words(texts[gone], texts[come])
        spans[gone], spans[come] = marked(spans[gone], before), marked(spans[come], after)
    return spans


def _replaced(kinds: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the lines that stand for each other: as many that are gone as come right after them."""
    text = "".join(kinds)
    for block in re.finditer(r"(-+)(\++)", text):
        gone, come = block.span(1), block.span(2)
        if gone[1] - gone[0] == come[1] - come[0]:
            yield from zip(range(*gone), range(*come), strict=True)
