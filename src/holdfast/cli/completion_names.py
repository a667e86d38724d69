"""The names that a shell completes while somebody types: runs and tasks. It must feel instant.

So nothing is imported that is not needed to read the journal, git is not asked, and an error prints nothing: a shell
that completes has no place for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.core.projection import RunRow
    from holdfast.journal.protocol import JournalReader

RUNS, TASKS = "--runs", "--tasks"
_DESCRIPTION_CHARS = 60


def print_names(words: Sequence[str]) -> int:
    """Print the runs whose names begin with a text, or the tasks of a run: a name, a tab and what it is, per line.

    `words` are `--runs [TEXT]` or `--tasks [RUN]`. Without a run, the tasks are those of the latest.
    """
    what, text = words[0], words[1] if len(words) > 1 else ""
    try:
        lines = list(_run_lines(text) if what == RUNS else _task_lines(text))
    except Exception:  # noqa: BLE001 - whatever it is, nobody asked for it to be told here
        return 0
    print(
        "".join(f"{name}\t{' '.join(about.split())[:_DESCRIPTION_CHARS]}\n" for name, about in lines), end=""
    )
    return 0


def _run_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the runs, newest first; by their numbers too, if somebody began to type one."""
    for row in reversed(_rows(_journal())):
        number = row.run.partition("-")[0].lstrip("0")
        yield row.run, f"{row.status}: {row.goal}"
        if text and number.startswith(text):
            yield number, row.run


def _task_lines(named: str) -> Iterator[tuple[str, str]]:
    journal = _journal()
    rows = _rows(journal)
    fitting = [row for row in rows if _fits(row.run, named)] or (rows if not named else [])
    if not fitting:
        return
    stored = journal.load(fitting[-1].run)
    statuses = {task.id: task.status for task in stored.tasks}
    for _, task in stored.plan.tasks():
        yield task.id, f"{statuses[task.id]} {task.title}"


def _fits(run: str, named: str) -> bool:
    number, _, slug = run.partition("-")
    if named.isdecimal():
        return int(number) == int(named)
    return bool(named) and (run.startswith(named) or slug.startswith(named))


def _rows(journal: JournalReader) -> list[RunRow]:
    return [listing.row for listing in journal.runs()]


def _journal() -> JournalReader:
    from holdfast.journal import open_reader
    from holdfast.paths import StateDir

    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".git").is_dir() and (found := StateDir.of_checkout(folder).journal).is_file():
            return open_reader(found)
    # A linked worktree: git knows where the main checkout is.
    from holdfast.cli.open_repo import open_read_only

    return open_read_only().require_journal()
