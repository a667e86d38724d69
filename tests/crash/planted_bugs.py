"""Planted bugs: the real program with one function replaced, to prove that the sweep can fail.

    python -m tests.crash.planted_bugs BUG run plan.yaml --yes

Nothing of this is in the product: the replacement is made here, before its main function is called.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

from holdfast import boot, disk_sync
from holdfast.core import events as ev, task_transitions
from holdfast.core.facts import BranchFacts
from holdfast.core.plan import Plan
from holdfast.journal import lease, sqlite
from holdfast.journal.sqlite import SqliteJournal
from holdfast.process import fork_server
from holdfast.repo import files, git
from holdfast.repo.landing import branch_facts
from holdfast.repo.object_sync import ObjectSync
from holdfast.repo.ref_updates import RefUpdates
from holdfast.repo.repository import Repository
from holdfast.runner.attempts import attempt
from holdfast.runner.attempts.collect import collect
from holdfast.runner.landing import merge_queue
from holdfast.runner.recovery import facts

REBOOTED = "rebooted"
OTHER_BOOT_ID = Path(__file__).with_name("other_boot_id")


def _move_without_comparing() -> None:
    """The branch is moved wherever it is: what others committed meanwhile is lost."""

    def move(repo: Repository, ref: str, new: str, old: str) -> bool:
        repo.git.run("update-ref", ref, new)
        return True

    _replace(merge_queue, "move_branch", move)


def _forget_landings() -> None:
    """Recovery does not look for landings in git: what the journal had no time to record is landed again."""
    real = branch_facts

    def blind(*args: Any) -> BranchFacts:
        seen = real(*args)
        return BranchFacts(seen.tip, (), seen.descends_from_base)

    _replace(facts, "branch_facts", blind)


def _deliver_late() -> None:
    """No bug: with the second attempt's result comes, once more and first, that of the first."""
    real, results = collect, dict[str, list[ev.Event]]()

    def twice(context: Any, task: Any, exit_: Any, heard: Any) -> list[ev.Event]:
        events = real(context, task, exit_, heard)
        late = results.get(task.id, [])
        results.setdefault(task.id, events)
        return [*late, *events]

    _replace(attempt, "collect", twice)


def _believe_anybody() -> None:
    """Neither attempt nor token of a result is looked at: the late one counts."""
    _deliver_late()
    _replace(task_transitions, "_OF_ATTEMPT", frozenset())
    _replace(task_transitions, "_WITH_TOKEN", frozenset())


def _write_afterwards() -> None:
    """Events reach the disk one turn late: after the effects that they announce, and after they were told."""
    real, held = SqliteJournal.append, list[tuple[Any, ...]]()

    def append(journal: SqliteJournal, *args: Any) -> int:
        last = real(journal, *held.pop()) if held else 0
        held.append(_frozen(args))
        return last

    def close(journal: SqliteJournal) -> None:
        while held:
            real(journal, *held.pop())
        real_close(journal)

    real_close = SqliteJournal.close
    _replace(SqliteJournal, "append", append)
    _replace(SqliteJournal, "close", close)


def _continue_commands() -> None:
    """A command that was cut short goes on from its own half-done work, as an agent does: what it did, it does again."""
    _replace(Plan, "resume_mode", lambda *_: "continue")


def _pretend_reboot() -> None:
    """No bug: the machine has another boot id than the one that wrote what is there."""
    _replace(boot, "_BOOT_ID", str(OTHER_BOOT_ID))
    told = f"import holdfast.boot; holdfast.boot._BOOT_ID = {str(OTHER_BOOT_ID)!r}; "
    first, separator, rest = fork_server._PROGRAM.partition("from holdfast.process.fork_server_main")
    assert separator
    _replace(fork_server, "_PROGRAM", first + told + separator + rest)


def _sync_nothing() -> None:
    """Nothing that Python code writes is ever waited for."""
    _replace(os, "fsync", lambda _fd: None)
    _replace(disk_sync, "sync_filesystem", lambda _folder: True)


def _sync_no_objects() -> None:
    """Refs are moved to objects that are only in memory."""
    _replace(ObjectSync, "sync_new", lambda _objects: None)


def _sync_no_ref_names() -> None:
    """The content of a ref is on disk, its name and its log are not."""
    _replace(RefUpdates, "_sync_ref", lambda _refs, _ref: None)


def _let_git_sync_nothing() -> None:
    """A ref is renamed into place before its content is on disk."""
    git._OVERRIDES["core.fsync"] = "none"


def _sync_no_folders() -> None:
    """Files are on disk, but the folders that they are in may not be."""
    _replace(disk_sync, "make_folder", lambda folder, mode=0o777: Path(folder).mkdir(mode, True, True))
    for module in (sqlite, lease, files):
        _replace(module, "make_folder", disk_sync.make_folder)


def _replace(owner: object, name: str, value: object) -> None:
    """Put something else where the program looks up a function or a table."""
    assert hasattr(owner, name)
    setattr(owner, name, value)


def _frozen(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments as they are now: the runner goes on changing its rows."""
    return deepcopy(args)


BUGS: dict[str, Callable[[], None]] = {
    "move-without-comparing": _move_without_comparing,
    "forget-landings": _forget_landings,
    "deliver-late": _deliver_late,
    "believe-anybody": _believe_anybody,
    "write-afterwards": _write_afterwards,
    "continue-commands": _continue_commands,
    "sync-nothing": _sync_nothing,
    "sync-no-objects": _sync_no_objects,
    "sync-no-ref-names": _sync_no_ref_names,
    "refs-unsynced-by-git": _let_git_sync_nothing,
    "sync-no-folders": _sync_no_folders,
    REBOOTED: _pretend_reboot,
}


def plant(bug: str) -> None:
    """Put a bug in place; an empty name leaves the program as it is."""
    if bug:
        BUGS[bug]()


if __name__ == "__main__":
    from holdfast.cli.main import main

    plant(sys.argv.pop(1))
    sys.exit(main())
