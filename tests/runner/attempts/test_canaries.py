"""Made-up secrets of forty kinds, written in eight ways wherever an agent can write, are kept nowhere."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.canaries import CANARIES, ENCODINGS
from tests.support.command import Cli
from tests.support.repositories import git

WORK = b"the work of an agent"
CORES = {canary.core[:16].encode() for canary in CANARIES}
AGENT = """
import json, os, subprocess, sys
sys.path.insert(0, {root!r})
from tests.support.canaries import CANARIES, ENCODINGS

encode = ENCODINGS[sys.argv[1]]
texts = [encode(canary.text) for canary in CANARIES]
if sys.argv[2] == "agent":
    with open(os.environ["HOLDFAST_TASK"] + "-" + CANARIES[0].text, "w") as file:
        print({work!r}, os.environ["HOLDFAST_TASK"], os.environ["HOLDFAST_ATTEMPT_NUMBER"], *texts, file=file)
    with open("shared.txt", "w") as file:
        print({work!r}, os.environ["HOLDFAST_TASK"], os.environ["HOLDFAST_ATTEMPT_NUMBER"], *texts, file=file)
    subprocess.run(["git", "add", "-A"], check=True)
    subprocess.run(["git", "-c", "user.name=agent", "-c", "user.email=a@b", "commit", "-qm", texts[0]], check=True)
    os.makedirs(os.path.dirname(os.environ["HOLDFAST_REPORT"]), exist_ok=True)
    with open(os.environ["HOLDFAST_REPORT"], "a") as file:
        for number in range(0, len(texts), 2):
            print(json.dumps({{"summary": "\\n".join(texts[number : number + 2])}}), file=file)
        print(json.dumps({{"interface": "all", "contract": "\\n".join(texts)}}), file=file)
        print(json.dumps({{"blocked": texts[1], "file": texts[2], "section_next": texts[3]}}), file=file)
for text in texts:
    data = text.encode()
    os.write(1, data[: len(data) // 2])
    os.write(1, data[len(data) // 2 :] + b"\\n")
if sys.argv[2] == "validator":
    print(json.dumps({{"score": 0.5, "feedback": "\\n".join(texts)}}))
sys.exit(int(os.environ["HOLDFAST_ATTEMPT_NUMBER"]) <= int(sys.argv[3]))
"""
"""Writes every canary in one encoding into files, names, commits, reports and its output; fails in the first attempts."""


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A run in which agents, checks and validators wrote all canaries wherever they can, and half of them failed."""
    path = tmp_path_factory.mktemp("leaky")
    script = path / "agent.py"
    script.write_text(AGENT.format(root=str(Path(__file__).parents[3]), work=WORK.decode()))

    def command(encoding: str, role: str, failures: int) -> list[str]:
        return [sys.executable, str(script), encoding, role, str(failures)]

    tasks: list[dict[str, Any]] = []
    for number, encoding in enumerate(ENCODINGS):
        check = " ".join(f"'{word}'" for word in command(encoding, "check", number % 2 + 1))
        validator = {"id": "v", "run": command(encoding, "validator", 0)}
        fails = 1 if number % 3 else 0
        tasks.append(
            {
                "id": f"t{number}",
                "run": command(encoding, "agent", fails),
                "verify": [check],
                "validators": [validator],
                "gate": 0,
            }
        )
    limits = {"attempts": 4, "retry_delay": "0s", "keep_going": True, "jobs": 4}
    notify = {"command": ["sh", "-c", f"cat >> {path}/notified"]}
    cli = Cli.of(path / "p", *tasks, limits=limits, notify=notify)
    done = cli("run", "--yes", "--mirror", "execute")
    while done.code == 3:  # an agent that failed and said what blocks it has asked a person
        for asked in cli.json("status")["needs_you"]:
            assert cli("answer", asked["task"], "go on").code == 0
        done = cli("resume", "--yes")
    assert done.code in (0, 1)
    counts = cli.json("status")["metrics"]
    assert counts["completed"] >= 1
    assert counts["attempts"] > len(ENCODINGS)
    return cli


def leaks(place: str, data: bytes) -> list[str]:
    """Return each secret in some data, with what stands around it."""
    found = []
    for core in CORES:
        at = data.find(core)
        if at >= 0:
            found.append(f"{place}: {data[max(0, at - 60) : at + 20]!r}")
    return found


def objects(folder: Path) -> bytes:
    """Return every commit and blob of a repository that is not an agent's own work."""
    kept = []
    listed = git(folder, "cat-file", "--batch-check", "--batch-all-objects").splitlines()
    for name, kind, _ in (line.split() for line in listed):
        if kind in ("commit", "blob", "tag"):
            text = git(folder, "cat-file", kind, name).encode(errors="surrogateescape")
            own = WORK in text or b"author agent <a@b>" in text
            kept.append(b"" if own else text)
    return b"\n".join(kept)


def test_no_store_log_brief_note_mirror_or_notification_has_a_canary(leaky: Cli) -> None:
    """17: whatever lies on the disk besides the agents' own work is free of them."""
    root = leaky.here.parent
    outside = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    work = (leaky.here / ".git", leaky.here / ".holdfast" / "work", root / "agent.py")
    kept = [path for path in outside if not any(path.is_relative_to(one) for one in work)]
    found = [leak for path in kept for leak in leaks(str(path.relative_to(root)), path.read_bytes())]
    assert any(path.name.startswith("output.log") for path in kept)
    assert any(path.name.startswith("journal.db") for path in kept)
    assert any(path.name == "brief.md" for path in kept)
    assert (root / "notified").stat().st_size
    assert found == []


def test_no_ref_of_ours_has_a_canary(leaky: Cli) -> None:
    """Messages of landings and snapshots, records of the run and its plan are ours; files and commits of agents are not."""
    data = objects(leaky.here)
    assert b"Holdfast-Run" in data
    assert leaks("git", data) == []


def test_no_page_or_export_has_a_canary(leaky: Cli) -> None:
    """What people look at is made from what is stored, and from git."""
    run = leaky.json("list")[0]["id"]
    pages = [
        ("status",),
        ("inspect",),
        ("recap",),
        ("review",),
        ("doctor",),
        ("export", run, "--to", "execute"),
        ("list",),
    ]
    pages += [("inspect", run, f"t{number}", "--brief") for number in range(2)]
    pages += [
        ("logs", run, "t1"),
        ("logs", run, "--raw"),
        ("inspect", "--json"),
        ("status", "--json"),
        ("resume", "--dry-run"),
    ]
    found = []
    for words in pages:
        done = leaky(*words)
        found += leaks(" ".join(words), (done.out + done.err).encode())
    assert found == []
