"""The demo's agent: a stand-in that reads its brief, takes its time and edits files. No model, no network.

Run as a script, in a workspace, with the path of the brief as its argument. It knows only what a real agent would
know: the brief and the files. Standard library only.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

_REGISTRY = Path("notes/commands.py")

_FILES = {
    "model": {
        "notes/model.py": '"""One note."""\n\nfrom dataclasses import dataclass, field\n\n\n@dataclass\nclass Note:\n'
        "    text: str\n    tags: list[str] = field(default_factory=list)\n"
    },
    "storage": {
        "notes/storage.py": '"""Notes in a JSON file."""\n\nimport json\nfrom pathlib import Path\n\n\n'
        "def load(path: Path) -> list[dict]:\n    return json.loads(path.read_text()) if path.exists() else []\n\n\n"
        "def save(path: Path, notes: list[dict]) -> None:\n    path.write_text(json.dumps(notes))\n"
    },
    "add": {
        "notes/add.py": 'def add(notes: list, text: str) -> list:\n    return [*notes, {"text": text}]\n'
    },
    "search": {
        "notes/search.py": "def search(notes: list, word: str) -> list:\n"
        '    return [note for note in notes if word in note["text"]]\n'
    },
    "tags": {
        "notes/tags.py": 'def tagged(notes: list, tag: str) -> list:\n    return [n for n in notes if tag in n.get("tags", [])]\n'
    },
    "usage": {"USAGE.md": "# Usage\n\nadd, search, export: see notes/commands.py for the list.\n"},
    "changelog": {"CHANGELOG.md": "# Changelog\n\n- Notes can be added, searched, tagged and exported.\n"},
}

_EXPORT = "def export(notes: list) -> str:\n    return {joiner}.join(note[{key!r}] for note in notes)\n"
_SECONDS = {
    "model": 1.0,
    "storage": 1.5,
    "add": 1.5,
    "search": 2.5,
    "tags": 8.0,
    "export": 1.5,
    "usage": 1.0,
    "changelog": 1.0,
}


def main() -> int:
    """Do what the brief asks and say so, as agents do."""
    brief = Path(sys.argv[1]).read_text(encoding="utf-8")
    task = os.environ["HOLDFAST_TASK"]
    print(f"reading the brief of {task} ({len(brief)} characters)", flush=True)
    if "## Resolve a merge conflict" in brief:
        return _resolve_conflicts()
    _think(_SECONDS[task])
    for name, content in _FILES.get(task, {}).items():
        _write(name, content)
    if task == "export":
        _write("notes/export.py", _export_module(brief))
    if task in ("add", "search"):
        _register(task)
    print(f"{task} is done", flush=True)
    return 0


def _think(seconds: float) -> None:
    """Take time the way an agent does, saying something now and then."""
    for step in range(max(1, round(seconds / 0.5))):
        print(f"thinking ({step + 1})", flush=True)
        time.sleep(0.5)


def _export_module(brief: str) -> str:
    """The first try has a defect; the failing test's output in the next brief tells what it is."""
    knows_better = "KeyError: 'body'" in brief
    if knows_better:
        print("the test says that notes have no 'body'; it is called 'text'", flush=True)
    return _EXPORT.format(joiner=r"'\n'", key="text" if knows_better else "body")


def _register(command: str) -> None:
    """Add a command to the list that others add to as well: this is where two tasks collide."""
    lines = _REGISTRY.read_text().splitlines()
    lines.insert(lines.index("COMMANDS = [") + 1, f'    "{command}",')
    _write(str(_REGISTRY), "\n".join(lines) + "\n")


def _resolve_conflicts() -> int:
    """Keep both sides: drop the markers, keep every line between them."""
    text = _REGISTRY.read_text()
    kept = [line for line in text.splitlines() if not line.startswith(("<<<<<<<", "=======", ">>>>>>>"))]
    _write(str(_REGISTRY), "\n".join(kept) + "\n")
    print("kept both sides of the conflict", flush=True)
    return 0


def _write(name: str, content: str) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    print(f"wrote {name}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
