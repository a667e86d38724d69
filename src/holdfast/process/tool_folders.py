"""Where the programs on a PATH keep what they need to run: the folders that a sandbox must show again.

Programs may be installed below the home (pyenv, nvm, cargo, pipx, uv, ~/.local/bin) or in the project (.venv). Next to
them lie things that no agent may see. So only what a program needs is named: its folder, the installation that a link
leads to, and what known tool chains add. Reads folders and links, starts nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from os import X_OK, access
from pathlib import Path

from holdfast.process.sandbox import is_below

_MARKS = ("lib", "lib64", "libexec", "pyvenv.cfg")
"""What lies beside `bin` in an installation."""
_WHOLE = ("shims", ".bin")
"""Folders of programs that are useless without the folder around them, as pyenv and npm make them."""
_TOOL_CHAINS = {
    ".cargo/bin": (".rustup/toolchains", ".rustup/settings.toml"),
    ".volta/bin": (".volta/tools",),
    ".bun/bin": (".bun/install/global",),
    ".local/bin": (".local/lib",),
}
"""What the programs in a folder of the home need besides that folder."""
_SHARED_BY_MANY = (".local", ".cargo")
"""Folders of the home that look like one installation and are not: they also hold logins and other programs' data."""
_ENTRIES_MAX = 4000
_SETTINGS_BYTES = 4096

_LOGINS = (
    ".cargo/credentials", ".cargo/credentials.toml", ".npmrc", ".yarnrc.yml", ".pypirc", ".netrc", ".git-credentials",
    ".docker/config.json", ".gem/credentials", ".m2/settings.xml", ".config/gh/hosts.yml", ".config/pip/pip.conf",
)  # fmt: skip
"""Files of the home that a sandbox never shows, even if the folder around them is shown."""


@dataclass(frozen=True, slots=True)
class ToolFolders:
    """What programs need to run, and the files in there that nobody may read."""

    folders: tuple[Path, ...]
    logins: tuple[Path, ...]


def tools_to_show(
    search_path: str, programs: tuple[str, ...], home: Path, unseen: tuple[Path, ...]
) -> ToolFolders:
    """Return what must be shown so that these programs and those on a PATH can run although `unseen` folders are empty.

    Never one of these folders itself, or one around it. Holdfast's own program is among them: agents report by it.
    """
    named = [Path(folder) for folder in search_path.split(":") if folder.startswith("/")]
    wanted = dict.fromkeys(
        path
        for folder in (*named, *_own_folders())
        if is_below(folder.resolve(), unseen)
        for path in _needed_by(folder, home)
        if is_below(path.resolve(), unseen)
    ) | dict.fromkeys(
        path
        for program in programs
        for path in _named_program(program, home)
        if is_below(path.resolve(), unseen)
    )
    shown = tuple(path for path in wanted if not any(is_below(root, [path.resolve()]) for root in unseen))
    logins = (home / path for path in _LOGINS)
    return ToolFolders(shown, tuple(path for path in logins if is_below(path, shown)))


def _own_folders() -> Iterator[Path]:
    """Yield where this interpreter and Holdfast itself are."""
    yield Path(sys.prefix, "bin")
    yield Path(sys.base_prefix, "bin")
    yield Path(__file__).parents[2]


def _named_program(program: str, home: Path) -> Iterator[Path]:
    """Yield what a program needs that is named by its path. Nothing else of its folder, which no user may have thought of."""
    path = Path(program)
    if path.is_absolute() and path.is_file() and access(path, X_OK):
        for file in dict.fromkeys((path, path.resolve())):
            yield file
            yield from _installation(file.parent, home)


def _needed_by(folder: Path, home: Path) -> Iterator[Path]:
    yield folder
    yield from _installation(folder, home)
    if folder.is_relative_to(home):
        yield from (home / path for path in _TOOL_CHAINS.get(str(folder.relative_to(home)), ()))
    for target in _link_targets(folder):
        yield from _installation(target.parent, home) or [target.parent]


def _installation(folder: Path, home: Path) -> list[Path]:
    """Return the installation that a folder of programs belongs to, if any, and that of the Python it was made from."""
    real = folder.resolve()
    root = real.parent
    if root in {home / path for path in _SHARED_BY_MANY}:
        return []
    if real.name not in _WHOLE and not (
        real.name == "bin" and any((root / mark).exists() for mark in _MARKS)
    ):
        return []
    return [root, *_base_python(root / "pyvenv.cfg")]


def _base_python(settings: Path) -> list[Path]:
    """Return the installation of the Python that a virtual environment was made from."""
    try:
        with settings.open(encoding="utf-8", errors="replace") as file:
            pairs = [line.partition("=") for line in file.read(_SETTINGS_BYTES).splitlines()]
    except OSError:
        return []
    return [Path(value.strip()).resolve().parent for key, _, value in pairs if key.strip() == "home"]


def _link_targets(folder: Path) -> list[Path]:
    try:
        links = [path for path in islice(folder.iterdir(), _ENTRIES_MAX) if path.is_symlink()]
    except OSError:
        return []
    return [link.resolve() for link in links]
