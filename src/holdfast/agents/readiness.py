"""Whether an agent looks ready to work: it has a key in the environment, or its own login on disk. No model is asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from holdfast.agents.preset import Preset


def what_is_missing(preset: Preset, env: Mapping[str, str]) -> str:
    """Return what would have to be there before the agent can work, in words; empty if it looks ready.

    An agent that names neither keys nor logins needs none as far as anybody knows.
    """
    if not preset.keys and not preset.credentials:
        return ""
    if any(env.get(key) for key in preset.keys) or any(_exists(path, env) for path in preset.credentials):
        return ""
    ways = [f"set {preset.keys[0]}"] if preset.keys else []
    ways += ["log in with it once"] if preset.credentials else []
    return " or ".join(ways)


def _exists(path: str, env: Mapping[str, str]) -> bool:
    """Tell whether a login is on disk. A path through a variable that is not set is nowhere."""
    folder, _, rest = path.partition("/")
    if folder.startswith("$"):
        folder = env.get(folder[1:], "")
        return bool(folder) and Path(folder, rest).is_file()
    return Path(os.path.expanduser(path)).is_file()  # noqa: PTH111 - pathlib raises where there is no home
