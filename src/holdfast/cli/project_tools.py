"""What the files of a project say about how it is set up and checked: the proposals that `init` writes into a plan.

What a lock file says is certain, if its program is installed. All else is a guess, and is written as a comment.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from holdfast.repo.repository import Repository


class _Installer(NamedTuple):
    """A tool that installs what a lock file names: its program, its command, its files, and where it installs."""

    lock: str
    program: str
    command: str
    manifest: str
    folders: tuple[str, ...]


_INSTALLERS = (
    _Installer("package-lock.json", "npm", "npm ci", "package.json", ("node_modules",)),
    _Installer("pnpm-lock.yaml", "pnpm", "pnpm install --frozen-lockfile", "package.json", ("node_modules",)),
    _Installer("yarn.lock", "yarn", "yarn install --frozen-lockfile", "package.json", ("node_modules",)),
    _Installer("bun.lock", "bun", "bun install --frozen-lockfile", "package.json", ("node_modules",)),
    _Installer("bun.lockb", "bun", "bun install --frozen-lockfile", "package.json", ("node_modules",)),
    _Installer("uv.lock", "uv", "uv sync --frozen", "pyproject.toml", (".venv",)),
    _Installer(
        "poetry.lock",
        "poetry",
        "POETRY_VIRTUALENVS_IN_PROJECT=true poetry install --no-interaction",
        "pyproject.toml",
        (".venv",),
    ),
    _Installer(
        "Gemfile.lock",
        "bundle",
        "bundle config set --local path vendor/bundle && bundle install",
        "Gemfile",
        ("vendor/bundle", ".bundle"),
    ),
    _Installer(
        "composer.lock", "composer", "composer install --no-interaction", "composer.json", ("vendor",)
    ),
)
_COMPOSE = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
_PYTEST_FILES = ("pytest.ini", "conftest.py", "tests/conftest.py")
_READ_BYTES = 1024 * 1024


@dataclass(slots=True)
class Proposal:
    """What to write under `workspace:` and `verify:`. `guesses` are lines of comment for the first, `checks` for the second."""

    setup: list[str] = field(default_factory=list)
    setup_when: list[str] = field(default_factory=list)
    keep: list[str] = field(default_factory=list)
    ports: int = 0
    guesses: list[str] = field(default_factory=list)
    verify: list[str] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)

    def workspace_text(self) -> str:
        """Return the part of a plan that makes workspaces ready; empty if nothing was found."""
        known = {"setup": self.setup, "setup_when": self.setup_when, "keep": self.keep}
        lines = [f"{key}: {json.dumps(values)}" for key, values in known.items() if values]
        lines += [f"ports: {self.ports}"] if self.ports else []
        guesses = [f"# {line}" for line in self.guesses]
        if lines:
            body = ["workspace:", *(f"  {line}" for line in [*lines, *guesses])]
        elif guesses:
            body = ["# workspace:", *(f"#   {line}" for line in self.guesses)]
        else:
            return ""
        return "\n".join(
            ["", "# What makes a workspace ready, as far as your files tell. None of it lands.", *body, ""]
        )

    def verify_text(self) -> str:
        """Return the checks of a plan, or an example as a comment."""
        if self.verify:
            return f"verify: {json.dumps(self.verify)}"
        return f"# verify: {json.dumps(self.checks or ['pytest -q'])}"


def propose(repo: Repository, is_installed: Callable[[str], bool] | None = None) -> Proposal:
    """Look at the files at the root of a checkout and propose how workspaces are set up and checked. Runs nothing but git."""
    installed = is_installed or (lambda program: shutil.which(program) is not None)
    found, root = Proposal(), repo.checkout
    for tool in _INSTALLERS:
        if (root / tool.lock).is_file() and not _tracks(repo, tool.folders):
            _install(found, root, tool, is_live=installed(tool.program))
    if (root / "Cargo.toml").is_file() and not _tracks(repo, ("target",)):
        found.keep.append("target")
    found.guesses += _python_guesses(root, found)
    found.guesses += _secrets_guesses(repo)
    compose = next((name for name in _COMPOSE if (root / name).is_file()), "")
    if compose:
        found.ports = 2
        found.guesses.append(
            f"let {compose} use $HOLDFAST_PORT_1, … so that agents side by side do not collide"
        )
    for program, command in _checks(root):
        (found.verify if installed(program) else found.checks).append(command)
    return found


def _install(found: Proposal, root: Path, tool: _Installer, *, is_live: bool) -> None:
    files = [name for name in (tool.manifest, tool.lock) if (root / name).is_file()]
    if not is_live:
        found.guesses.append(f"setup: {json.dumps([tool.command])}   # {tool.program} is not installed here")
    elif not set(tool.folders) & set(found.keep):  # a second lock file for the same folder
        found.setup.append(tool.command)
        found.setup_when += files
        found.keep += tool.folders


def _python_guesses(root: Path, found: Proposal) -> Iterator[str]:
    """Propose a virtual environment where no lock file says how to make one."""
    if ".venv" in found.keep or any((root / name).is_file() for name in ("uv.lock", "poetry.lock")):
        return
    wanted = [f"-r {path.name}" for path in sorted(root.glob("requirements*.txt"))]
    if not wanted and (root / "pyproject.toml").is_file():
        wanted = ["-e ."]
    if wanted:
        command = f"python3 -m venv .venv && .venv/bin/pip install {' '.join(wanted)}"
        yield f'setup: {json.dumps([command])}   # then keep: [".venv"], and .venv/bin/… in verify'


def _secrets_guesses(repo: Repository) -> Iterator[str]:
    """Propose to copy `.env`, never by itself: agents would see what is in it."""
    if (repo.checkout / ".env").is_file() and not _tracks(repo, (".env",)):
        yield 'copy: [".env"]   # agents and checks would see what is in it'
    elif (repo.checkout / ".env.example").is_file():
        yield 'copy: [".env"]   # once you have made one from .env.example'


def _checks(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the test commands of a project, each with the program that it needs; `make test` only if there is no other."""
    found = [*_node_checks(root), *_python_checks(root)]
    if (root / "Cargo.toml").is_file():
        found.append(("cargo", "cargo test"))
    if (root / "go.mod").is_file():
        found.append(("go", "go test ./..."))
    if (root / ".rspec").is_file():
        found.append(("bundle", "bundle exec rspec"))
    if not found and re.search(r"(?m)^test\s*:", _text(root / "Makefile")):
        found.append(("make", "make test"))
    yield from found


