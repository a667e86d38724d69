"""`mirror`: another system's files, kept up to date beside a run."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from tests.support.command import Cli
from tests.support.repositories import write


def test_mirror_writes_at_once_and_ends_on_demand(blocked: Cli) -> None:
    """A resting run is mirrored on the spot, follows what the user decides, and stays as it is after --off."""
    path = blocked.here / "docs/tasks/01-try-it/execute-state.json"
    assert blocked("mirror", "1", "execute").code == 0
    assert json.loads(path.read_text())["tasks"]["b"]["status"] == "abandoned"
    assert blocked("retry", "b").code == 0
    assert json.loads(path.read_text())["tasks"]["b"]["status"] != "abandoned"
    assert blocked.json("status")["run"]["mirrors"] == ["execute"]
    assert blocked("mirror", "1", "execute", "--off").code == 0
    before = path.read_bytes()
    blocked("skip", "b")
    assert path.read_bytes() == before


def test_a_mirror_of_our_own_is_not_adopted_by_mistake(blocked: Cli) -> None:
    """The run that it shows is here; a copy of it would do everything that is left a second time."""
    blocked("mirror", "1", "execute")
    done = blocked("adopt", "docs/tasks/01-try-it/execute-state.json", "--agent", "claude")
    assert done.code == 3
    assert "`holdfast resume 1`" in done.err


def test_a_mirror_stays_inside_the_project(blocked: Cli, tmp_path: Path) -> None:
    """`--to` takes folders of the project only."""
    for folder in ("../outside", str(tmp_path / "elsewhere"), ".git/x", ".holdfast/x"):
        done = blocked("mirror", "1", "execute", "--to", folder)
        assert done.code == 2, folder
    assert blocked("mirror", "1", "execute", "--to", "copies").code == 0
    assert (blocked.here / "copies/docs/tasks/01-try-it/execute-state.json").is_file()


def test_a_native_file_of_somebody_else_is_refused(blocked: Cli) -> None:
    """The way out is named: adopt it first, or write elsewhere."""
    path = blocked.here / "docs/tasks/01-try-it/execute-state.json"
    write(path, '{"mine": 1}')
    done = blocked("mirror", "1", "execute")
    assert done.code == 2
    assert "--to DIR" in done.err
    assert path.read_text() == '{"mine": 1}'
    assert stat.S_ISREG(path.lstat().st_mode)


def test_a_mirror_is_started_without_naming_the_run_and_told_as_json(blocked: Cli) -> None:
    """RUN is optional here, too: FORMAT alone is enough."""
    told = blocked.json("mirror", "execute")
    assert (told["run"], told["status"]) == ("01-try-it", "blocked")
    assert "Wrote the execute files" in told["detail"]
    assert "stay as they are" in blocked.json("mirror", "execute", "--off")["detail"]
