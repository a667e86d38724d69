"""The check of the base: set-up and the plan's own checks, once, before the first agent is paid.

What held on a tree is remembered in the state folder, so that the next run on the same tree does not run it again. A check
that failed is not: its cause may lie outside of the tree.
"""

from __future__ import annotations

import asyncio
import hashlib
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.core import events as ev
from holdfast.core.unrunnable import lacks_program
from holdfast.repo.files import remove, write_atomically
from holdfast.runner.context import RunContext
from holdfast.runner.verification.checks import ChecksStopped, run_checks
from holdfast.runner.workspace_setup import SetupFailedError, set_up

_OWNER, _STEP = "@base", "base"
_REMEMBERED_MAX = 200


async def check_base(context: RunContext) -> list[ev.Event]:
    """Check the base in the workspace of gates, unless that was done on the same tree. Safe to repeat after a crash.

    If set-up fails, no agent would get a workspace, either.
    """
    base, commands = context.state.row.base, context.state.plan.verify
    held = context.repo.state_dir.base_check(_digest(context, context.repo.tree_of(base)))
    if held.is_file():
        return [ev.BaseChecked(known=True)]
    async with context.workspaces.gate_lock:
        workspace = await context.workspaces.prepare_gate(base)
        try:
            await set_up(context, workspace, _OWNER, 1)
            failed = await run_checks(context, commands, workspace, _OWNER, 1, _STEP)
        except SetupFailedError as error:
            bad = error.failed
            return [ev.BaseChecked(check=bad.command, error=bad.error, detail=bad.output, setup=True)]
        except ChecksStopped:
            return [ev.BaseCheckInterrupted()]
    if failed is None:
        await asyncio.to_thread(_remember, held)
        return [ev.BaseChecked()]
    return [
        ev.BaseChecked(
            check=failed.command,
            error=failed.error,
            detail=failed.output,
            unrunnable=lacks_program(failed.command, failed.code, failed.output),
        )
    ]


def _digest(context: RunContext, tree: str) -> str:
    """Return the digest of all that decides how the checks end, as far as the plan and the user say it."""
    plan = context.state.plan
    copied = [_version(context.repo.checkout / path) for path in plan.workspace.copy]
    sandbox = context.setting.level, context.setting.network
    parts = [tree, plan.verify, plan.workspace, copied, plan.pass_env, *sandbox]
    return hashlib.sha256(msgspec.json.encode(parts, order="deterministic")).hexdigest()


def _version(path: Path) -> tuple[int, int] | None:
    """Return what changes when somebody changes a file that workspaces get a copy of."""
    with suppress(OSError):
        found = path.stat()
        return found.st_size, found.st_mtime_ns
    return None


def _remember(held: Path) -> None:
    """Write down that the checks held, and forget the oldest of many. If that is lost, they run once more."""
    held.parent.mkdir(exist_ok=True)
    write_atomically(held, b"")
    with suppress(FileNotFoundError):  # of another runner, which writes or forgets at the same time
        files = sorted(held.parent.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in files[:-_REMEMBERED_MAX]:
            remove(path)
