"""Asking where to go on, when what another system left allows several answers."""

from __future__ import annotations

import argparse

from holdfast.cli.asking import choose_key, is_interactive
from holdfast.core.wording import did_you_mean, shown
from holdfast.errors import HoldfastError
from holdfast.formats.model import ForeignRun
from holdfast.formats.resuming import resume_from, resume_points


def settle_resume_point(foreign: ForeignRun, args: argparse.Namespace) -> ForeignRun:
    """Return the run with one place to go on: the named one, the one chosen on a terminal, else the earliest."""
    if args.resume_at:
        return resume_from(foreign, _known(foreign, args.resume_at))
    points = list(resume_points(foreign).items())[:9]
    if not points or not is_interactive() or args.json or args.yes or args.dry_run:
        return foreign
    print("\n".join(f"  {number}  {task}  {why}" for number, (task, why) in enumerate(points, 1)))
    keys = "".join(str(number) for number in range(1, len(points) + 1))
    key = choose_key(f"Where does it go on? [1-{len(points)}]", keys + keys[0], default=keys[0])
    return resume_from(foreign, points[int(key) - 1][0])


def _known(foreign: ForeignRun, named: str) -> str:
    tasks = [claim.task for claim in foreign.claims]
    if named not in tasks:
        raise HoldfastError(
            f"there is no task {shown(named)}{did_you_mean(named, tasks)}",
            "`holdfast adopt PATH --dry-run` names the tasks",
        )
    return named
