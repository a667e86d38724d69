"""From a subtask's object to a task: its prompt, its checks, its acceptance criteria and what it must deliver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from holdfast.core.plan import Task
from holdfast.formats.auto_claude.phases import Subtask
from holdfast.formats.lenient_json import Node, first, items, line, node, text, texts
from holdfast.formats.plan_assembly import is_command, is_path

_TITLE_CHARS = 80
_CONTEXT_CHARS = 4_000
_WORDS = ("description", "task", "details", "prompt", "name", "title")
_NO_FILE = ("tbd", "n/a", "none", "na")
_ELSEWHERE = re.compile(r"(?:^|[\s\"'=:])(?:/(?:Users|home|root|private|mnt)/|~/|[A-Za-z]:\\)")
_BLANK = re.compile(r"\[[A-Z][A-Z_ -]{2,}\]|<[a-z][a-z_-]*(?:-|_)[a-z_-]*>")
_PROSE = re.compile(r"(?:[A-Z][a-z]+|\d+[.)])\s")
_NOTHING = re.compile(
    r"^\s*(?:0\b|no\b|none\b|empty\b|nothing\b|zero\b)|\b(?:no|zero) (?:match|result|output|ref)", re.I
)
_SEARCH = re.compile(r"\b(?:grep|rg|find|ag)\b")
_COUNTS = re.compile(r"\|\s*wc\b|^\s*echo\b")


@dataclass(frozen=True, slots=True)
class TaskWithUnusedChecks:
    """A task, and the commands that its verification names but that cannot serve as checks."""

    task: Task
    unused: tuple[str, ...]


def task_of(part: Subtask, needs: tuple[str, ...], context: str) -> TaskWithUnusedChecks:
    """Return the task that a subtask amounts to, without its id. `context` tells what it is part of."""
    found = part.node
    checks, unused = _checks(node(found.get("verification")))
    told = tuple(path for path in texts(found.get("files_to_create")) if path)
    files = tuple(dict.fromkeys(clean for path in told if (clean := _deliverable(found, path))))
    task = Task(
        id="",
        title=_title(found),
        prompt=_prompt(part, [path for path in told if path not in files], context),
        needs=needs,
        files=files,
        verify=checks,
        acceptance=tuple(dict.fromkeys(_acceptance(found, unused))),
    )
    return TaskWithUnusedChecks(task, unused)


def _title(found: Node) -> str:
    """Return the title; without one, the beginning of what is asked for, as listings show."""
    if isinstance(found.get("title"), str):
        return " ".join(text(found["title"]).split())
    return line(text(first(found, *_WORDS)), _TITLE_CHARS)


def _prompt(part: Subtask, to_create: list[str], context: str) -> str:
    found = part.node
    asked = text(first(found, *_WORDS)) or f"Do subtask {part.native}."
    sections = [
        asked,
        _section("Service", texts(first(found, "service", "services"))),
        _section("Files to change", _paths(found)),
        _section("Files to create", to_create),
        _section("Follow the patterns of", texts(found.get("patterns_from"))),
        _section("Expected output", texts(found.get("expected_output"))),
        _section("Notes", _notes(found)),
        context,
    ]
    return "\n\n".join(section for section in sections if section)


def _section(title: str, lines: Any) -> str:
    return f"{title}:\n" + "\n".join(f"- {line}" for line in lines) if lines else ""


def _paths(found: Node) -> tuple[str, ...]:
    keys = ("files_to_modify", "files_involved", "files", "file_path", "files_to_change")
    return tuple(dict.fromkeys(path for key in keys for path in texts(found.get(key))))


def _notes(found: Node) -> tuple[str, ...]:
    keys = ("implementation_notes", "implementation_details", "instructions", "notes")
    return tuple(dict.fromkeys(note for key in keys for note in texts(found.get(key))))


def context_of(document: Node, spec: str, goal: str) -> str:
    """Return what every agent should know of the whole beyond its goal: what it is for, and when it is accepted."""
    about = text(first(document, "description", "overview")) or _overview(spec)
    about = "" if about == goal else about
    accepted = _section("The whole is accepted when", texts(document.get("final_acceptance")))
    parts = [f"What this is part of:\n{about}" if about else "", accepted]
    whole = "\n\n".join(part for part in parts if part)
    return whole if len(whole) <= _CONTEXT_CHARS else whole[: _CONTEXT_CHARS - 1] + "…"


def _overview(spec: str) -> str:
    """Return the first section of a spec that says something, without its heading."""
    sections = re.split(r"^#+ .*$", spec, flags=re.MULTILINE)
    return next((section.strip() for section in sections if section.strip()), "")


def _deliverable(found: Node, path: str) -> str:
    """Return a file that must exist in the end, or nothing where the plan does not say for certain where.

    Paths are often meant relative to the service's own folder, and what lies below `.auto-claude` is not committed.
    """
    path = re.sub(r"\s*\((?:new|create|created)\)$", "", path).removeprefix("./")
    services = texts(first(found, "service", "services"))
    is_committed = not path.startswith(".auto-claude/") and not path.endswith("/")
    is_certain = all(service in path.split("/") for service in services)
    is_file = is_path(path) and path.casefold() not in _NO_FILE
    return path if is_file and is_certain and is_committed else ""


def _checks(verification: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that can be checks, and those that cannot: a check speaks by its exit status, anywhere."""
    if not _is_by_command(verification):
        return (), ()
    commands = texts(first(verification, "commands", "command", "run"))
    expected = text(verification.get("expected"))
    good = tuple(command for command in commands if _is_check(command, expected))
    return good, tuple(command for command in commands if command not in good)


def _is_by_command(verification: Node) -> bool:
    return text(verification.get("type")).casefold() in ("command", "", "test", "shell", "script")


def _is_check(command: str, expected: str) -> bool:
    if (
        not is_command(command)
        or _PROSE.match(command)
        or _ELSEWHERE.search(command)
        or _BLANK.search(command)
        or _COUNTS.search(command)
    ):
        return False
    return not (_SEARCH.search(command) and _NOTHING.search(expected))


def _acceptance(found: Node, unused: tuple[str, ...]) -> Iterator[str]:
    yield from texts(
        first(found, "acceptance_criteria", "acceptanceCriteria", "acceptance", "success_criteria")
    )
    for one in items(found.get("verification")):
        if not isinstance(one, dict):
            yield from texts(one)
            continue
        yield from _by_command(one, unused)
        yield from _by_hand(one)


def _by_command(verification: Node, unused: tuple[str, ...]) -> Iterator[str]:
    expected = text(first(verification, "expected", "expect_contains"))
    commands = texts(first(verification, "commands", "command", "run"))
    is_by_command = _is_by_command(verification)
    for command in commands:
        shown = f"`{command}`" if is_by_command else command
        if expected:
            yield f"{shown} gives: {expected}"
        elif command in unused or not is_by_command:
            yield shown
    if expected and not commands:
        yield expected


def _by_hand(verification: Node) -> Iterator[str]:
    where = text(first(verification, "url", "endpoint"))
    status = text(first(verification, "expect_status", "expected_status"))
    keys = ("scenario", "instructions", "manual", "steps", "checks", "description")
    lines = [line for key in keys for line in texts(verification.get(key))]
    if where and (status or not lines):
        method = text(verification.get("method"))
        yield f"{method} {where}".strip() + (f" answers {status}" if status else " works")
    yield from (f"{where}: {line}" if where and not status else line for line in lines)
