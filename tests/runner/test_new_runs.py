"""Clones that share a journal and make runs at the same moment: each gets an id of its own, and nobody a second run of one plan."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.core.plan import Plan
from holdfast.core.projection import LandingConflict
from holdfast.errors import LeaseHeldError, RunExistsError
from holdfast.journal import open_journal
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.protocol import Journal
from holdfast.plans.reader import parse_plan
from holdfast.repo.refs import known_runs
from holdfast.runner.session import create_run
from tests.support.repositories import Project
from tests.support.servers import PROTOCOLS, address_in

CLONES, ROUNDS = 4, 5


def plan(word: str = "one") -> Plan:
    """Return a plan. Plans differ by the word, and their runs are called alike."""
    text = f'{{"holdfast": 1, "goal": "Try it", "tasks": [{{"id": "a", "run": ["echo", "{word}"]}}]}}'
    return parse_plan(text.encode(), "plan.json", [])


class SharedJournal(MemoryJournal):
    """A journal in which somebody else does something between our look at the numbers and what we do then."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Callable[[], object]] = []

    def next_run_number(self) -> int:
        """Return the number; then somebody else has a turn."""
        number = super().next_run_number()
        if self.meanwhile:
            self.meanwhile.pop()()
        return number


@pytest.fixture
def here(tmp_path: Path) -> Project:
    """One clone."""
    return Project.create(tmp_path / "here")


@pytest.fixture
def there(tmp_path: Path) -> Project:
    """The other one."""
    return Project.create(tmp_path / "there")


def test_who_comes_second_gets_the_next_number(here: Project, there: Project) -> None:
    """And neither clone has anything of the other's run in git."""
    journal = SharedJournal()
    journal.meanwhile.append(lambda: create_run(there.open(), journal, plan("two"), "theirs.json"))
    made = create_run(here.open(), journal, plan(), "ours.json", known=[])
    assert made == "02-try-it"
    assert (known_runs(here.open()), known_runs(there.open())) == ({"02-try-it"}, {"01-try-it"})
    assert [listing.row.plan_source for listing in journal.runs()] == ["theirs.json", "ours.json"]


def test_who_comes_second_with_the_same_plan_is_told_of_the_first(here: Project, there: Project) -> None:
    """As if it had come a moment later. The plan is not run twice."""
    journal = SharedJournal()
    journal.meanwhile.append(lambda: create_run(there.open(), journal, plan(), "plan.json"))
    with pytest.raises(LeaseHeldError, match="has just made run 01-try-it of the same plan"):
        create_run(here.open(), journal, plan(), "plan.json", known=[])
    assert (len(journal.runs()), known_runs(here.open())) == (1, set())


def test_a_conflict_is_kept_for_the_run_that_was_made_and_for_no_other(here: Project, there: Project) -> None:
    """The commit with the markers is kept before the run exists; under the id that it did not get, nothing stays."""
    journal = SharedJournal()
    journal.meanwhile.append(lambda: create_run(there.open(), journal, plan("two"), ""))
    resolves = LandingConflict(run="00-old", tip=here.head(), task="a", commit=here.head(), files=("a.txt",))
    made = create_run(here.open(), journal, plan(), "", resolves=resolves)
    refs = here.git("for-each-ref", "--format=%(refname)", "refs/holdfast").split()
    assert (made, {ref.split("/")[2] for ref in refs}) == ("02-try-it", {made})


def test_a_journal_that_does_not_list_what_it_has_is_not_asked_for_ever(here: Project) -> None:
    """The number would never change."""

    class Forgetful(MemoryJournal):
        def next_run_number(self) -> int:
            return 1

    journal = Forgetful()
    create_run(here.open(), journal, plan(), "")
    here.git("update-ref", "-d", "refs/holdfast/01-try-it/plan")
    with pytest.raises(RunExistsError):
        create_run(here.open(), journal, plan("two"), "")


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_clones_that_start_at_once_all_get_a_run(kind: str, tmp_path: Path) -> None:
    """Of a plan of their own each, in a real server."""
    address = address_in(tmp_path, kind)
    clones = [Project.create(tmp_path / str(number)) for number in range(CLONES)]
    together = threading.Barrier(CLONES)

    def make(number: int) -> list[str]:
        with closing(open_journal(address)) as journal:
            return [_made(journal, number, turn) for turn in range(ROUNDS)]

    def _made(journal: Journal, number: int, turn: int) -> str:
        together.wait()
        return create_run(clones[number].open(), journal, plan(f"{number} {turn}"), "")

    with ThreadPoolExecutor(CLONES) as pool:
        made = sorted(run for runs in pool.map(make, range(CLONES)) for run in runs)
    assert made == [f"{number:02}-try-it" for number in range(1, CLONES * ROUNDS + 1)]
