"""The results of the kill matrix: their file, the counts, and the page docs/kill-matrix.md. Breaks nothing.

python -m tests.crash.matrix_page FILE…    show results of single operations on the page, until all of it is made again
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from tests.crash.coverage import DISK_FAULTS, FAULTS
from tests.crash.invariants import Harm
from tests.crash.operations import OPERATIONS
from tests.crash.sample_run import ROOT

PAGE = ROOT / "docs" / "kill-matrix.md"
ROWS = tuple(dict.fromkeys(operation.name for operation in OPERATIONS))
COLUMNS = {
    "kill": "kill",
    "after": "kill after",
    "torn": "torn write",
    "main_process": "runner only",
    "eio": "EIO",
    "enospc": "ENOSPC",
}
COUNTED = (Harm.LOST, Harm.LANDED_TWICE, Harm.REDONE, Harm.DOUBLED, Harm.STUCK, Harm.OTHER)


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What was tested: the commit, a digest of what differed from it (empty: nothing), and since when."""

    commit: str
    changes: str = ""
    began: str = ""


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the results: a point that was broken; or, with `event`, how far an operation is.

    `covers` says for how many points of each fault it stands, itself among them; of an event, how many points are equal to
    kills. `harms` are the columns of harm done.
    """

    event: str = ""
    header: Header | None = None
    operation: str = ""
    kind: str = ""
    point: int = 0
    points: int = 0
    covers: Mapping[str, int] = {}
    fired: bool = False
    harms: Sequence[str] = ()
    sentences: Sequence[str] = ()
    seconds: float = 0.0


@dataclass(slots=True)
class Cell:
    """The counts of one operation and one fault: points broken, points equal to one of them, points not reached."""

    fired: int = 0
    equal: int = 0
    missed: int = 0
    harms: Counter[str] = field(default_factory=Counter)

    def add(self, other: Cell) -> None:
        """Add the counts of another situation of the same operation."""
        self.fired += other.fired
        self.equal += other.equal
        self.missed += other.missed
        self.harms += other.harms

    def text(self, *, others: bool) -> str:
        """Return the counts as one cell of a table; `others` shows harm of all kinds even if there is none."""
        counts = " / ".join(str(self.harms[harm]) for harm in COUNTED[: None if others else 4])
        extra = "".join(
            f", **{self.harms[harm]} {harm}**" for harm in COUNTED[4:] if self.harms[harm] and not others
        )
        missed = f" ({self.missed} not reached)" if self.missed else ""
        return f"{self.fired:,} + {self.equal:,}{missed}: {counts}{extra}"


@dataclass(slots=True)
class Matrix:
    """All results so far, by operation and fault."""

    header: Header = field(default_factory=lambda: Header(commit=""))
    seconds: float = 0.0
    cycle_s: float = 0.0
    played_back: set[str] = field(default_factory=set)
    equal: dict[str, Mapping[str, int]] = field(default_factory=dict)
    points: dict[str, int] = field(default_factory=dict)
    results: dict[tuple[str, str, int], Result] = field(default_factory=dict)

    def take(self, result: Result) -> None:
        """Add one line. Disks of a recording that was begun anew replace those of the one before."""
        if result.event == "header":
            assert result.header is not None
            self.header = result.header
        elif result.event == "session":
            self.seconds += result.seconds
        elif result.event == "begun":
            self.played_back.discard(result.operation)
            for key in [key for key in self.results if key[0] == result.operation and key[1] in DISK_FAULTS]:
                del self.results[key]
        elif result.event == "listed":
            self.equal[result.operation] = result.covers
            self.points[result.operation] = result.points
        elif result.event == "done":
            self.played_back.add(result.operation)
        else:
            self.results[result.operation, result.kind, result.point] = result

    def is_played_back(self, operation: str) -> bool:
        """Tell whether every kill of an operation is done."""
        return operation in self.played_back

    def has(self, operation: str, kind: str, point: int) -> bool:
        """Tell whether a point is done."""
        return (operation, kind, point) in self.results

    @property
    def sentences(self) -> list[str]:
        """Everything that went wrong with Holdfast, in order."""
        return [s for result in self.results.values() if "/" in result.operation for s in result.sentences]

    def bad(self, loop: str) -> int:
        """Return how many broken points of Holdfast's own did any harm."""
        return sum(bool(result.harms) for result in self.results.values() if result.operation != loop)

    def cells(self, *, by_situation: bool = False) -> dict[tuple[str, str], Cell]:
        """Return the counts, by the operation's name, with its situation if so wished, and the fault."""
        cells: dict[tuple[str, str], Cell] = {}

        def row_of(operation: str) -> str:
            return operation if by_situation else operation.partition("/")[0]

        for result in self.results.values():
            row = row_of(result.operation)
            own = cells.setdefault((row, result.kind), Cell())
            own.fired += result.fired
            own.missed += not result.fired
            for kind, count in result.covers.items():
                cell = cells.setdefault((row, kind), Cell())
                cell.equal += count - (kind == result.kind and result.fired)
                cell.harms += Counter(dict.fromkeys(set(result.harms), count))
        for operation, counts in self.equal.items():
            for kind, count in counts.items():
                cells.setdefault((row_of(operation), kind), Cell()).equal += count
        return cells

    def share(self, operation: str) -> str:
        """Return in words which points of an operation were broken, by the errors: those are one for each point."""
        tried = sum(1 for name, kind, _ in self.results if (name, kind) == (operation, "eio"))
        every = round(self.points.get(operation, 0) / max(1, tried))
        return "every point" if every <= 1 else f"one point in {every}"

    def summary(self) -> str:
        """Return in one line how far it is."""
        fired = sum(result.fired for result in self.results.values())
        seconds = sum(result.seconds for result in self.results.values())
        mean = seconds / max(1, len(self.results))
        return f"{fired:,} fired, {sum(bool(r.harms) for r in self.results.values())} harmful, {mean:.2f} s a cycle"

    def table(self, *rows: str, others: bool) -> str:
        """Return the counts of these rows, or of every operation, as a table in Markdown, with a line for all of them."""
        cells = self.cells()
        shown = [row for row in rows or ROWS if any((row, kind) in cells for kind in FAULTS)]
        lines = [f"| | {' | '.join(COLUMNS.values())} |", f"|---|{'---|' * len(COLUMNS)}"]
        total = {kind: Cell() for kind in FAULTS}
        for row in shown:
            found = [cells.get((row, kind), Cell()) for kind in FAULTS]
            lines.append(f"| {row} | {' | '.join(cell.text(others=others) for cell in found)} |")
            for kind, cell in zip(FAULTS, found, strict=True):
                total[kind].add(cell)
        if len(shown) > 1:
            lines.append(f"| **all** | {' | '.join(cell.text(others=others) for cell in total.values())} |")
        return "\n".join(lines)


