"""The paths of SpecFlow's files, and what they mean. Each path is spelled only here."""

from __future__ import annotations

import glob
import re

HOME = ".specflow"
CONTINUE = f"{HOME}/.continue-here"
LOCK = f"{HOME}/.state.lock"
STATE_MD = f"{HOME}/STATE.md"
_PAUSE_NOTES = f"{HOME}/sessions/PAUSE-*.md"
PLACES = (f"{HOME}/execution/*.json", f"{HOME}/execution/*/*.json", CONTINUE, _PAUSE_NOTES)
TRACES = (f"/{HOME}/",)
_STATE_NAME = re.compile(r"([^/]+)-state\.json$")
_SPEC_NAME = re.compile(r"(?:^|/)\.specflow/(?:specs|archive)/([^/]+)\.md$")
_PAUSE_NAME = re.compile(r"(?:^|/)PAUSE-[^/]*\.md$")


def state_path(spec: str) -> str:
    """Return where the state of a run is while the run is open."""
    return f"{HOME}/execution/{spec}-state.json"


def archive_path(spec: str) -> str:
    """Return where the state of a run is kept after its end."""
    return f"{HOME}/execution/archive/{spec}-state.json"


def spec_path(spec: str) -> str:
    """Return where a specification is."""
    return f"{HOME}/specs/{spec}.md"


def companions(main: str) -> tuple[str, ...]:
    """Return the patterns of a state's files: its specification, pauses, the lock, STATE.md."""
    here = glob.escape(prefix_of(main))
    spec = glob.escape(spec_in(main))
    # Without a name, the archive would add every finished specification.
    archived = (f"{HOME}/archive/{spec}.md",) if spec else ()
    names = (
        state_path(spec or "*"),
        spec_path(spec or "*"),
        *archived,
        CONTINUE,
        LOCK,
        STATE_MD,
        _PAUSE_NOTES,
    )
    return tuple(here + name for name in names)


def spec_in(path: str) -> str:
    """Return the specification that a path names; empty if none."""
    found = _STATE_NAME.search(path) or _SPEC_NAME.search(path)
    return found[1] if found else ""


def prefix_of(path: str) -> str:
    """Return the part of a path before `.specflow`: a folder with its slash, or an empty text."""
    before, found, _ = path.rpartition(f"{HOME}/")
    return before if found else ""


def is_execution(path: str) -> bool:
    """Tell whether a path is among the states of runs."""
    return f"{HOME}/execution/" in path and path.endswith(".json")


def is_spec(path: str, name: str = "") -> bool:
    """Tell whether a path belongs to a specification: any, or the one with this name."""
    found = _SPEC_NAME.search(path)
    return found is not None and name in ("", found[1])


def is_pause(path: str) -> bool:
    """Tell whether a path is `.continue-here`, which marks a paused run."""
    return path.rpartition("/")[2] == CONTINUE.rpartition("/")[2]


def is_pause_note(path: str) -> bool:
    """Tell whether a path is the note of a pause in single mode."""
    return _PAUSE_NAME.search(path) is not None