def _node_checks(root: Path) -> Iterator[tuple[str, str]]:
    with suppress(ValueError, AttributeError):
        script = json.loads(_text(root / "package.json") or "{}").get("scripts", {}).get("test", "")
        if script and "no test specified" not in script:
            locks = (tool for tool in _INSTALLERS if tool.manifest == "package.json")
            manager = next((tool.program for tool in locks if (root / tool.lock).is_file()), "npm")
            yield manager, f"{manager} test" if manager != "bun" else "bun run test"


def _python_checks(root: Path) -> Iterator[tuple[str, str]]:
    has_tests = any((root / name).is_file() for name in _PYTEST_FILES) or any(root.glob("tests/test_*.py"))
    if not has_tests and "pytest" not in _text(root / "pyproject.toml"):
        return
    if (root / "uv.lock").is_file():
        yield "uv", "uv run --frozen pytest -q"
    elif (root / "poetry.lock").is_file():
        yield "poetry", "POETRY_VIRTUALENVS_IN_PROJECT=true poetry run pytest -q"
    else:
        yield "pytest", "pytest -q"


def _tracks(repo: Repository, paths: tuple[str, ...]) -> bool:
    """Tell whether git tracks one of these paths, or something below it, in the commit that HEAD is on."""
    return any(
        bool(repo.git.try_run("ls-tree", "-z", "--name-only", "HEAD", "--", path).stdout) for path in paths
    )


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_READ_BYTES).decode("utf-8", "replace") if path.is_file() else ""
    except OSError:
        return ""
