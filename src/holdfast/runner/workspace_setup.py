"""Set-up: the plan's commands that make a prepared workspace ready to work in, before an agent or a check uses it.

They run in the sandbox like checks. If they fail, that is the machine's fault, and nobody is charged for it; unless the work
itself changed what set-up depends on.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from pathlib import Path

import msgspec

from holdfast.core.plan import PlanWorkspace
from holdfast.errors import ExitCode, HoldfastError
from holdfast.repo.index import changed_paths, tracked_changes, unkept_paths
from holdfast.repo.repository import Repository
from holdfast.repo.workspace import Workspace
from holdfast.repo.workspace_files import (
    SetupRecord,
    ignore_patterns,
    read_record,
    without_paths,
    write_record,
)
from holdfast.runner.context import RunContext
from holdfast.runner.verification.checks import FailedCheck, run_checks

_STEP = "setup"
_LINES_SHOWN = 12
_CHARS_SHOWN = 1500
_LOOSE_MAX = 500
"""How many files set-up may leave that git neither tracks nor ignores."""


class SetupFailedError(HoldfastError):
    """A command of set-up did not hold. The workspace is as it left it; the next preparation begins anew."""

    exit_code = ExitCode.NEEDS_DECISION

    def __init__(self, failed: FailedCheck, run: str) -> None:
        said = _last_lines(failed.output)
        message = f"set-up failed: {failed.error}" + (f"; it said:\n{said}" if said else "")
        super().__init__(
            message,
            f"Nothing is charged for it. Correct the cause, or the plan and `holdfast amend {run}`; "
            f"`holdfast resume {run}` tries again.",
        )
        self.failed = failed


class UnignoredOutputError(HoldfastError):
    """Set-up made so many files that git does not ignore that their names cannot be kept apart from an agent's work."""

    exit_code = ExitCode.NEEDS_DECISION


def _last_lines(output: str) -> str:
    """Return the end of what a command printed, as much as fits a message."""
    lines = output.strip().splitlines()[-_LINES_SHOWN:]
    return "\n".join(f"  {line}" for line in lines)[-_CHARS_SHOWN:]


async def set_up(context: RunContext, workspace: Path, owner: str, attempt: int) -> None:
    """Run the plan's set-up in a workspace that was prepared, unless what it makes is there, kept from before.

    Cut short, it begins anew. Raises SetupFailedError if a command fails, ChecksStopped if the run is to stop.
    """
    setting = context.state.plan.workspace
    if not setting.setup and not setting.keep:
        return
    place = context.workspaces.pool.get(workspace.name)
    digest = await asyncio.to_thread(_setup_digest, context.repo, place, setting)
    record = read_record(place.setup_file)
    if record.complete and record.digest == digest:
        return
    write_record(place.setup_file, SetupRecord(left_out=setting.brought))
    failed = await run_checks(context, setting.setup, workspace, owner, attempt, _STEP)
    if failed is not None:
        raise SetupFailedError(failed, context.run)
    await asyncio.to_thread(_settle, context, place, setting, digest)


def _setup_digest(repo: Repository, place: Workspace, setting: PlanWorkspace) -> str:
    """Return the digest of what set-up follows from: its commands and variables, and the files that it depends on."""
    globs = _globs(setting)
    files = repo.private_git.paths("ls-files", "-s", "-z", "--", *globs, index=place.index) if globs else ()
    return hashlib.sha256(msgspec.json.encode([setting, files], order="deterministic")).hexdigest()


def _is_changed_by(repo: Repository, setting: PlanWorkspace, old: str, new: str) -> bool:
    """Tell whether the way from one commit to another changed a file that set-up depends on."""
    if not setting.setup_when or old == new:
        return False
    question = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", old, new, "--")
    return bool(repo.git.paths(*question, *_globs(setting)))


def failed_by_work(context: RunContext, error: SetupFailedError, old: str, new: str) -> FailedCheck:
    """Return a failed set-up as the check that work from `old` to `new` failed. Raises the error if it is not the work's."""
    if not _is_changed_by(context.repo, context.state.plan.workspace, old, new):
        raise error
    return error.failed


def _globs(setting: PlanWorkspace) -> list[str]:
    return [f":(glob){pattern}" for pattern in setting.setup_when]


def _settle(context: RunContext, place: Workspace, setting: PlanWorkspace, digest: str) -> None:
    """Record that a workspace is set up. Tracked files are put back as they were; new ones that git does not ignore never land."""
    git = context.repo.private_git
    if tracked_changes(git, place.path, place.index):
        context.workspaces.pool.restore_tracked(place.path.name)
    patterns = ignore_patterns(setting.brought)
    loose = changed_paths(git, place.path, place.index, left_out=patterns)
    if len(loose) > _LOOSE_MAX:
        raise UnignoredOutputError(
            f"set-up made {len(loose)} files that git does not ignore, such as {loose[0]}",
            "add them to .gitignore, or name their folder in `workspace.keep`",
        )
    found = [path.rstrip("/") for path in unkept_paths(git, place.path, place.index)]
    is_all_kept = bool(setting.keep) and not without_paths(found, setting.brought)
    left_out = (*setting.brought, *(path.rstrip("/") for path in loose))
    kept = digest if is_all_kept else ""
    record = SetupRecord(complete=True, digest=kept, left_out=left_out, settled_ns=time.time_ns())
    write_record(place.setup_file, record)
