"""What git's configuration says about a repository, read in one process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.repo.git import Git, Identity

_OF_THE_REPOSITORY = ("local", "worktree")
_OF_THIS_CALL = "command"


@dataclass(frozen=True, slots=True)
class Settings:
    """Keys and values as git lists them: those of the repository itself, and the last word on each key."""

    local: tuple[tuple[str, str], ...]
    in_force: dict[str, str]

    def is_true(self, key: str) -> bool:
        """Tell whether a switch is on."""
        return self.in_force.get(key, "false").lower() in ("true", "yes", "on", "1")

    def identity(self) -> Identity | None:
        """Return the name and address the user commits with, or None if git has not been told."""
        name, email = self.in_force.get("user.name", ""), self.in_force.get("user.email", "")
        return Identity(name, email) if name and email else None


def read_settings(common_dir: Path) -> Settings:
    """Read the configuration of a repository, of its user and of the machine."""
    listing = Git(common_dir).run("config", "--list", "--show-scope", "-z").decode("utf-8", "surrogateescape")
    fields = listing.split("\0")
    scoped = [(scope, *_pair(entry)) for scope, entry in zip(fields[::2], fields[1::2], strict=False)]
    local = tuple((key, value) for scope, key, value in scoped if scope in _OF_THE_REPOSITORY)
    return Settings(local, {key: value for scope, key, value in scoped if scope != _OF_THIS_CALL})


def _pair(entry: str) -> tuple[str, str]:
    """Split an entry; a key alone, without a value, means true."""
    key, newline, value = entry.partition("\n")
    return key, value if newline else "true"
