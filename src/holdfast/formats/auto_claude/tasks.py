"""Turns a subtask's object into a task: its prompt, checks, acceptance criteria and deliverables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from holdfast.core.plan import Task
from holdfast.formats.auto_claude.phases import Subtask
from holdfast.formats.lenient_json import Key, Node, items, line, node, text, texts
from holdfast.formats.markdown import bulleted, paragraphs
from holdfast.formats.plan_assembly import is_command, is_path

_TITLE_CHARS = 80
_CONTEXT_CHARS = 4_000
_NO_FILE = ("tbd", "n/a", "none", "na")
_NO_CHECK = (
    # Prose, paths of another machine, blanks to fill in, and commands that count or print instead of failing.
    re.compile(r"\A(?:[A-Z][a-z]+|\d+[.)])\s"),
    re.compile(r"(?:^|[\s\"'=:])(?:/(?:Users|home|root|private|mnt)/|~/|[A-Za-z]:\\)"),
    re.compile(r"\[[A-Z][A-Z_ -]{2,}\]|<[a-z][a-z_-]*(?:-|_)[a-z_-]*>"),
    re.compile(r"\|\s*wc\b|^\s*echo\b"),
)
_NOTHING = re.compile(
    r"^\s*(?:0\b|no\b|none\b|empty\b|nothing\b|zero\b)|\b(?:no|zero) (?:match|result|output|ref)", re.I
)
_SEARCH = re.compile(r"\b(?:grep|rg|find|ag)\b")

_DESCRIPTION = Key("description", "task", "details", "prompt", "name", "title")
_SERVICE = Key("service", "services")
_FILES = Key("files_to_modify", "files_involved", "files", "file_path", "files_to_change")
_NOTES = Key("implementation_notes", "implementation_details", "instructions", "notes")
_ACCEPTANCE = Key("acceptance_criteria", "acceptanceCriteria", "acceptance", "success_criteria")
OVERVIEW = Key("description", "overview")
_COMMANDS = Key("commands", "command", "run")
_EXPECTED = Key("expected", "expect_contains")
_ADDRESS = Key("url", "endpoint")
_ANSWER = Key("expect_status", "expected_status")
_BY_HAND = Key("scenario", "instructions", "manual", "steps", "checks", "description")


def task_of(subtask: Subtask, needs: tuple[str, ...], context: str) -> tuple[Task, tuple[str, ...]]:
    """Return a subtask as a task, without its id, and the commands that cannot serve as checks.

    `context` tells what the task is part of.
    """
    entry = subtask.entry
    checks, unused = _checks(node(entry.get("verification")))
    to_create = texts(entry.get("files_to_create"))
    files = tuple(dict.fromkeys(clean for path in to_create if (clean := _deliverable(entry, path))))
    task = Task(
        id="",
        title=_title(entry),
        prompt=_prompt(subtask, [path for path in to_create if path not in files], context),
        needs=needs,
        files=files,
        verify=checks,
        acceptance=tuple(dict.fromkeys(_acceptance(entry, unused))),
    )
    return task, unused


def _title(entry: Node) -> str:
    """Return the title; without one, the beginning of the request, for listings."""
    if isinstance(entry.get("title"), str):
        return " ".join(text(entry["title"]).split())
    return line(_DESCRIPTION.text(entry), _TITLE_CHARS)


def _prompt(subtask: Subtask, to_create: list[str], context: str) -> str:
    entry = subtask.entry
    return paragraphs(
        _DESCRIPTION.text(entry) or f"Do subtask {subtask.native}.",
        bulleted("Service", _SERVICE.texts(entry)),
        bulleted("Files to change", _FILES.all_texts(entry)),
        bulleted("Files to create", to_create),
        bulleted("Follow the patterns of", texts(entry.get("patterns_from"))),
        bulleted("Expected output", texts(entry.get("expected_output"))),
        bulleted("Notes", _NOTES.all_texts(entry)),
        context,
    )


def context_of(document: Node, spec: str, goal: str) -> str:
    """Return what every agent should know besides the goal: the purpose, and the criteria for acceptance."""
    sections = map(str.strip, re.split(r"^#+ .*$", spec, flags=re.MULTILINE))
    about = OVERVIEW.text(document) or next(filter(None, sections), "")
    about = "" if about == goal else about
    accepted = bulleted("The whole is accepted when", texts(document.get("final_acceptance")))
    whole = paragraphs(f"What this is part of:\n{about}" if about else "", accepted)
    return whole if len(whole) <= _CONTEXT_CHARS else whole[: _CONTEXT_CHARS - 1] + "…"


def _deliverable(entry: Node, path: str) -> str:
    """Return a file that must exist at the end; empty if the plan leaves its place uncertain.

    Paths are often relative to the service's own folder, and files below `.auto-claude` are not committed.
    """
    path = re.sub(r"\s*\((?:new|create|created)\)$", "", path).removeprefix("./")
    services = _SERVICE.texts(entry)
    is_committed = not path.startswith(".auto-claude/") and not path.endswith("/")
    is_certain = all(service in path.split("/") for service in services)
    is_file = is_path(path) and path.casefold() not in _NO_FILE
    return path if is_file and is_certain and is_committed else ""


def _checks(verification: Node) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the commands that can be checks, and the others.

    A check works on any machine, by its exit status.
    """
    if not _is_by_command(verification):
        return (), ()
    commands = _COMMANDS.texts(verification)
    expected = text(verification.get("expected"))
    good = tuple(command for command in commands if _is_check(command, expected))
    return good, tuple(command for command in commands if command not in good)


def _is_by_command(verification: Node) -> bool:
    return text(verification.get("type")).casefold() in ("command", "", "test", "shell", "script")


def _is_check(command: str, expected: str) -> bool:
    if not is_command(command) or any(pattern.search(command) for pattern in _NO_CHECK):
        return False
    return not (_SEARCH.search(command) and _NOTHING.search(expected))


def _acceptance(entry: Node, unused: tuple[str, ...]) -> Iterator[str]:
    yield from _ACCEPTANCE.texts(entry)
    for one in items(entry.get("verification")):
        if not isinstance(one, dict):
            yield from texts(one)
            continue
        yield from _by_command(one, unused)
        yield from _by_hand(one)


def _by_command(verification: Node, unused: tuple[str, ...]) -> Iterator[str]:
    expected = _EXPECTED.text(verification)
    commands = _COMMANDS.texts(verification)
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
    where = _ADDRESS.text(verification)
    status = _ANSWER.text(verification)
    lines = _BY_HAND.all_texts(verification)
    if where and (status or not lines):
        method = text(verification.get("method"))
        yield f"{method} {where}".strip() + (f" answers {status}" if status else " works")
    yield from (f"{where}: {line}" if where and not status else line for line in lines)
