"""Real state files of the five systems, found and read as `adopt` does it: every one that holds a run gives one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast.formats.discovery import find_sources
from holdfast.formats.model import ForeignRun, all_formats
from tests.formats.mutation import CORPUS

FILES = sorted(path for path in CORPUS.glob("*/*") if path.is_file())
HOLD_NO_RUN = {"swarm-state-schema.json": "JSON Schema", "topgun-STATE-md-1.md": "nothing is under way"}
"""A description of state, and the state of a project where nothing goes on: each is told as what it is."""

pytestmark = pytest.mark.skipif(not FILES, reason="the corpus of real files is not here")


def read(path: Path, project: Path) -> ForeignRun:
    """Return the run that a file holds, found as `adopt` finds it."""
    formats = all_formats()
    (source,) = find_sources(path, project, formats)
    return formats[source.system].read(source.main, source.documents)


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.name not in HOLD_NO_RUN], ids=lambda path: path.name
)
def test_a_real_file_is_adopted_as_what_it_is(path: Path, tmp_path: Path) -> None:
    """X1: the system is recognised, and each task of the plan has one claim."""
    run = read(path, tmp_path)
    assert run.system == path.parent.name
    assert [claim.task for claim in run.claims] == [task.id for _, task in run.plan.tasks()]
    assert run.claims


@pytest.mark.parametrize("name", HOLD_NO_RUN)
def test_a_file_that_holds_no_run_is_told_as_what_it_is(name: str, tmp_path: Path) -> None:
    """Not a shrug: the error names what the file is and what to point at instead."""
    (path,) = (path for path in FILES if path.name == name)
    with pytest.raises(HoldfastError, match=HOLD_NO_RUN[name]) as told:
        read(path, tmp_path)
    assert told.value.hint


def test_nothing_of_the_corpus_is_left_out() -> None:
    """All files are counted: adopted, or known to hold no run."""
    adopted = Counter(path.parent.name for path in FILES if path.name not in HOLD_NO_RUN)
    assert adopted.total() + len(HOLD_NO_RUN) == len(FILES)
    assert set(adopted) == {"apex", "auto-claude", "cfn", "execute", "specflow"}