def added_part(matrix: Matrix) -> str:
    """Return the results of single operations as text of the page."""
    cells = matrix.cells(by_situation=True)
    rows = [
        f"| {name} ({matrix.share(name)}) | "
        + " | ".join(cells.get((name, kind), Cell()).text(others=False) for kind in FAULTS)
        + " |"
        for name in map(str, OPERATIONS)
        if (name, "eio") in cells
    ]
    fired = sum(result.fired for result in matrix.results.values())
    changed = f", with changes of its own ({matrix.header.changes})" if matrix.header.changes else ""
    made = f"Made on {matrix.header.began[:10]} at commit `{matrix.header.commit}`{changed}: {fired:,} faults that really struck."
    head = [f"| | {' | '.join(COLUMNS.values())} |", f"|---|{'---|' * len(COLUMNS)}"]
    return "\n".join([made, "", *head, *rows])


def write_added(path: Path, matrices: Sequence[Matrix]) -> None:
    """Put the results of single operations on the page, in the place of those that were there."""
    before, _, after = path.read_text().partition(_LOOP)
    before = before.partition(_ADDED)[0]
    parts = "\n\n".join(map(added_part, matrices))
    path.write_text(f"{before}{_ADDED}{parts}\n\n{_LOOP}{after}")


_LOOP = "## A shell loop, for comparison\n"
_ADDED = """\
## Operations that came later

These are not in the table above: it was made before. Each row is one operation in one situation, and says which of its points
were broken by errors.

"""


