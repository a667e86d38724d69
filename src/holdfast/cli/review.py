"""`review`: what a run produced, task by task and as a whole, or one task's work, landed or not."""

from __future__ import annotations

import sys
from argparse import Namespace

from holdfast.cli.arguments import JSON, OPTIONAL_TASK, Arguments, flag, one_of, positional
from holdfast.cli.open_repo import choose_run_or_task
from holdfast.cli.output import as_json, note
from holdfast.cli.pager import show_long, users_colours
from holdfast.errors import ExitCode
from holdfast.journal.protocol import StoredRun
from holdfast.repo.repository import Repository
from holdfast.views.current_status import places_of_result
from holdfast.views.read_only_repo import ReadOnlyRepo, open_read_only
from holdfast.views.review import (
    Review,
    ReviewSource,
    coloured,
    files_text,
    notes,
    review_of,
    review_source,
    stat_text,
    task_line,
    task_text,
)

ARGUMENTS: Arguments = (
    positional("run", "run id, number or beginning of its name (the latest), or a task of it", nargs="?"),
    OPTIONAL_TASK,
    one_of(
        flag("--patch", "show every changed line"),
        flag("--stat", "show which files changed, and by how much (the default)"),
        flag("--files", "print the names of the changed files, one per line"),
    ),
    JSON,
)


def execute(args: Namespace) -> int:
    """Show what a run produced, or one task of it, on a terminal through the user's pager."""
    opened = open_read_only()
    stored, task = choose_run_or_task(opened, args.run, args.task, latest=True)
    repo = opened.open_repository()
    source = _source(opened, repo, stored)
    review = review_of(source, task, patch=args.patch)
    if args.json:
        print(as_json(review))
        return ExitCode.DONE
    lines = _lines(source, review, task, args)
    colours = None if args.files else users_colours(repo.git)
    text = "\n".join(lines)
    show_long(coloured(text, colours) if colours else text, repo.git)
    return ExitCode.DONE


def print_review(opened: ReadOnlyRepo, repo: Repository, run: str) -> None:
    """Print each landed task with its commits and files, then the whole difference from the base."""
    source = _source(opened, repo, opened.require_journal().load(run))
    print("\n".join(stat_text(source)))


def _source(opened: ReadOnlyRepo, repo: Repository, stored: StoredRun) -> ReviewSource:
    return review_source(repo, stored.state(), places_of_result(opened.checkout, stored.row))


def _lines(source: ReviewSource, review: Review, task: str | None, args: Namespace) -> list[str]:
    """Return what to show. What is not part of a patch or a list goes to standard error if somebody else reads those."""
    if not (args.patch or args.files):
        return task_text(source, review.tasks[0]) if task else stat_text(source)
    about = [task_line(review.tasks[0])] if task else list(notes(source))
    shown = files_text(review.files) if args.files else (review.patch or "").rstrip("\n").split("\n")
    if args.patch and sys.stdout.isatty():
        return [*about, *([""] if about else []), *shown]
    for line in about:
        note(line)
    return shown
