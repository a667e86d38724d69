"""`resume --from` and `--restart-stage`: what beginning again means, said before it is done."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import msgspec

from holdfast.cli.asking import confirm
from holdfast.cli.carrying import say
from holdfast.cli.look import as_json
from holdfast.cli.opening import Opened
from holdfast.errors import HoldfastError, NeedsDecisionError
from holdfast.journal.protocol import JournalReader
from holdfast.repo.repository import Repository
from holdfast.runner.rewind import Rewind, begin_again, consider
from holdfast.views.lines import plain_lines
from holdfast.views.text import count


class RewindView(msgspec.Struct, frozen=True, kw_only=True):
    """What `resume --from … --dry-run --json` prints. `base` is where a new run would begin; null if none is made."""

    run: str
    redone: tuple[str, ...]
    landed: tuple[str, ...]
    base: str | None


def begin_again_at(place: Opened, run: str, at: str, args: argparse.Namespace) -> str:
    """Ask, begin again at a stage or a task, and return the run to carry on."""
    rewind = _considered(place.repo, place.journal, run, at, args)
    for line in _lines(rewind):
        say(line, args)
    if not confirm("Begin again there?", yes=args.yes):
        raise NeedsDecisionError("nothing was done", "say --yes to begin again without being asked")
    name = begin_again(place.repo, place.journal, rewind, plain_lines(sys.stderr))
    if name != run:
        say(f"Run {name} begins in the place of {run}, which keeps its branch and refs.", args)
    return name


def tell_rewind(repo: Repository, journal: JournalReader, run: str, at: str, args: argparse.Namespace) -> int:
    """Say what beginning again would mean, and do nothing."""
    rewind = _considered(repo, journal, run, at, args)
    base = rewind.plan.base if rewind.plan else None
    view = RewindView(run=run, redone=rewind.redone, landed=rewind.landed, base=base)
    print(as_json(view) if args.json else "\n".join(_lines(rewind)))
    return 0


def _considered(
    repo: Repository, journal: JournalReader, run: str, at: str, args: argparse.Namespace
) -> Rewind:
    stages = [stage.id for stage in journal.load(run).plan.stages]
    if args.restart_stage and at not in stages:
        raise HoldfastError(f"run {run} has no stage {at}", f"its stages are {', '.join(stages)}")
    return consider(repo, journal, run, at)


def _lines(rewind: Rewind) -> Iterator[str]:
    if rewind.plan is None:
        yield f"{', '.join(rewind.redone)} would begin again from a clean start; nothing of it has landed."
        return
    yield f"Landed before and to be done anew: {', '.join(rewind.landed) or 'nothing'}."
    yield (
        f"The run branch never goes back, so a new run begins at {rewind.plan.base[:12]} with "
        f"{count(len(rewind.redone), 'task')} ({', '.join(rewind.redone)}), and {rewind.run} is given up."
    )
