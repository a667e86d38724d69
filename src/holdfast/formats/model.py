"""`ForeignRun`, another system's run in our vocabulary, and `ForeignFormat`, the interface of a format.

Nothing in a `ForeignRun` is trusted: git decides what is done. No file is read or written here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import cast

import msgspec
from msgspec.structs import replace

from holdfast.core.adoption import (
    SETTLED as SETTLED,
    UNBEGUN as UNBEGUN,
    Claim as Claim,
    ClaimedStatus as ClaimedStatus,
    Finding as Finding,
    spent_of as spent_of,
)
from holdfast.core.plan import Plan
from holdfast.core.projection import PastFailure as PastFailure
from holdfast.formats.exported_run import ExportedRun, NativeFile, NativeRecord
from holdfast.formats.registry import System


class ForeignRun(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run of another system. `claims` has one entry per task of the plan, in its order.

    `name` is the system's own name of the run (a slug, a spec folder, an epic's id). `branches` hold the
    finished work, the best first: the run continues from the first that exists. `commits` are those recorded
    without a task. `main` is the state file among the `documents`. These are the originals by their path
    below the project (or by their file name), kept so that unknown keys can be written back. `finished`: the
    files say that the whole run is done.
    """

    system: System
    name: str
    plan: Plan
    claims: tuple[Claim, ...]
    finished: bool = False
    branches: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    main: str = ""
    documents: dict[str, bytes] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFormat:
    """Reads and writes the records of a system that keeps its state in a Redis server. All functions are pure.

    `patterns` match its keys. `split(records)` makes one document of the records of each run, by the name that stands for
    its state file. `heartbeat(document)` is when an agent of it last gave a sign, 0 if never. `write(run, originals, owner)`
    returns the records of a run, each with the mark of who writes it; `owner(document)` finds that mark again.
    """

    patterns: tuple[str, ...]
    split: Callable[[Mapping[str, str]], dict[str, bytes]]
    heartbeat: Callable[[bytes], float]
    write: Callable[[ExportedRun, Mapping[str, bytes], str], list[NativeRecord]]
    owner: Callable[[bytes], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignFormat:
    """Reads and writes one system's files. Each package offers one as `FORMAT`. All functions are pure.

    `title` is the system's name for people. `places` are where its states are kept, as patterns below a
    project, the surest first; a pattern that begins with `**/` matches the name anywhere, in lower case.
    `traces` are ignore patterns of all files that it writes besides the work. `locks` are patterns of lock
    files that are not beside a state.

    `recognises(path, data)` detects a state or plan file, by its content first and its path second.
    `companions(main)` are glob patterns of the files that belong to the state file `main`. `read(main,
    documents)` raises `BrokenFileError` if the documents are unusable; anything odd is a `Finding`.
    `write(run, originals)` keeps the keys of `originals` that we do not know.

    Some systems have more: `list_runs(states)` is their own list of runs as text, and
    `staging_worktree(name)` is the folder where people review the result of a run. `server` is
    for the state that it keeps in a server.
    """

    title: str
    places: tuple[str, ...]
    traces: tuple[str, ...]
    recognises: Callable[[str, bytes], bool]
    companions: Callable[[str], tuple[str, ...]]
    read: Callable[[str, Mapping[str, bytes]], ForeignRun]
    write: Callable[[ExportedRun, Mapping[str, bytes]], list[NativeFile]]
    locks: tuple[str, ...] = ()
    list_runs: Callable[[Mapping[str, bytes]], str] | None = None
    staging_worktree: Callable[[str], str] | None = None
    server: ServerFormat | None = None


def format_of(system: System) -> ForeignFormat:
    """Return the reader and writer of a system's files. Its package is loaded only now."""
    return cast("ForeignFormat", import_module(system.package).FORMAT)


def all_formats() -> dict[System, ForeignFormat]:
    """Return every system's reader and writer, in the order in which they are tried on a file."""
    return {system: format_of(system) for system in System}


SEVERAL_RESUME_POINTS = "several-resume-points"
"""The kind of finding that names a task where the run may continue; there are none or at least two."""


def resume_points(run: ForeignRun) -> dict[str, str]:
    """Return the tasks where the run may continue, each with the reason, in plan order."""
    return {
        finding.task: finding.sentence for finding in run.findings if finding.kind == SEVERAL_RESUME_POINTS
    }


def resume_from(run: ForeignRun, task: str) -> ForeignRun:
    """Return the run after the user chose where to continue: earlier tasks are settled, the rest is open."""
    place = [claim.task for claim in run.claims].index(task)
    before = (
        claim if claim.standing in SETTLED else replace(claim, standing=ClaimedStatus.SKIPPED)
        for claim in run.claims[:place]
    )
    after = (replace(claim, standing=ClaimedStatus.PENDING) for claim in run.claims[place:])
    findings = tuple(finding for finding in run.findings if finding.kind != SEVERAL_RESUME_POINTS)
    return replace(run, claims=(*before, *after), findings=findings, finished=False)
