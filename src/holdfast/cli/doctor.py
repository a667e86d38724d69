"""`doctor`: is this machine fit for a run, and does every run keep the invariants?"""

from __future__ import annotations

import os
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from holdfast.agents.invocation import RefusesRootError, require_root_accepted
from holdfast.agents.presets import Preset, presets_of
from holdfast.cli.arguments import JSON, Arguments, flag
from holdfast.cli.installed_agents import find_installed_agents
from holdfast.cli.output import missing_runs_sentence, new_settings_sentence, show
from holdfast.core.invariants import Violation
from holdfast.core.status import RUN_IS_OVER, SandboxLevel
from holdfast.errors import ExitCode, HoldfastError, StoreUnavailableError
from holdfast.journal.filesystem_checks import network_filesystem, refusal, unwritable
from holdfast.process.cgroups import CONTROLLERS, available_groups
from holdfast.process.sandbox import BUBBLEWRAP, probe_sandbox, sandbox_obstacle
from holdfast.repo.git import MINIMUM_VERSION, git_version
from holdfast.repo.private_git_dir import private_dir
from holdfast.repo.repository import Repository
from holdfast.runner.health import (
    examine_repository,
    examine_run,
    fix_repository,
    fix_run,
    runs_missing_in_journal,
    settings_since_here,
    unblock_git,
)
from holdfast.runner.sandbox import require_good_variables
from holdfast.runner.sandbox_setting import SandboxRequest, SandboxSetting, setting_in_force
from holdfast.system_errors import machine_error
from holdfast.views.read_only_repo import ReadOnlyRepo, open_read_only
from holdfast.views.text import count, data_size

_FREE_BYTES_MIN = 512 * 1024 * 1024
_RECENT = 5
_SHOWN = 3
_BY_LANDLOCK = (
    "Landlock, without namespaces: other files cannot be opened, but their sizes be seen and modes changed by who knows their "
    "path, and sockets that are files be connected to; processes are seen, and not signalled"
)


class HealthFinding(msgspec.Struct, frozen=True):
    """One thing that was checked. A `warning` is something to know, and no failure."""

    what: str
    ok: bool
    detail: str
    warning: str = ""


class ExaminedPart(msgspec.Struct, frozen=True):
    """A run, or the repository itself, and every invariant that it breaks."""

    what: str
    broken: Sequence[Violation]


class Health(msgspec.Struct, frozen=True, kw_only=True, rename={"examined": "judged", "fixed": "mended"}):
    """Everything `doctor` says."""

    healthy: bool
    environment: tuple[HealthFinding, ...]
    examined: tuple[ExaminedPart, ...]
    fixed: tuple[str, ...]


ARGUMENTS: Arguments = (
    flag("--fix", "remove what killed git commands left behind"),
    JSON,
)


def execute(args: Namespace) -> int:
    """Check the machine, the repository and its runs; `--fix` removes files that killed git commands left."""
    environment, examined, fixed = [*_machine()], list[ExaminedPart](), list[str]()
    try:
        if args.fix:
            fixed += unblock_git(Path.cwd())
        opened = open_read_only()
        environment += _repository(opened)
        repo, runs = opened.open_repository(), _runs_to_examine(opened)
        repo.require_own_state_dir()
        environment += _unwritable(opened.state_dir.root, repo.common_dir)
        environment += _agents(opened.checkout)
        if args.fix:
            fixed += fix_repository(repo)
            for run in runs:
                fixed += [] if opened.holder(run) else fix_run(repo, opened.require_journal(), run)
        if missing := runs_missing_in_journal(repo, opened.journal):
            environment.append(HealthFinding("journal", False, missing_runs_sentence(missing)))
        environment += _git_settings(repo, opened)
        examined.append(ExaminedPart("repository", examine_repository(repo)))
        examined += [
            ExaminedPart(f"run {run}", examine_run(repo, opened.require_journal(), run)) for run in runs
        ]
    except HoldfastError as error:
        what = "store" if isinstance(error, StoreUnavailableError) else "repository"
        environment.append(_error(what, error))
    except OSError as error:
        environment.append(_error("repository", machine_error(error, "look again")))
    healthy = all(found.ok for found in environment) and not any(part.broken for part in examined)
    health = Health(
        healthy=healthy, environment=tuple(environment), examined=tuple(examined), fixed=tuple(fixed)
    )
    show(health, lambda health: "\n".join(_lines(health)), args)
    return ExitCode.DONE if healthy else ExitCode.TASKS_FAILED


def _error(what: str, error: HoldfastError) -> HealthFinding:
    gap = ". " if error.hint[:1].isupper() else "; "
    return HealthFinding(what, False, f"{error.message.rstrip('.')}{gap}{error.hint}")


def _machine() -> Iterator[HealthFinding]:
    python = ".".join(map(str, sys.version_info[:3]))
    yield HealthFinding("python", sys.version_info >= (3, 11), python)
    try:
        found = git_version()
    except HoldfastError as error:
        yield _error("git", error)
    else:
        need = ".".join(map(str, MINIMUM_VERSION))
        yield HealthFinding("git", found >= MINIMUM_VERSION, f"{'.'.join(map(str, found))} ({need} or newer)")
    yield _sandbox()
    yield _bounds()


