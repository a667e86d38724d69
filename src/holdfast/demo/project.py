"""The demo's repository and plan: written to a folder, nothing executed here."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import msgspec

PLAN_FILE = "plan.json"

FILES = {
    "README.md": "# notes\n\nA tiny note keeper, grown by agents.\n",
    ".gitignore": "__pycache__/\n",
    "notes/__init__.py": "",
    "notes/commands.py": '"""What the tool can do."""\n\nCOMMANDS = [\n]\n',
    "check.py": '''"""Runs what there is: every module must load, and export must work once it is there."""

import importlib
import pathlib

for path in sorted(pathlib.Path("notes").glob("*.py")):
    importlib.import_module(f"notes.{path.stem}")
if pathlib.Path("notes/export.py").exists():
    from notes.export import export

    assert export([{"text": "a"}, {"text": "b"}]) == "a\\nb"
print("all checks hold")
''',
}

_STAGES = {
    "foundation": ["model", "storage"],
    "features": ["add", "search", "export", "tags"],
    "polish": ["usage", "changelog"],
}

_TITLES = {
    "model": "The note itself",
    "storage": "Keep notes in a file",
    "add": "Add a note",
    "search": "Search notes",
    "export": "Export notes as text",
    "tags": "Notes with tags",
    "usage": "Say how to use it",
    "changelog": "Say what is new",
}

_DELIVERED = {"usage": "USAGE.md", "changelog": "CHANGELOG.md"}


def write_project(folder: Path) -> None:
    """Write the demo's source files and its plan into `folder`."""
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    (folder / PLAN_FILE).write_bytes(msgspec.json.format(msgspec.json.encode(_plan()), indent=2))


def _plan() -> dict[str, object]:
    """Return the plan as a user would write it. The agent is our script, run by this interpreter."""
    agent = Path(__file__).with_name("agent.py")
    return {
        "holdfast": 1,
        "goal": "Grow a note keeper",
        "agent": "scripted",
        "agents": {"scripted": {"command": [sys.executable, "-I", str(agent), "{brief}"], "prompt": "file"}},
        "limits": {"jobs": 3, "attempts": 3, "timeout": "2m"},
        "verify": [f"{shlex.quote(sys.executable)} -B check.py"],
        "stages": [
            {"id": stage, "tasks": [_task(name) for name in tasks]} for stage, tasks in _STAGES.items()
        ],
    }


def _task(name: str) -> dict[str, object]:
    title = _TITLES[name]
    delivered = _DELIVERED.get(name, f"notes/{name}.py")
    return {"id": name, "title": title, "prompt": f"{title}: write {delivered}.", "files": [delivered]}
