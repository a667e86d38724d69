"""The recorded and written streams that readers are tested with: all listed, all free of the machine they come from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.agents.failure_table import PAGE, WRITE, missing_recordings, with_table
from tests.agents.real_agents import HERE
from tests.agents.record import CASES
from tests.agents.recordings import STREAMS

INDEX = json.loads((STREAMS / "index.json").read_text())
FILES = sorted(path for path in STREAMS.iterdir() if path.name != "index.json")


def test_the_index_tells_how_every_stream_ended() -> None:
    """A stream without its exit code shows only half of a failure."""
    assert sorted(INDEX) == [path.name for path in FILES]
    assert all({"exit", "served"} <= entry.keys() for entry in INDEX.values())


def test_what_was_written_by_hand_says_so_in_its_name() -> None:
    """Nobody may take a guess for a recording."""
    assert {name for name in INDEX if ".written." in name} == {
        n for n, e in INDEX.items() if e.get("written")
    }


def test_every_case_of_an_agent_was_recorded() -> None:
    """The same failures for every agent, so that their readers can be compared."""
    assert missing_recordings() == set()


def test_the_page_has_the_table_of_failures() -> None:
    """`python -m tests.agents.failure_table` writes it."""
    assert PAGE.read_text() == with_table(PAGE.read_text()), f"{WRITE} writes the table"


@pytest.mark.parametrize("name", sorted(name for name, entry in INDEX.items() if not entry.get("written")))
def test_a_recording_does_not_name_the_mode_of_the_model(name: str) -> None:
    """An address with `usage-limit` in it would tell a reader what it should find out."""
    told = re.findall(r"127\.0\.0\.1:8000/([\w-]+)", (STREAMS / name).read_text())
    assert not set(told) & {*CASES, "slow"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_stream_names_no_machine(path: Path) -> None:
    """Folders and ports of whoever recorded it are replaced."""
    text = path.read_text().replace("/$bunfs/root/", "")  # a place inside of a program
    assert not [place for place in ("/root/", str(HERE), "record-") if place in text]
