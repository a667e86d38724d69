"""Where the programs on a PATH keep what they need to run: the folders that a sandbox must show again.

Programs may be installed below the home (pyenv, nvm, cargo, pipx, uv, ~/.local/bin) or in the project (.venv). Next to
them lie things that no agent may see. So only what a program needs is named: its folder, the installation that a link
leads to, and what known tool chains add. What a plan names, and what lies in the checkout, is a stranger's word: it shows
itself, and nothing that a link or a settings file there points to. Reads folders and links, starts nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from holdfast.process.sandbox import is_below

_MARKS = ("lib", "lib64", "libexec", "pyvenv.cfg")
"""What lies beside `bin` in an installation."""
_WHOLE = ("shims", ".bin")
"""Folders of programs that are useless without the folder around them, as pyenv and npm make them."""
_ENVIRONMENT = ("bin", "include", "lib", "lib64", "pyvenv.cfg", "share")
"""What a virtual environment consists of."""
_ACTIVATE = "activate"
"""What shells read of a virtual environment: no program."""
_PACKAGES = ("node_modules", ".bin")
"""Programs there are links into the packages beside them."""
_TOOL_CHAINS = {
    ".cargo/bin": (".rustup/toolchains", ".rustup/settings.toml"),
    ".volta/bin": (".volta/tools",),
    ".bun/bin": (".bun/install/global",),
    ".local/bin": (".local/lib",),
}
"""What the programs in a folder of the home need besides that folder."""
_SHARED_BY_MANY = (".local", ".cargo")
"""Folders of the home that look like one installation and are not: they also hold logins and other programs' data."""
_KEPT_BY_TOOLS = (
    ".pyenv/versions", ".local/share/uv/python", ".local/share/mise/installs", ".asdf/installs", ".rye/py", ".nvm/versions/node",
    "miniconda3", "anaconda3", "miniforge3",
)  # fmt: skip
"""Folders of the home that hold nothing but installations: these are shown even if a stranger names them."""
_LINKS_MAX = 40
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
    search_path: str, programs: Iterable[str], home: Path, checkout: Path, unseen: tuple[Path, ...]
) -> ToolFolders:
    """Return what must be shown so that these programs and those on a PATH can run although `unseen` folders are empty.

    The PATH and the home must be the user's own, not those that a plan gives its agents. Never one of the unseen folders
    itself is shown, or one around it. Holdfast's own program is shown: agents report by it.
    """
    named = [Path(folder) for folder in search_path.split(":") if folder.startswith("/")]
    folders = [folder for folder in (*named, *_own_folders()) if is_below(folder.resolve(), unseen)]
    strange = [folder for folder in folders if _leads_through(folder, checkout)]
    layout = _Layout(home, checkout)
    trusted = (path for folder in folders if folder not in strange for path in layout.needed_by(folder))
    wanted = dict.fromkeys(path for path in trusted if _may_be_shown(path.resolve(), unseen))
    bases = (*wanted, Path(sys.base_prefix), *(home / name for name in _KEPT_BY_TOOLS))
    layout = _Layout(home, checkout, tuple(base.resolve() for base in bases))
    wanted |= dict.fromkeys(path for folder in strange for path in layout.in_checkout(folder))
    wanted |= dict.fromkeys(path for program in programs for path in layout.named_program(Path(program)))
    shown = tuple(path for path in wanted if _may_be_shown(path.resolve(), unseen))
    logins = (home / path for path in _LOGINS)
    return ToolFolders(shown, tuple(path for path in logins if is_below(path, shown)))


def _may_be_shown(real: Path, unseen: tuple[Path, ...]) -> bool:
    return is_below(real, unseen) and not any(is_below(root, [real]) for root in unseen)


def _own_folders() -> Iterator[Path]:
    """Yield where this interpreter and Holdfast itself are."""
    yield Path(sys.prefix, "bin")
    yield Path(sys.base_prefix, "bin")
    yield Path(__file__).parents[2]


def _leads_through(path: Path, folder: Path) -> bool:
    """Tell whether a path lies in a folder, or comes by there on the way to where its links lead."""
    for _ in range(_LINKS_MAX):
        if any(is_below(part.resolve(), [folder]) for part in (path, *path.parents)):
            return True
        if not path.is_symlink():
            return False
        path = path.parent / path.readlink()
    return True


