"""Other systems' runs as `adopt` meets them: in which repository they lie, which one is meant, and all of them listed."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from holdfast.cli.asking import choose_key, is_interactive
from holdfast.cli.look import as_json
from holdfast.core.claims import SETTLED
from holdfast.errors import ExitCode, NeedsDecisionError, RepositoryError
from holdfast.formats.gather import Source, read_source
from holdfast.formats.loose import BrokenFileError
from holdfast.formats.model import Format, System
from holdfast.repo.repository import Repository
from holdfast.views.adoption import SourceLine, sources_text
from holdfast.views.text import count
from holdfast.views.times import timestamp


def repository_of(path: Path) -> Repository:
    """Open the repository that the files lie in; for files that lie in none, the one around the user."""
    folder = path if path.is_dir() else path.parent
    try:
        return Repository.open(folder)
    except RepositoryError:
        return Repository.open(Path.cwd())


def show_list(sources: Sequence[Source], formats: Mapping[System, Format], args: argparse.Namespace) -> int:
    """Show every run that was found; the tasks of APEX also in its own way."""
    lines = [_line(source, formats) for source in sources]
    print(as_json(lines) if args.json else sources_text(lines))
    tasks = {source.main: source.documents[source.main] for source in sources if source.system is System.APEX}
    if tasks and not args.json:
        from holdfast.formats.apex import as_text, listing

        print("", as_text(listing(tasks)), sep="\n")
    return ExitCode.DONE


def chosen(sources: Sequence[Source], args: argparse.Namespace) -> Source:
    """Return the run that is meant: the only one, or the one that the user picks on a terminal."""
    if len(sources) == 1:
        return sources[0]
    lines = [f"{number}  {source.system}  {source.main}" for number, source in enumerate(sources, 1)]
    if is_interactive() and not args.json and len(sources) < 10:
        print("\n".join(f"  {line}" for line in lines))
        keys = "".join(str(number) for number in range(1, len(sources) + 1)) + "q"
        key = choose_key(f"Which one? [1-{len(sources)}, q]", keys, default="q")
        if key != "q":
            return sources[int(key) - 1]
        raise NeedsDecisionError("nothing was adopted", "`holdfast adopt PATH --list` shows what there is")
    commands = "\n".join(f"holdfast adopt {shlex.quote(str(source.path))}" for source in sources)
    raise NeedsDecisionError(
        f"{args.path} holds {count(len(sources), 'run')} of other systems; name one", commands
    )


def _line(source: Source, formats: Mapping[System, Format]) -> SourceLine:
    updated = timestamp(source.path.stat().st_mtime)
    try:
        run = read_source(source, formats)
    except BrokenFileError as error:
        return SourceLine(
            system=source.system,
            name="?",
            main=source.main,
            tasks=0,
            done=0,
            stage="",
            updated_at=updated,
            resumable=False,
            error=error.message,
        )
    open_tasks = {claim.task for claim in run.claims if claim.standing not in SETTLED}
    stages = [stage.id for stage, task in run.plan.tasks() if task.id in open_tasks]
    return SourceLine(
        system=source.system,
        name=run.name,
        main=source.main,
        tasks=len(run.claims),
        done=len(run.claims) - len(open_tasks),
        stage=stages[0] if stages else "",
        updated_at=updated,
        resumable=bool(open_tasks),
    )