def _sandbox() -> HealthFinding:
    """Tell whether there is a sandbox, and which level runs get if they name none. A run can do without, so it is no error."""
    try:
        found, closed = probe_sandbox(), probe_sandbox(closed_network=True)
        require_good_variables()
        setting = setting_in_force(SandboxRequest(), sandbox_obstacle, SandboxSetting(), SandboxSetting())
    except HoldfastError as error:
        return _error("sandbox", error)
    if not found.by:
        return HealthFinding("sandbox", True, f"none: {found.obstacle}; {found.hint}")
    works = "works" if found.by == BUBBLEWRAP else _BY_LANDLOCK
    strict = "" if closed.by else f"; no level strict: {closed.obstacle}; {closed.hint}"
    return HealthFinding(
        "sandbox",
        True,
        f"{works}; runs that name no level get: {setting.level}, network: {setting.network}{strict}",
    )


def _bounds() -> HealthFinding:
    """Tell what launches can be bounded in. A run can do without, so it is no error."""
    found = available_groups()
    missing = [name for name in CONTROLLERS if name not in found]
    can = f"control groups for {', '.join(name for name in CONTROLLERS if name in found)}" if found else ""
    cannot = f"none for {', '.join(missing)}, so those of launches have no bound" if missing else ""
    return HealthFinding("bounds", True, "; ".join(filter(None, (can, cannot))))


def _agents(checkout: Path) -> Iterator[HealthFinding]:
    """Tasks that are commands need no agent, so a missing agent or key is not an error."""
    presets = presets_of(checkout)
    found = find_installed_agents(presets)
    for agent in found:
        warnings = filter(None, (agent.broken, agent.version_warning(), _root_warning(presets[agent.name])))
        yield HealthFinding(f"agent {agent.name}", True, agent.describe(), "; ".join(warnings))
    if not found:
        yield HealthFinding("agents", True, "no known agent is installed")


def _root_warning(agent: Preset) -> str:
    """Return what root has to do before this agent works in a run that names no sandbox; empty if nothing."""
    try:
        setting = setting_in_force(SandboxRequest(), sandbox_obstacle, SandboxSetting(), SandboxSetting())
        if os.geteuid() == 0 and setting.level is SandboxLevel.OFF:
            require_root_accepted(agent, os.environ)
    except RefusesRootError as error:
        return f"{error.message}: {error.hint}"
    except HoldfastError:
        return ""  # `_sandbox` tells of it
    return ""


def _repository(opened: ReadOnlyRepo) -> Iterator[HealthFinding]:
    mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    network = network_filesystem(opened.checkout, mounts)
    yield HealthFinding(
        "file system", not network, f"{network}: locks cannot be trusted" if network else "local"
    )
    state = opened.state_dir.root
    if (found := refusal(state if state.is_dir() else opened.checkout)) is not None:
        yield _error("disk", machine_error(found, "look again", "write a file"))
    free = shutil.disk_usage(opened.checkout).free
    need = f"at least {data_size(_FREE_BYTES_MIN)} is needed"
    yield HealthFinding("free disk", free >= _FREE_BYTES_MIN, f"{data_size(free)} ({need})")
    known = f"readable, {count(len(opened.runs()), 'run')}" if opened.journal else "none yet"
    yield HealthFinding("journal", True, known)
    if opened.journal is not None and (durability := opened.journal.durability) is not None:
        detail = f"{opened.journal.name.removeprefix('store ')}. {durability.sentence}"
        yield HealthFinding(
            "store", True, detail, "it may forget what it acknowledged" if durability.is_volatile else ""
        )


def _unwritable(state: Path, common_dir: Path) -> Iterator[HealthFinding]:
    """Tell what of Holdfast's own files, and of git's, a run could not write to. The state folder itself was tried before."""
    git = ((private_dir(common_dir), 1), (common_dir / "objects", 0), (common_dir / "refs", 0))
    # What is in workspaces and homes, or moved out of them, is the agents'.
    places = ((state, 0), (state / "runs", 1), (state / "work", 0), *git)
    named = (path for folder, depth in places for path in unwritable(folder, depth) if path != state)
    found = list(dict.fromkeys(named))
    if found:
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        listed = ", ".join(map(str, found[:_SHOWN])) + more
        owner = "Give them back to yourself (`chown`) or open them (`chmod u+w`), then look again."
        yield HealthFinding("files", False, f"you may not write to {listed}. {owner}")


def _git_settings(repo: Repository, opened: ReadOnlyRepo) -> Iterator[HealthFinding]:
    """Tell what is new since the latest run began. It may be the user's own, so it is no error."""
    if listings := opened.runs():
        run = listings[-1].row.run
        if found := settings_since_here(repo, opened.require_journal(), run):
            yield HealthFinding("git settings", True, new_settings_sentence(run, found))


def _runs_to_examine(opened: ReadOnlyRepo) -> list[str]:
    """Return the unfinished runs and the most recent ones; older finished ones were examined when they ended."""
    listings = opened.runs()
    recent = listings[-_RECENT:]
    return [x.row.run for x in listings if x in recent or x.row.status not in RUN_IS_OVER]


def _lines(health: Health) -> Iterator[str]:
    for found in health.environment:
        yield f"{'ok ' if found.ok else 'BAD'}  {found.what}: {found.detail}"
        yield from [f"warn {found.what}: {found.warning}"] if found.warning else ()
    for part in health.examined:
        yield f"{'BAD' if part.broken else 'ok '}  {part.what}"
        yield from (f"       invariant {broken.number}: {broken.sentence}" for broken in part.broken)
    yield from (f"fixed  {sentence}" for sentence in health.fixed)
    yield "healthy" if health.healthy else "; ".join(["not healthy", *_ways_out(health)])


def _ways_out(health: Health) -> Iterator[str]:
    if any(part.broken for part in health.examined):
        yield "`holdfast doctor --fix` clears stale locks and half-made worktrees"
        yield "`holdfast resume` compares an unfinished run with git and continues from what git shows"
