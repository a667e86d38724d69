"""A private git directory over the repository's objects, whose configuration no agent can have written.

An agent shares the repository's `.git`: it can plant filters, drivers and monitors in its configuration. So
every command of Holdfast that reads or writes files, or merges, runs here instead. It has the same objects,
ignore rules and LFS store, and the user's global and system configuration, but only harmless settings of the
repository's own configuration.

Content filters (git-lfs --local, git-crypt) are commands, but without the user's own we would store wrong content.
They are copied once, when Holdfast first uses the repository. Later ones may be an agent's and are not used.
"""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.repo.discovery import GitConfig
from holdfast.repo.files import link_atomically, write_atomically, write_durably

PRIVATE_DIR = "holdfast-private"
_GIT_DIR = "sealed"
_FILTER = re.compile(r"filter\..+\.(clean|smudge|process|required)")
_HARMLESS = re.compile(
    r"core\.(autocrlf|eol|filemode|symlinks|ignorecase|precomposeunicode|excludesfile|attributesfile"
    r"|bigfilethreshold|compression|checkroundtripencoding)"
    r"|extensions\.(objectformat|partialclone)"
    r"|remote\..+\.(url|promisor|partialclonefilter)"
    r"|lfs\..+"
)
# Read through links, so that they are always up to date.
_SHARED = ("objects", "info", "shallow", "lfs", "git-crypt")


def private_dir(common_dir: Path) -> Path:
    """Return the folder inside the git directory where Holdfast keeps its indexes and the private git directory."""
    return common_dir / PRIVATE_DIR


def make_private_git_dir(common_dir: Path, config: GitConfig) -> Path:
    """Make the private git directory, or bring an existing one up to date; return its path."""
    root = private_dir(common_dir) / _GIT_DIR
    (root / "refs").mkdir(parents=True, exist_ok=True)
    for name in _SHARED:
        link_atomically(root / name, common_dir / name)
    filters = root / "filters"
    if not filters.is_file():
        # Lost to a power cut, they would be copied again, and could be an agent's by then.
        write_durably(filters, render_config(_matching(_FILTER, config)))
    write_atomically(root / "config", _config_file(config, filters))
    write_atomically(root / "HEAD", b"ref: refs/heads/none\n")
    return root


def unaccepted_filters(common_dir: Path, config: GitConfig) -> list[str]:
    """Return the content filters that entered the repository's configuration after Holdfast first used it."""
    accepted = (private_dir(common_dir) / _GIT_DIR / "filters").read_bytes()
    return sorted({pair[0] for pair in _matching(_FILTER, config) if render_config([pair]) not in accepted})


def _config_file(config: GitConfig, filters: Path) -> bytes:
    own = [
        ("core.repositoryformatversion", "1"),
        ("core.bare", "false"),
        # Nothing is reachable from here, so garbage collection would delete everything.
        ("extensions.preciousobjects", "true"),
        ("include.path", str(filters)),
    ]
    return render_config(_matching(_HARMLESS, config) + own)


def _matching(keys: re.Pattern[str], config: GitConfig) -> list[tuple[str, str]]:
    return [pair for pair in config.local if keys.fullmatch(pair[0])]


def render_config(pairs: list[tuple[str, str]]) -> bytes:
    """Return settings as a configuration file of git."""
    lines = []
    for key, value in pairs:
        section, _, rest = key.partition(".")
        subsection, _, name = rest.rpartition(".")
        title = f'{section} "{_escape(subsection)}"' if subsection else section
        lines.append(f'[{title}]\n\t{name} = "{_escape(value)}"\n')
    return "".join(lines).encode("utf-8", "surrogateescape")


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
