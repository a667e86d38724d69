"""Asks the user about content filters in the repository's configuration that no record says are accepted.

They are newer than the first run, or `rebuild` made the journal anew: git does not know what the user accepted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from holdfast.cli.open_repo import OpenRepo
from holdfast.cli.output import note
from holdfast.cli.prompts import confirm, is_interactive
from holdfast.repo.git import Setting
from holdfast.runner.content_filters import accept_filters

_WHY = "it is newer than the first run, or the journal that knew it was lost"


def ask_about_filters(opened: OpenRepo) -> OpenRepo:
    """Return the repository with the accepted content filters in use; on a terminal the user decides about new ones.

    `--yes` does not accept any: it is about the plan, and an agent may have written them.
    """
    return replace(opened, repo=accept_filters(opened.repo, opened.journal, _agrees))


def _agrees(filters: Sequence[Setting]) -> bool:
    if not is_interactive():
        for key, _ in filters:
            note(f"{key} in the repository's configuration is not used: {_WHY}. On a terminal you are asked.")
        return False
    for key, value in filters:
        note(f"{key} = {value!r} is in the repository's configuration: {_WHY}.")
    return confirm("Did you put it there, and shall git run it on the files of runs?", yes=False)