def _has_link(path: Path, top: Path) -> bool:
    """Tell whether a path below a folder goes through a link on its way down from there."""
    return any(part.is_symlink() for part in (path, *path.parents) if is_below(part, [top]) and part != top)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where programs are on this machine. Of installations that strangers name, only those in `bases` are believed."""

    home: Path
    checkout: Path
    bases: tuple[Path, ...] = ()

    def needed_by(self, folder: Path) -> Iterator[Path]:
        """Yield what the programs in a folder of the user's PATH need."""
        yield folder
        yield from self._installation(folder)
        if folder.is_relative_to(self.home):
            more = _TOOL_CHAINS.get(str(folder.relative_to(self.home)), ())
            yield from (self.home / path for path in more)
        for link in _links(folder):
            if _leads_through(link, self.checkout):
                continue
            target = link.resolve()
            yield from self._installation(target.parent) or [target.parent]

    def in_checkout(self, folder: Path) -> Iterator[Path]:
        """Yield what is shown for a folder that the repository may have made, also as a link to any other folder."""
        real = folder.resolve()
        if not is_below(real, [self.checkout]):
            yield from self._environment(real)
        elif not _has_link(folder, self.checkout):
            yield folder
            if root := self._root(real):
                yield root
                yield from self._known_python(root)

    def named_program(self, path: Path) -> Iterator[Path]:
        """Yield what a program needs that is named by its path. Nothing else of its folder, which no user may have thought of."""
        if not (
            path.is_absolute() and path.is_file() and (os.access(path, os.X_OK) or path.name == _ACTIVATE)
        ):
            return
        real = path.resolve()
        if path.parts[-3:-1] == _PACKAGES and path.parents[1].resolve() == path.parents[1]:
            yield path.parents[1]
        yield from self._environment(path.parent.resolve())
        if is_below(real, self.bases) and (root := self._root(real.parent)) and is_below(root, self.bases):
            yield root
        if is_below(real, [self.checkout, *self.bases]) or not _leads_through(path, self.checkout):
            yield path
            yield real

    def _environment(self, folder: Path) -> Iterator[Path]:
        """Yield a virtual environment by its folder of programs, and its Python. A stranger can make any folder look like one,
        so nothing else of it.
        """
        root = folder.parent
        if folder.name == "bin" and (root / "pyvenv.cfg").is_file():
            parts = (root / name for name in _ENVIRONMENT)
            yield from (part for part in parts if is_below(part.resolve(), [root, *self.bases]))
            yield from self._known_python(root)

    def _known_python(self, root: Path) -> Iterator[Path]:
        return (path for path in _base_python(root) if is_below(path.resolve(), self.bases))

    def _installation(self, folder: Path) -> list[Path]:
        """Return the installation that a folder of programs belongs to, if any, and that of the Python it was made from."""
        root = self._root(folder.resolve())
        return [root, *_base_python(root)] if root else []

    def _root(self, real: Path) -> Path | None:
        """Return the folder of the installation that a folder of programs belongs to."""
        root = real.parent
        if root in {self.home / path for path in _SHARED_BY_MANY}:
            return None
        is_installed = real.name == "bin" and any((root / mark).exists() for mark in _MARKS)
        return root if real.name in _WHOLE or is_installed else None


def _base_python(root: Path) -> list[Path]:
    """Return the installation of the Python that a virtual environment was made from, also by the name that its links use."""
    try:
        with (root / "pyvenv.cfg").open(encoding="utf-8", errors="replace") as file:
            pairs = [line.partition("=") for line in file.read(_SETTINGS_BYTES).splitlines()]
    except OSError:
        return []
    homes = (Path(value.strip()) for key, _, value in pairs if key.strip() == "home")
    return [path for home in homes for path in dict.fromkeys((home.parent, home.resolve().parent))]


def _links(folder: Path) -> list[Path]:
    try:
        return [path for path in islice(folder.iterdir(), _ENTRIES_MAX) if path.is_symlink()]
    except OSError:
        return []
