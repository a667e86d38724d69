"""Servers on runs that have ended, started once for the tests that only look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.command import Cli, fails, writes
from tests.web.server import DashboardProcess, serving

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="session")
def rested(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A run that rests, only to look at: `a` landed with a hostile title, `b` was given up, `c` waits for it."""
    hostile = f"printf '%s\\n' '{SCRIPT}' '<img src=x onerror=alert(1)>' > a.js; echo '{SCRIPT}'"
    tasks = [
        {"id": "a", "title": SCRIPT, "run": ["sh", "-c", hostile], "verify": ["echo checked; test -f a.js"]},
        fails("b", needs=["a"]),
        writes("c", needs=["b"]),
    ]
    cli = Cli.of(
        tmp_path_factory.mktemp("rested") / "p", *tasks, goal=f"Try {SCRIPT}", limits={"attempts": 1}
    )
    assert cli("run", "--yes").code == 1
    return cli


@pytest.fixture(scope="session")
def server(rested: Cli) -> Iterator[DashboardProcess]:
    """A server that shows that run."""
    with serving(rested.here) as found:
        yield found


@pytest.fixture(scope="session")
def rested_run(server: DashboardProcess) -> str:
    """The id of that run."""
    return str(server.get("/overview")["repositories"][0]["runs"][0]["id"])
