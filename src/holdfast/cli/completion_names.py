"""The names that a shell completes while somebody types: runs and tasks. It must feel instant.

So nothing is imported that is not needed to read the journal, git is not asked, and an error prints nothing: a shell
that completes has no place for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.journal.stored_names import named_runs, named_tasks
from holdfast.paths import StateDir

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
    for run, status, goal in reversed(named_runs(_journal())):
        number = run.partition("-")[0].lstrip("0")
        yield run, f"{status}: {goal}"
        if text and number.startswith(text):
            yield number, run


def _task_lines(named: str) -> Iterator[tuple[str, str]]:
    journal = _journal()
    fitting = [one.run for one in named_runs(journal) if not named or _fits(one.run, named)]
    if fitting:
        yield from ((task, f"{status} {title}") for task, status, title in named_tasks(journal, fitting[-1]))


def _fits(run: str, named: str) -> bool:
    number, _, slug = run.partition("-")
    if named.isdecimal():
        return int(number) == int(named)
    return run.startswith(named) or slug.startswith(named)


def _journal() -> Path:
    """Return the journal of the repository around the current directory."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".git").is_dir() and (found := StateDir.of_checkout(folder).journal).is_file():
            return found
    # A linked worktree: git knows where the main checkout is.
    from holdfast.views.read_only_repo import open_read_only

    return open_read_only().state_dir.journal
