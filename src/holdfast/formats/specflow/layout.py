"""Where SpecFlow keeps its files, spelled once. A prefix is what stands before `.specflow` in a path."""

from __future__ import annotations

import re

HOME = ".specflow"
CONTINUE = f"{HOME}/.continue-here"
LOCK = f"{HOME}/.state.lock"
STATE_MD = f"{HOME}/STATE.md"
SESSIONS = f"{HOME}/sessions"
PLACES = (f"{HOME}/execution/*.json", f"{HOME}/execution/*/*.json", CONTINUE, f"{SESSIONS}/PAUSE-*.md")
TRACES = (f"/{HOME}/",)
_STATE_NAME = re.compile(r"([^/]+)-state\.json$")
_SPEC_NAME = re.compile(r"(?:^|/)\.specflow/(?:specs|archive)/([^/]+)\.md$")
_PAUSE_NAME = re.compile(r"(?:^|/)PAUSE-[^/]*\.md$")


def state_path(spec: str) -> str:
    """Return where the state of a run lives while it goes on."""
    return f"{HOME}/execution/{spec}-state.json"


def archive_path(spec: str) -> str:
    """Return where the state of a run is kept once it is done."""
    return f"{HOME}/execution/archive/{spec}-state.json"


def spec_path(spec: str) -> str:
    """Return where a specification is."""
    return f"{HOME}/specs/{spec}.md"


def spec_in(path: str) -> str:
    """Return the specification that a path names, or nothing."""
    found = _STATE_NAME.search(path) or _SPEC_NAME.search(path)
    return found[1] if found else ""


def prefix_of(path: str) -> str:
    """Return what stands before `.specflow` in a path: a folder with its slash, or nothing."""
    before, found, _ = path.rpartition(f"{HOME}/")
    return before if found else ""


def is_execution(path: str) -> bool:
    """Tell whether a path is among the states of runs."""
    return f"{HOME}/execution/" in path and path.endswith(".json")


def is_spec(path: str) -> bool:
    """Tell whether a path is that of a specification."""
    return _SPEC_NAME.search(path) is not None


def is_pause_note(path: str) -> bool:
    """Tell whether a path is the note of a pause in single mode."""
    return _PAUSE_NAME.search(path) is not None
