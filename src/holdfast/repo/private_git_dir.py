"""A private git directory over the repository's objects and refs: its configuration is ours, not an agent's.

An agent shares the repository's `.git`: it can plant filters, drivers, monitors, remotes and signing programs in its
configuration. So every command of Holdfast takes its configuration from here (`GIT_COMMON_DIR`). It has the same objects,
refs and ignore rules, and the user's global and system configuration, but of the repository's own
configuration only settings that name no program and no place to fetch from.

An agent could write here, too. So these settings stay in memory and go to git in its environment. The configuration
file says only what git wants to read in a file, the same for every process, and is compared before each call.

Content filters (git-lfs --local, git-crypt) are commands, but without the user's own we would store wrong content. Only
those are used that the user accepted, each with its very command; whoever opens the journal knows them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from pathlib import Path

from holdfast.repo.discovery import GitConfig
from holdfast.repo.files import link_atomically, write_atomically
from holdfast.repo.git import Setting

PRIVATE_DIR = "holdfast-private"
_GIT_DIR = "sealed"
_FILTER = re.compile(r"filter\..+\.(clean|smudge|process|required)")
# Of git-lfs only what says where content is: extensions and transfer agents are programs.
_HARMLESS = re.compile(
    r"core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|excludesfile|attributesfile"
    r"|bigfilethreshold|compression|checkroundtripencoding|sharedrepository|logallrefupdates)"
    r"|remote\..+\.(url|promisor|partialclonefilter|lfsurl)"
    r"|lfs\.(url|fetchinclude|fetchexclude|repositoryformatversion)"
    r"|lfs\..+\.(access|locksverify)"
)
_FORMAT = re.compile(r"extensions\.(objectformat|compatobjectformat|partialclone|relativeworktrees)")
_LFS_STORAGE = "lfs.storage"
# Read and written through links, so that they are always up to date.
_SHARED = ("objects", "refs", "packed-refs", "logs", "worktrees", "info", "shallow", "git-crypt")


def private_dir(common_dir: Path) -> Path:
    """Return the folder inside the git directory where Holdfast keeps its indexes and the private git directory."""
    return common_dir / PRIVATE_DIR


class PrivateGitDir:
    """The private git directory of one repository, with the content filters that the user `accepted`."""

    def __init__(self, common_dir: Path, config: GitConfig, accepted: Collection[Setting]) -> None:
        self.path = private_dir(common_dir) / _GIT_DIR
        self.objects = common_dir / "objects"
        self._common_dir = common_dir
        filters = [setting for setting in configured_filters(config) if setting in accepted]
        self.settings = (*_matching(_HARMLESS, config), *filters, _lfs_storage(common_dir, config))
        self._config = _config_file(config)

    def make(self) -> None:
        """Make the directory, or bring an existing one up to date."""
        self.path.mkdir(parents=True, exist_ok=True)
        (self._common_dir / "logs").mkdir(exist_ok=True)  # git makes no folder behind a link
        for name in _SHARED:
            # Seen from here: a copy of the repository must never write to the one that it was copied from.
            link_atomically(self.path / name, Path("..", "..", name))
        write_atomically(self.path / "HEAD", b"ref: refs/heads/none\n")
        self.restored()

    def restored(self) -> Path:
        """Return the directory after making sure that its configuration is what we put there."""
        write_atomically(self.path / "config", self._config)
        return self.path


def configured_filters(config: GitConfig) -> list[Setting]:
    """Return the content filters in the repository's own configuration, whoever wrote them there."""
    return _matching(_FILTER, config)


def filter_digest(setting: Setting) -> str:
    """Return what stands for a filter with its very command among the things that the user agreed to."""
    return hashlib.sha256("\0".join(("filter", *setting)).encode("utf-8", "surrogateescape")).hexdigest()


def _lfs_storage(common_dir: Path, config: GitConfig) -> Setting:
    """Have git-lfs keep content where the user's own git looks for it."""
    named = next((value for key, value in reversed(config.local) if key == _LFS_STORAGE), "lfs")
    return _LFS_STORAGE, str(common_dir / named)


def _config_file(config: GitConfig) -> bytes:
    own = [
        ("core.repositoryformatversion", "1"),
        ("core.bare", "false"),
        # Other programs may take it for a repository of its own, which needs fewer objects than there are.
        ("extensions.preciousobjects", "true"),
    ]
    return render_config([*_matching(_FORMAT, config), *own])


def _matching(keys: re.Pattern[str], config: GitConfig) -> list[Setting]:
    return [setting for setting in config.local if keys.fullmatch(setting[0])]


def render_config(settings: list[Setting]) -> bytes:
    """Return settings as a configuration file of git."""
    lines = []
    for key, value in settings:
        section, _, rest = key.partition(".")
        subsection, _, name = rest.rpartition(".")
        title = f'{section} "{_escape(subsection)}"' if subsection else section
        lines.append(f'[{title}]\n\t{name} = "{_escape(value)}"\n')
    return "".join(lines).encode("utf-8", "surrogateescape")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
