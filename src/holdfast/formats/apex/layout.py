"""The paths of APEX, spelled only here. `.codex` is the same family of skills under another agent."""

from __future__ import annotations

import glob
import posixpath
import re

STATE = "state.json"
CONTEXT = "00-context.md"
INIT_HOME = "docs/apex-init"
LINKS = ".claude/apex-state"
CURRENT = f"{LINKS}/current.json"
_HOMES = ".claude/output/apex"
PLACES = (
    f"{_HOMES}/*/{STATE}",
    f"{_HOMES}/*/{CONTEXT}",
    f"{_HOMES}/*/[0-9]*.md",
    f".codex/output/apex/*/{CONTEXT}",
    ".codex/output/apex/*/[0-9]*.md",
    f"{LINKS}/*.json",
    f"{INIT_HOME}/{STATE}",
    "docs/backlog.yaml",
)
TRACES = (f"/{_HOMES}/", f"/{LINKS}/")
_IN_HOME = re.compile(r"(?:^|/)(?:output/apex/([^/]+)|docs/(apex-init))/[^/]+$")
_LINK = re.compile(r"(?:^|/)apex-state/[^/]+\.json$")
_OUTPUT = re.compile(r"(\d{1,3})([a-z]?)-([^/]+)\.md")
_BACKLOG = re.compile(r"(?:^|/)backlog\.ya?ml$")


def home_of(task_id: str) -> str:
    """Return the folder of a task's state and outputs."""
    return f"{_HOMES}/{task_id}"


def companions(main: str) -> tuple[str, ...]:
    """Return the patterns of the files that belong to a state: the outputs of its phases beside it."""
    if is_backlog(main):
        return ()
    if is_link(main):
        task = task_in(main)
        home = glob.escape(home_of(task)) + "*" if task else home_of("*")
        return (f"{home}/{STATE}", f"{home}/*.md") if task else (f"{home}/*.md",)
    home = glob.escape(posixpath.dirname(main))
    return tuple(posixpath.join(home, name) for name in (STATE, "*.md"))


def task_in(main: str) -> str:
    """Return the task that a path names by the folder of its state or by its link; empty if it names none."""
    if is_link(main):
        name = posixpath.basename(main).removesuffix(".json")
        return "" if name == "current" else name
    found = _IN_HOME.search(main)
    return (found[1] or found[2]) if found else ""


def is_state(path: str) -> bool:
    """Tell whether a path is one where APEX keeps a state file."""
    return is_link(path) or (posixpath.basename(path) == STATE and _IN_HOME.search(path) is not None)


def is_link(path: str) -> bool:
    """Tell whether a path is in the folder of links."""
    return _LINK.search(path) is not None


def is_backlog(path: str) -> bool:
    """Tell whether a path is a project's backlog of stories."""
    return _BACKLOG.search(path) is not None


def is_output(path: str) -> bool:
    """Tell whether a path is the output of a phase."""
    return _IN_HOME.search(path) is not None and phase_of_output(path) is not None


def phase_of_output(path: str) -> tuple[str, str] | None:
    """Return the phase of an output file, as number and name: `08b-e2e-chrome.md` is 8b."""
    found = _OUTPUT.fullmatch(posixpath.basename(path))
    return (f"{int(found[1])}{found[2]}", found[3]) if found else None


def output_name(number: str, name: str) -> str:
    """Return the file name of a phase's output: two digits, so that listings sort correctly."""
    found = re.fullmatch(r"(\d+)([a-z]?)", number)
    return f"{int(found[1]):02d}{found[2]}-{name}.md" if found else f"{number}-{name}.md"


def link_to(home: str) -> str:
    """Return the target of a link in the folder of links: relative, so that the project can be moved."""
    return posixpath.relpath(f"{home}/{STATE}", LINKS)
