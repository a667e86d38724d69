"""C11: crashes at random points, short enough for every change; the long form is `python -m tests.crash.chaos`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from tests.crash.chaos import Chaos, problems_of
from tests.support.servers import PROTOCOLS, running, start_server

pytestmark = pytest.mark.crash

TASKS, JOBS, KILLS = 12, 4, 20


def test_random_kills_lose_nothing_and_redo_nothing_that_landed(tmp_path: Path) -> None:
    """Runner, supervisors and agents die twenty times over; every task lands once and stays landed."""
    seed = int(os.environ.get("HOLDFAST_CRASH_SEED", "7"))
    chaos = Chaos(tmp_path / "repo", seed, TASKS, JOBS, KILLS)
    trial = chaos.run()
    assert problems_of(trial) == [], f"seed {seed}"
    assert chaos.fired.total() >= KILLS // 2, chaos.fired


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_a_server_that_is_killed_with_all_the_others_loses_nothing(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is in it. It comes back each time, and every task lands once."""
    with running(partial(start_server, kind)) as server:
        monkeypatch.setenv("HOLDFAST_STORE", server.url)
        chaos = Chaos(tmp_path / "repo", 5, 8, JOBS, KILLS // 2, server=server)
        trial = chaos.run()
        assert problems_of(trial) == []
        assert chaos.fired["server"], chaos.fired


def test_a_person_decides_beside_a_runner_while_everything_is_killed(tmp_path: Path) -> None:
    """Amended, answered, taken and given with a live runner; whatever is cut short, all that was given by hand lands."""
    seed = int(os.environ.get("HOLDFAST_CRASH_SEED", "3"))
    chaos = Chaos(tmp_path / "repo", seed, 8, JOBS, KILLS // 2, with_person=True)
    trial = chaos.run()
    assert problems_of(trial, chaos.person) == [], f"seed {seed}"
    assert chaos.person is not None
    assert {"answer"} <= set(chaos.person.typed)
    assert chaos.fired, "nothing was killed"