def read_results(path: Path) -> Matrix:
    """Read a file of results. A last line that was cut off counts for nothing."""
    matrix = Matrix()
    decoder = msgspec.json.Decoder(Result)
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):
            matrix.take(decoder.decode(line))
    return matrix


def write_page(path: Path, matrix: Matrix, loop: str, every: int) -> None:
    """Write the page that shows the matrix."""
    header = matrix.header
    changed = f", with changes of its own ({header.changes})" if header.changes else ""
    sample = f" This is a sample: every {every}th point of each." if every > 1 else ""
    page = _PAGE.format(
        date=header.began[:10],
        commit=header.commit,
        changed=changed,
        sample=sample,
        minutes=round(matrix.seconds / 60),
        table=matrix.table(others=False),
        loop=matrix.table(loop, others=True),
        fired=f"{sum(result.fired for result in matrix.results.values()):,}",
    )
    path.write_text(page)


_PAGE = """\
# The kill matrix

Every operation is broken at every system call by which it, or any process that it starts, changes a file. Then a user does
what a user does: the same command again, or `holdfast resume`. Plain git judges the result: what had landed is there, once,
and was not done again; no command's effect is there twice; `git fsck` and `holdfast doctor` find nothing; no lock or draft
lies around; the user's files are as they were, or as `land` promises.

Made on {date} at commit `{commit}`{changed}: {fired} faults that really struck, in {minutes} minutes.{sample}

Each cell: points broken + points equal to one of them: lost / landed twice / redone / doubled. Anything else that is wrong
would stand behind it.

{table}

- **kill**: every process dies before the call; **kill after**: right after it; **torn write**: after half of what it writes.
- **runner only**: only the process of the command itself dies; agents, supervisors and git commands go on.
- **EIO**, **ENOSPC**: this one call fails. Only calls that need room on the disk fail for lack of it.
- **lost**: something that had landed, was committed or was told is not there. **Redone**: an attempt at a task that had landed.
  **Doubled**: a command's effect is in the result twice. Commands of the sample plans append to a file, toggle one, or commit by
  themselves; an agent goes on from what it finds; two tasks conflict, and one check fails at first.
- **Equal** points are not broken a second time: they leave the same disk, to the byte, or no process could tell them apart.
  `tests/crash/coverage.py` has the argument. The disks that kills leave are played back from a recording of one run.

## A shell loop, for comparison

The same judge over `tests/crash/shell_loop.sh`, which does without an orchestrator: a worktree for each task, one merge each. It
skips tasks whose merge is on the branch and removes what an earlier start left of a worktree. It is started again up to four
times.

Each cell: points broken + points equal to one of them: lost / landed twice / redone / doubled / stuck / other. *Stuck*: it ends
with an error each time, until somebody removes by hand what git left. *Other*: `git fsck` complains.

{loop}

## How to run it again

```
make crash                                              # random kills, this matrix, power cuts
python -m tests.crash.matrix                            # this page; --continue FILE goes on if it was cut short
python -m tests.crash.matrix --operation land           # one row, --fault eio one column, --every 20 a sample
python -m tests.crash.sweep --operation run/conflict --faults kill:123    # one point again, with all that was printed
```

A point that breaks a promise is printed with the command that breaks it again. `make test` runs a sample of 300 faults of all
operations. [Invariants](invariants.md) has what is judged, by number.
"""

if __name__ == "__main__":
    write_added(PAGE, [read_results(Path(name)) for name in sys.argv[1:]])
