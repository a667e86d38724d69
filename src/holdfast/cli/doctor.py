"""`doctor`: is this machine fit for a run, and does every run keep its promises?"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from holdfast.agents.presets import presets_of
from holdfast.cli.installed_agents import find_installed_agents
from holdfast.cli.open_repo import ReadOnlyRepo, open_read_only
from holdfast.cli.status import as_json
from holdfast.core.invariants import Violation
from holdfast.core.status import RUN_IS_OVER
from holdfast.errors import ExitCode, HoldfastError
from holdfast.journal.filesystem_checks import network_filesystem
from holdfast.repo.git import MINIMUM_VERSION, git_version
from holdfast.repo.repository import Repository
from holdfast.runner.recovery.invariant_evidence import (
    examine_repository,
    examine_run,
    fix_run,
    runs_missing_in_journal,
)
from holdfast.views.text import count

_FREE_BYTES_MIN = 512 * 1024 * 1024
_RECENT = 5


class HealthFinding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was looked at."""

    what: str
    ok: bool
    detail: str


class BrokenInvariant(msgspec.Struct, frozen=True, kw_only=True):
    """An invariant that a run breaks; the number is that of the design."""

    number: int
    sentence: str


class ExaminedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A run, or the repository itself, and every promise that it breaks."""

    what: str
    broken: tuple[BrokenInvariant, ...]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `doctor` says."""

    healthy: bool
    environment: tuple[HealthFinding, ...]
    judged: tuple[ExaminedPart, ...]
    mended: tuple[str, ...]


def doctor(args: argparse.Namespace) -> int:
    """Look at the machine, the repository and its runs; `--fix` clears what killed git commands left."""
    environment, judged, mended = [*_machine()], list[ExaminedPart](), list[str]()
    try:
        place = open_read_only()
        environment += _place(place)
        repo, runs = Repository.open(place.checkout), _worth_a_look(place)
        repo.require_own_state_dir()
        environment += _agents(place.checkout)
        if args.fix:
            mended = [
                said
                for run in runs
                if not place.holder(run)
                for said in fix_run(repo, place.require_journal(), run)
            ]
        environment += _forgotten(repo, place)
        judged.append(_judged("repository", examine_repository(repo)))
        judged += [_judged(f"run {run}", examine_run(repo, place.require_journal(), run)) for run in runs]
    except HoldfastError as error:
        environment.append(HealthFinding(what="repository", ok=False, detail=f"{error.message} {error.hint}"))
    healthy = all(found.ok for found in environment) and not any(one.broken for one in judged)
    health = Health(
        healthy=healthy, environment=tuple(environment), judged=tuple(judged), mended=tuple(mended)
    )
    print(as_json(health) if args.json else "\n".join(_text(health)))
    return ExitCode.DONE if healthy else ExitCode.TASKS_FAILED


def _forgotten(repo: Repository, place: ReadOnlyRepo) -> Iterator[HealthFinding]:
    """A journal that was lost and begun anew knows nothing of the runs before; git does."""
    if names := runs_missing_in_journal(repo, place.journal):
        detail = (
            f"git knows {', '.join(names)}, which the journal does not. `holdfast rebuild` brings it back."
        )
        yield HealthFinding(what="journal", ok=False, detail=detail)


def _machine() -> Iterator[HealthFinding]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield HealthFinding(what="python", ok=sys.version_info >= (3, 11), detail=python)
    try:
        found = git_version()
    except HoldfastError as error:
        yield HealthFinding(what="git", ok=False, detail=f"{error.message} {error.hint}")
    else:
        need = ".".join(map(str, MINIMUM_VERSION))
        yield HealthFinding(
            what="git", ok=found >= MINIMUM_VERSION, detail=f"{'.'.join(map(str, found))} ({need} or newer)"
        )


def _agents(checkout: Path) -> Iterator[HealthFinding]:
    """Nobody needs an agent for tasks that are commands, so finding none, or one without a key, is no fault."""
    found = find_installed_agents(presets_of(checkout))
    yield from (HealthFinding(what=f"agent {agent.name}", ok=True, detail=agent.words()) for agent in found)
    if not found:
        yield HealthFinding(what="agents", ok=True, detail="none of the known ones")


def _place(place: ReadOnlyRepo) -> Iterator[HealthFinding]:
    mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    network = network_filesystem(place.checkout, mounts)
    yield HealthFinding(
        what="file system",
        ok=not network,
        detail=f"{network}: locks cannot be trusted" if network else "local",
    )
    free = shutil.disk_usage(place.checkout).free
    need = f"at least {_FREE_BYTES_MIN / 2**30:.1f} is wanted"
    yield HealthFinding(
        what="free disk", ok=free >= _FREE_BYTES_MIN, detail=f"{free / 2**30:.1f} GiB ({need})"
    )
    if place.journal is None:
        yield HealthFinding(what="journal", ok=True, detail="none yet")
        return
    yield HealthFinding(
        what="journal", ok=True, detail=f"readable, {count(len(place.journal.runs()), 'run')}"
    )


def _worth_a_look(place: ReadOnlyRepo) -> list[str]:
    """Return the unfinished runs and the most recent ones; older finished ones were judged when they ended."""
    listings = place.journal.runs() if place.journal else []
    recent = listings[-_RECENT:]
    return [x.row.run for x in listings if x in recent or x.row.status not in RUN_IS_OVER]


def _judged(what: str, found: Sequence[Violation]) -> ExaminedPart:
    return ExaminedPart(
        what=what, broken=tuple(BrokenInvariant(number=one.number, sentence=one.sentence) for one in found)
    )


def _text(health: Health) -> Iterator[str]:
    for found in health.environment:
        yield f"{'ok ' if found.ok else 'BAD'}  {found.what}: {found.detail}"
    for one in health.judged:
        yield f"{'BAD' if one.broken else 'ok '}  {one.what}"
        yield from (f"       invariant {promise.number}: {promise.sentence}" for promise in one.broken)
    yield from (f"mended  {sentence}" for sentence in health.mended)
    yield "healthy" if health.healthy else "; ".join(["something is wrong", *_ways_out(health)])


def _ways_out(health: Health) -> Iterator[str]:
    if any(one.broken for one in health.judged):
        yield "`holdfast doctor --fix` clears stale locks and half-made worktrees"
        yield "`holdfast resume` compares an unfinished run with git and goes on by what git shows"
