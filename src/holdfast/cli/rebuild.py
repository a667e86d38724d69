"""`rebuild`: replace a lost or damaged journal by one made from git."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from holdfast.cli.arguments import JSON, Arguments, flag
from holdfast.cli.output import note, show, uncommitted_lines
from holdfast.cli.prompts import confirm, is_interactive
from holdfast.core.status import RUN_IS_OVER
from holdfast.repo.repository import Repository
from holdfast.runner.recovery.rebuild import RebuildResult, rebuild
from holdfast.runner.store_choice import chosen_store

ARGUMENTS: Arguments = (
    flag("--yes -y", "replace the journal even if it is sound"),
    JSON,
)


def execute(args: Namespace) -> int:
    """Replace the journal by one made from git. The old one is kept."""
    repo = Repository.open(Path.cwd())
    result = rebuild(
        repo,
        lambda question, evident: _ask(question, args, evident=evident),
        replace=args.yes,
        store=chosen_store(repo.state_dir, repo.id),
    )
    return show(result, lambda result: "\n".join(_lines(repo, result)), args)


def _ask(question: str, args: Namespace, *, evident: bool) -> bool:
    """Ask. Where git shows the answer, that is taken if nobody is there to ask, and said."""
    if evident and (args.yes or not is_interactive()):
        note(f"{question} Git shows that it was, so the answer is yes.")
        return True
    return confirm(question, yes=False)


def _lines(repo: Repository, result: RebuildResult) -> Iterator[str]:
    yield f"Rebuilt from git: {result.why}."
    if result.kept:
        yield f"The old journal is kept as {result.kept}."
    if any(one.landed for one in result.runs):
        yield "What the run branches show counts as done: without a journal nobody can tell whether Holdfast put it there."
    for one in result.runs:
        yield f"  {one.run}  {one.status}  {one.landed} of {one.tasks} done"
        yield from uncommitted_lines(repo, one.run)
    yield from (f"  not restored: {sentence}" for sentence in result.lost)
    if any(one.status not in RUN_IS_OVER for one in result.runs):
        yield (
            "`holdfast resume` continues. Not in git, and not restored: failures, costs, consents, questions and answers, "
            "who took a task, and skips on which nothing was built."
        )
