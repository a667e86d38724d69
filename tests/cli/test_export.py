"""`export`: a run in another system's files, written once."""

from __future__ import annotations

import json

from tests.support.command import Cli
from tests.support.repositories import write


def test_export_writes_the_state_to_standard_output_or_a_folder(completed: Cli) -> None:
    """One file in a pipe, or the whole native layout in a folder; what is there is not replaced unasked."""
    printed = json.loads(completed("export", "--as", "execute").out)
    assert printed["status"] == "completed"
    assert completed("export", "--as", "execute", "-o", "out/").code == 0
    names = [path.name for path in (completed.here / "out").rglob("*") if path.is_file()]
    assert "execute-state.json" in names
    write(completed.here / "mine.json", "{}")
    assert completed("export", "--as", "execute", "-o", "mine.json").code == 2
    assert (completed.here / "mine.json").read_text() == "{}"
    assert completed("export", "--as", "execute", "-o", "mine.json", "--force").code == 0


def test_a_program_gets_the_file_or_the_names_of_the_files(completed: Cli) -> None:
    """`--json`: without `-o` the state file's path and content, with it what was written."""
    told = completed.json("export", "--as", "execute")
    assert (told["run"], told["format"], "01-try-it" in told["content"]) == ("01-try-it", "execute", True)
    told = completed.json("export", "--as", "execute", "-o", "out/")
    assert told["written"]
    assert all((completed.here / path).exists() for path in told["written"])
