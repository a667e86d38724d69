"""The resume note of a run that rests: a file for people. Nothing reads it; the journal has all of it."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime

from holdfast.core import ids
from holdfast.core.resume_note import resume_note
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus
from holdfast.errors import HoldfastError
from holdfast.repo.files import write_atomically
from holdfast.repo.repository import Repository
from holdfast.repo.snapshots import refs_by_commit

_RESTING = (RunStatus.PAUSED, RunStatus.STOPPED, RunStatus.BLOCKED)


def leave_note(repo: Repository, state: RunState) -> None:
    """Write where a run rests that can be carried on. Written again, the file is replaced as a whole."""
    run = state.row.run
    if state.row.status not in _RESTING:
        return
    at = f"{datetime.fromtimestamp(time.time(), UTC):%Y-%m-%d %H:%M:%S} UTC"
    # The run rests safely in the journal by now: a full disk may cost this note, but not the run's good end.
    with suppress(OSError, HoldfastError):
        text = resume_note(state, refs_by_commit(repo, ids.run_refs_prefix(run)), at)
        write_atomically(repo.state.run(run).note, text.encode("utf-8", "surrogateescape"))
