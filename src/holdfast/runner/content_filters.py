"""Which content filters of the repository's own configuration the user accepted: git runs their commands on every file.

An agent can write that configuration. So a filter is used only if its very command is on record in the journal, like the
plans that the user agreed to. Those that the repository has before its first run are the user's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from holdfast.journal.protocol import Journal, JournalReader
from holdfast.repo.git import Setting
from holdfast.repo.private_git_dir import configured_filters, filter_digest
from holdfast.repo.refs import known_runs
from holdfast.repo.repository import Repository

_FIRST_USE: Setting = ("", "")
"""On record once the filters that were there before the first run are accepted. No setting has an empty key."""


def with_accepted_filters(repo: Repository, journal: JournalReader) -> Repository:
    """Return the repository with the filters in use that the user accepted."""
    found = configured_filters(repo.config)
    return repo.with_filters([setting for setting in found if journal.is_confirmed(filter_digest(setting))])


def accept_filters(
    repo: Repository, journal: Journal, agrees: Callable[[Sequence[Setting]], bool]
) -> Repository:
    """Ask about filters that are not on record, and return the repository with the accepted ones in use.

    Before the first run nobody is asked: no agent was at work yet.
    """
    asked = [
        found for found in configured_filters(repo.config) if not journal.is_confirmed(filter_digest(found))
    ]
    if _is_unused(repo, journal):
        _record(journal, [*asked, _FIRST_USE])
    elif asked and agrees(asked):
        _record(journal, asked)
    return with_accepted_filters(repo, journal)


def _is_unused(repo: Repository, journal: Journal) -> bool:
    """Tell whether no run ever was in this repository, not even one that was cleaned away."""
    if journal.is_confirmed(filter_digest(_FIRST_USE)):
        return False
    return journal.next_run_number() == 1 and not known_runs(repo)


def _record(journal: Journal, settings: Sequence[Setting]) -> None:
    for setting in settings:
        journal.confirm_plan(filter_digest(setting), time.time())
