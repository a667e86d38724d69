"""What decides how the user's own git behaves in a repository: its configuration, hooks and branches.

Holdfast itself does not follow them (see `private_git_dir.py`), but the user's next git command does, and an agent can write
them. So a run remembers digests of what was there when it began. Values may be secret: nobody shows or keeps them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator

from holdfast.core.ids import ALL_RUN_BRANCHES
from holdfast.repo.discovery import read_git_config
from holdfast.repo.files import read_regular
from holdfast.repo.refs import list_refs
from holdfast.repo.repository import Repository

_DIGEST_CHARS = 16
_BRANCHES = "refs/heads/"
_BRANCHES_MAX = 500
_BRANCHES_KNOWN = ("the branches are among these", "")
# What ordinary git commands of the user write, and what runs no program.
_ORDINARY = ("branch.", "user.")

_Item = tuple[str, str]
"""A name that the user knows, and what it stands for now."""


def settings_digests(repo: Repository) -> tuple[str, ...]:
    """Return what stands for the present configuration, hooks and branches of a repository."""
    branches = list(_branches(repo))
    known = [*branches, _BRANCHES_KNOWN] if len(branches) <= _BRANCHES_MAX else []
    return tuple(sorted({_digest(item) for item in [*_settings(repo), *_hooks(repo), *known]}))


def new_settings(repo: Repository, digests: Collection[str]) -> list[str]:
    """Return the names of settings, hooks and branches that are new or changed since these digests were taken."""
    branches = _branches(repo) if _digest(_BRANCHES_KNOWN) in digests else iter(())
    now = [*_settings(repo), *_hooks(repo), *branches]
    return list(dict.fromkeys(item[0] for item in now if _digest(item) not in digests))


def _settings(repo: Repository) -> Iterator[_Item]:
    """Yield the settings of the repository as they are now, not as they were when it was opened."""
    for key, value in read_git_config(repo.common_dir).local:
        if not key.startswith(_ORDINARY):
            yield key, value


def _hooks(repo: Repository) -> Iterator[_Item]:
    for path in sorted((repo.common_dir / "hooks").glob("*")):
        if path.suffix != ".sample":
            yield f"hooks/{path.name}", hashlib.sha256(read_regular(path)).hexdigest()


def _branches(repo: Repository) -> Iterator[_Item]:
    """Yield the branches by name alone: the user moves them."""
    for ref in list_refs(repo, _BRANCHES):
        if not ref.startswith(ALL_RUN_BRANCHES):
            yield f"branch {ref.removeprefix(_BRANCHES)}", ""


def _digest(item: _Item) -> str:
    return hashlib.sha256("\0".join(item).encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_CHARS]
