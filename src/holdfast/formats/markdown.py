"""The parts of Markdown that state and prompts are written in: headings, tables, lists, `**Key:** value` lines.

A fenced block holds an example, not a statement, and is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"\s*(`{3,}|~{3,})")
HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*$")
_RULE_CELL = re.compile(r":?-+:?")
_BULLET = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+(?:\[[ xX]\]\s*)?(.+)")


@dataclass(frozen=True, slots=True)
class TableRow:
    """One row of a table: the number of its line in the text, and its cells."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the number of its first line, its column names in lower case, and its rows."""

    line: int
    header: tuple[str, ...]
    rows: tuple[TableRow, ...]

    def column(self, *names: str) -> int:
        """Return the index of the first column with one of these names, or -1."""
        return next((self.header.index(name) for name in names if name in self.header), -1)

    def select(self, *columns: tuple[str, ...]) -> Iterator[list[str]]:
        """Yield the cells of some columns, row by row. Each column is given by its possible names."""
        places = [self.column(*names) for names in columns]
        for row in self.rows:
            yield [row.cells[at] if 0 <= at < len(row.cells) else "" for at in places]


def decoded(data: bytes) -> str:
    """Return bytes as text; replacement characters stand for invalid bytes."""
    return data.decode("utf-8-sig", errors="replace")


def plain_lines(text: str) -> list[str]:
    """Return the lines of a text. Lines in fenced blocks are empty, so that line numbers stay right."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if found and (not fence or found[1].startswith(fence)):
            fence = "" if fence else found[1]
            lines.append("")
        else:
            lines.append("" if fence else line)
    return lines


def cells(line: str) -> tuple[str, ...]:
    r"""Return the cells of a table row; `\|` is part of a cell."""
    inside = line.strip().strip("|") if not line.strip().endswith("\\|") else line.strip()[1:]
    return tuple(cell.replace("\\|", "|").strip() for cell in re.split(r"(?<!\\)\|", inside))


def as_row(values: Iterable[str]) -> str:
    """Return one line of a table. A cell becomes one line, and bars in it are escaped."""
    return "| " + " | ".join(" ".join(value.split()).replace("|", "\\|") for value in values) + " |"


def tables(text: str) -> list[Table]:
    """Return every table of a text, in order."""
    return [
        Table(block[0].line, tuple(cell.casefold() for cell in block[0].cells), tuple(block[2:]))
        for block in _blocks(plain_lines(text))
    ]


def _blocks(lines: list[str]) -> Iterator[list[TableRow]]:
    """Yield the runs of table lines whose second line is the rule below the header."""
    block: list[TableRow] = []
    for number, line in enumerate([*lines, ""]):
        if line.lstrip().startswith("|"):
            block.append(TableRow(number, cells(line)))
            continue
        if len(block) >= 2 and all(_RULE_CELL.fullmatch(cell) for cell in block[1].cells):
            yield block
        block = []


def section(text: str, *headings: str) -> str:
    """Return the text below the first heading with such a name, up to the next of its level or above."""
    wanted = {heading.casefold() for heading in headings}
    plain, lines = plain_lines(text), text.split("\n")
    begin, level = -1, 0
    for number, line in enumerate(plain):
        found = HEADING.match(line)
        if not found:
            continue
        if begin >= 0 and len(found[1]) <= level:
            return _body(lines[begin:number])
        if begin < 0 and found[2].casefold() in wanted:
            begin, level = number + 1, len(found[1])
    return _body(lines[begin:]) if begin >= 0 else ""


def _body(lines: list[str]) -> str:
    """Return a section's text, without a horizontal rule at its end."""
    return re.sub(r"\n\s*-{3,}\s*$", "", "\n".join(["", *lines])).strip()


def unfenced(text: str) -> str:
    """Return the content of a single fenced block; any other text unchanged."""
    found = re.fullmatch(r"(`{3,}|~{3,})[^\n]*\n(.*?)\n\1", text.strip(), re.DOTALL)
    return found[2].strip() if found else text


def title(text: str) -> str:
    """Return the text of the first heading."""
    return next((found[2] for line in plain_lines(text) if (found := HEADING.match(line))), "")


def bullets(text: str) -> tuple[str, ...]:
    """Return the points of a list, without their dashes, numbers and check boxes."""
    return tuple(found[1].strip() for line in plain_lines(text) if (found := _BULLET.match(line)))


def code_spans(line: str) -> tuple[str, ...]:
    """Return the texts between backticks in a line."""
    return tuple(found.strip() for found in re.findall(r"`([^`\n]+)`", line))


def value(text: str, *keys: str) -> str:
    """Return what a line such as `**Task:** …`, `- **Status:** …`, `# Status: …` or `status: …` says."""
    names = "|".join(re.escape(key) for key in keys)
    pattern = re.compile(rf"[\s>#*\-]*(?:{names})\s*(?:\*\*)?\s*:\s*(?:\*\*)?\s*(.+?)\s*$", re.IGNORECASE)
    return next((found[1] for line in plain_lines(text) if (found := pattern.match(line))), "")


def paragraphs(*parts: str) -> str:
    """Return the non-empty parts, with an empty line between them."""
    return "\n\n".join(part.strip() for part in parts if part.strip())


def bulleted(title: str, lines: Iterable[str]) -> str:
    """Return a title and the points below it; empty if there are no points."""
    points = "\n".join(f"- {line}" for line in lines)
    return f"{title}:\n{points}" if points else ""


def front_matter(text: str) -> dict[str, str]:
    """Return the simple `key: value` lines between two `---` lines at the beginning of a file."""
    parts = re.split(r"^---[ \t]*$", text, maxsplit=2, flags=re.MULTILINE)
    if len(parts) < 3:
        return {}
    pairs = (
        line.partition(":") for line in parts[1].splitlines() if ":" in line and not line.startswith(" ")
    )
    return {key.strip(): said.strip().strip("\"'") for key, _, said in pairs}
