"""Programs on a PATH of their own, to be found as installed agents."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.repositories import write


def install(folder: Path, name: str, script: str) -> None:
    """Put a shell script of this name into a folder."""
    write(folder / name, f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def only_tools(folder: Path, **env: str) -> dict[str, str]:
    """Return an environment whose PATH has these tools and git, and whose home has no logins."""
    git = Path(shutil.which("git") or "git").parent
    cleared = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MISTRAL_API_KEY"), "")
    return {"PATH": f"{folder}:{git}", "HOME": str(folder), **cleared, **env}
