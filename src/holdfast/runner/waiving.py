"""Carrying out the user's word that a stage goes on although its gate failed, whether a runner lives or not."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.state import RunState
from holdfast.core.waivers import waivers
from holdfast.journal.lease import holder
from holdfast.journal.protocol import Journal
from holdfast.repo.repository import Repository
from holdfast.runner.requests import Request, leave_request
from holdfast.runner.steering import decide_by_hand


def waive_gates(repo: Repository, journal: Journal, run: str, stages: Sequence[str]) -> bool:
    """Waive the failed gates of these stages; tell whether a live runner was asked to, rather than it being done.

    All of them can be waived or none is. A gate that was waived before is no longer blocked, which is said.
    """
    stored = journal.load(run)
    events = waivers(RunState(stored.plan, stored.row, stored.tasks), stages)
    directory = repo.state.run(run)
    if holder(directory.lease) is not None:
        for event in events:
            leave_request(directory, Request(action="accept", stage=event.stage, gate=event.gate))
        return True
    for event in events:
        decide_by_hand(repo, journal, run, event)
    return False
