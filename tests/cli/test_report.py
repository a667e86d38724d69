"""`holdfast report` as agents call it: what it writes, what it refuses, and that it depends on nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.report_channel import CONTRACT_BYTES_MAX, FILE_BYTES_MAX
from tests.support.command import COMMAND, Cli, Done


def report(tmp_path: Path, *words: str, bell: str = "") -> Done:
    """Report from an attempt whose workspace is `tmp_path`, outside any repository."""
    return Cli(tmp_path)("report", *words, HOLDFAST_REPORT=str(file_of(tmp_path)), HOLDFAST_BELL=bell)


def file_of(tmp_path: Path) -> Path:
    """Return the file that reports go to."""
    return tmp_path / ".holdfast" / "report.jsonl"


def written(tmp_path: Path) -> list[Any]:
    """Return the reports that were written."""
    return [json.loads(line) for line in file_of(tmp_path).read_text().splitlines()]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("progress", "40"), {"progress": 40.0}),
        (("progress", "40%"), {"progress": 40.0}),
        (("section", "--done", "X", "--next", "Y"), {"section_done": "X", "section_next": "Y"}),
        (("file", "a.py", "--line", "7"), {"file": "a.py", "line": 7}),
        (("file", "--line=7", "a.py"), {"file": "a.py", "line": 7}),
        (("confidence", "0.9"), {"confidence": 0.9}),
        (("blocked", "no key"), {"blocked": "no key"}),
        (("summary", "all done"), {"summary": "all done"}),
        (("summary", "--", "--dashes"), {"summary": "--dashes"}),
        (("cost", "0.42"), {"cost_usd": 0.42}),
        (("interface", "api", "def f(): ..."), {"interface": "api", "contract": "def f(): ..."}),
        (("--progress", "1", "--cost", "2"), {"progress": 1.0, "cost_usd": 2.0}),
    ],
)
def test_each_kind_of_report_becomes_one_line(tmp_path: Path, words: tuple[str, ...], line: Any) -> None:
    """C5: progress, sections, file and line, confidence, interfaces and more, alone or together."""
    assert report(tmp_path, *words) == Done(0, "", "")
    assert written(tmp_path) == [line]


def test_a_question_is_one_line_and_the_agent_is_told_to_end_its_turn(tmp_path: Path) -> None:
    """With the options to choose from, in their order."""
    done = report(tmp_path, "ask", "Which?", "--option", "this", "--option=that")
    assert (done.code, "End your turn" in done.out) == (0, True)
    assert written(tmp_path) == [{"question": "Which?", "options": ["this", "that"]}]


@pytest.mark.parametrize(
    "words",
    [
        ("ask",),
        ("ask", "two", "questions"),
        ("ask", ""),
        ("ask", "Which?", "--choice", "a"),
        ("ask", "Which?", "--option"),
        ("ask", "x" * 2001),
        ("ask", "Which?", *("--option=a" for _ in range(10))),
        ("progress", "101"),
        ("progress", "nan"),
        ("confidence", "much"),
        ("progress",),
        ("progress", "1", "2"),
        ("section",),
        (),
        ("rumour", "x"),
        ("file", "x", "--colour", "red"),
        ("file", "x", "--line"),
        ("interface", "two words", "x"),
        ("interface", "api"),
        ("interface", "api", "x" * (CONTRACT_BYTES_MAX + 1)),
    ],
)
def test_a_report_that_makes_no_sense_is_refused_with_a_way_out(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    """An agent learns of its mistake at once; nothing is written."""
    done = report(tmp_path, *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("holdfast: ")
    assert done.err.count("\n") == 2
    assert not file_of(tmp_path).exists()


def test_a_contract_is_taken_from_a_file_or_from_standard_input(tmp_path: Path) -> None:
    """Contracts have many lines: nobody wants to quote them for a shell."""
    (tmp_path / "api.txt").write_text("line 1\nline 2\n")
    assert report(tmp_path, "interface", "a", "--file", str(tmp_path / "api.txt")).code == 0
    env = {**os.environ, "HOLDFAST_REPORT": str(file_of(tmp_path))}
    subprocess.run([*COMMAND, "report", "interface", "b", "-"], input=b"piped\n", env=env, check=True)
    assert [line["contract"] for line in written(tmp_path)] == ["line 1\nline 2\n", "piped\n"]


def test_outside_an_attempt_there_is_nothing_to_report_on(tmp_path: Path) -> None:
    """A person who tries it is told that it is for agents."""
    done = Cli(tmp_path)("report", "progress", "40", HOLDFAST_REPORT="")
    assert done.code == 2
    assert "no attempt to report on" in done.err


def test_a_runner_that_cannot_be_woken_is_no_problem(tmp_path: Path) -> None:
    """With the runner dead, or hidden by the agent's sandbox, the line is written all the same."""
    os.mkfifo(tmp_path / "bell")
    for bell in (tmp_path / "bell", tmp_path / "nowhere", tmp_path):
        assert report(tmp_path, "progress", "1", bell=str(bell)) == Done(0, "", "")
    assert len(written(tmp_path)) == 3


def test_a_report_wakes_a_listening_runner(tmp_path: Path) -> None:
    """So that the runner knows at once."""
    os.mkfifo(tmp_path / "bell")
    fd = os.open(tmp_path / "bell", os.O_RDWR | os.O_NONBLOCK)
    report(tmp_path, "progress", "1", bell=str(tmp_path / "bell"))
    assert os.read(fd, 10) == b"!"
    os.close(fd)


def test_a_full_report_file_takes_no_more(tmp_path: Path) -> None:
    """What would never be read is not written."""
    file_of(tmp_path).parent.mkdir()
    file_of(tmp_path).write_bytes(b"\n" * FILE_BYTES_MAX)
    done = report(tmp_path, "progress", "1")
    assert (done.code, file_of(tmp_path).stat().st_size) == (2, FILE_BYTES_MAX)


def test_a_file_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    """No traceback, whatever is given."""
    done = report(tmp_path, "interface", "a", "--file", str(tmp_path / "none"))
    assert done.code != 0
    assert "Traceback" not in done.err


def test_reporting_imports_nothing_heavy() -> None:
    """Agents report all the time: no codec, no parser of arguments, no journal is loaded for it."""
    program = "import sys; from holdfast.cli.main import main; main(['report', 'progress', 'x']); print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert not {"msgspec", "argparse", "asyncio", "sqlite3", "typing", "pathlib", "dataclasses"} & set(
        out.split()
    )


def test_a_workspace_that_was_moved_is_not_made_up_anew(tmp_path: Path) -> None:
    """A report that nobody would ever read is refused, and nothing appears where the workspace was."""
    gone = tmp_path / "gone" / ".holdfast" / "report.jsonl"
    done = Cli(tmp_path)("report", "progress", "40", HOLDFAST_REPORT=str(gone))
    assert done.code == 2
    assert "is not there" in done.err
    assert "moved" in done.err
    assert not gone.parent.parent.exists()
