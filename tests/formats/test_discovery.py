"""Finding other systems' files on a disk: what is looked at, what belongs together, and where looking ends."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from holdfast.core.plan import Plan, Stage, Task
from holdfast.formats.discovery import (
    FILE_BYTES_MAX,
    ForeignSource,
    NothingFoundError,
    find_sources,
    read_source,
)
from holdfast.formats.model import Claim, ForeignFormat, ForeignRun, all_formats
from holdfast.formats.registry import System
from tests.support.command import COMMAND, Cli
from tests.support.repositories import Project, write


def _read_one_task(main: str, documents: Mapping[str, bytes]) -> ForeignRun:
    """Return a run of one task."""
    stage = Stage(id="all", tasks=(Task(id="only", prompt="Do it."),))
    return ForeignRun(
        system=System.EXECUTE,
        name="one",
        plan=Plan(goal="one", stages=(stage,)),
        claims=(Claim(task="only"),),
        main=main,
        documents=dict(documents),
    )


ONE_TASK = ForeignFormat(
    title="One Task",
    places=tuple(place for one in all_formats().values() for place in one.places),
    traces=(),
    locks=(".specflow/.*.lock",),
    recognises=lambda _, data: b'"tasks"' in data,
    companions=lambda main: (f"{main.rpartition('/')[0]}/parts/*".lstrip("/"), "/etc/*", "../*"),
    read=_read_one_task,
    write=lambda *_: [],
)
"""A system whose state is any JSON file with `tasks`; the files in `parts` beside it belong to it."""
FORMATS = {System.EXECUTE: ONE_TASK}


def _write(path: Path, text: str = '{"tasks": []}') -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _find(path: Path, project: Path) -> list[ForeignSource]:
    return find_sources(path, project, FORMATS)


def test_a_project_is_searched_at_the_native_places(tmp_path: Path) -> None:
    """Each system's own folders are looked at; what lies elsewhere is none of our business."""
    for place in (
        ".specflow/execution/a.json",
        ".auto-claude/specs/1/implementation_plan.json",
        "src/b.json",
    ):
        _write(tmp_path / place)
    found = {source.main for source in _find(tmp_path, tmp_path)}
    assert found == {".specflow/execution/a.json", ".auto-claude/specs/1/implementation_plan.json"}


def test_a_state_without_a_fixed_place_is_found_by_its_name(tmp_path: Path) -> None:
    """Execute keeps its state wherever its tasks are, an epic is called so."""
    _write(tmp_path / "deep/down/here/execute-state.json")
    _write(tmp_path / "planning/Auth-Epic.json")
    _write(tmp_path / "node_modules/x/execute-state.json")
    found = {source.main for source in _find(tmp_path, tmp_path)}
    assert found == {"deep/down/here/execute-state.json", "planning/Auth-Epic.json"}


def test_a_folder_is_searched_for_anything_that_is_recognised(tmp_path: Path) -> None:
    """Somebody who names a folder means what is in it, whatever it is called."""
    _write(tmp_path / "any/where/thing.json")
    (source,) = _find(tmp_path / "any", tmp_path)
    assert source.main == "any/where/thing.json"


def test_what_belongs_to_a_run_is_read_with_it_and_not_listed_again(tmp_path: Path) -> None:
    """The files beside a state are documents of the same run."""
    _write(tmp_path / "run/state.json")
    _write(tmp_path / "run/parts/one.json")
    (source,) = _find(tmp_path / "run", tmp_path)
    assert set(source.documents) == {"run/state.json", "run/parts/one.json"}


def test_a_link_to_a_state_is_the_same_run(tmp_path: Path) -> None:
    """APEX keeps a link per task beside the states themselves."""
    _write(tmp_path / ".claude/output/apex/01-x/state.json")
    links = tmp_path / ".claude/apex-state"
    links.mkdir()
    (links / "01-x.json").symlink_to("../output/apex/01-x/state.json")
    assert [source.main for source in _find(tmp_path, tmp_path)] == [".claude/output/apex/01-x/state.json"]


@pytest.mark.parametrize("named", ["current.json", ""], ids=["the link", "the folder of links"])
def test_a_link_that_is_named_leads_to_all_that_belongs_to_its_state(tmp_path: Path, named: str) -> None:
    """`current.json` is how APEX itself finds its task; the outputs lie beside what it points to."""
    _write(tmp_path / "run/state.json")
    _write(tmp_path / "run/parts/one.json")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/current.json").symlink_to("../run/state.json")
    (source,) = _find(tmp_path / "links" / named, tmp_path)
    assert (source.main, len(source.documents)) == ("run/state.json", 2)


def test_nothing_outside_the_project_is_read(tmp_path: Path) -> None:
    """Neither through a link nor through a pattern that climbs out."""
    outside = _write(tmp_path / "outside.json")
    project = tmp_path / "p"
    _write(project / "run/state.json")
    (project / "run/parts").mkdir()
    (project / "run/parts/out.json").symlink_to(outside)
    (source,) = _find(project / "run", project)
    assert set(source.documents) == {"run/state.json"}
    assert [finding.kind for finding in source.problems] == ["unreadable"]


def test_a_file_that_is_too_large_is_reported_and_left_out(tmp_path: Path) -> None:
    """A log of gigabytes beside the state must not be read into memory."""
    _write(tmp_path / "run/state.json")
    huge = _write(tmp_path / "run/parts/huge.json", "")
    with huge.open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    (source,) = _find(tmp_path / "run", tmp_path)
    run = read_source(source, FORMATS)
    assert [(finding.kind, "huge.json" in finding.sentence) for finding in run.findings] == [
        ("unreadable", True)
    ]


def test_a_file_from_elsewhere_is_told_from_its_own_project(tmp_path: Path) -> None:
    """Paths keep their native beginning, so that what belongs to it is found there too."""
    state = _write(tmp_path / "other/.specflow/execution/a.json", json.dumps({"tasks": []}))
    (source,) = _find(state, tmp_path / "project")
    assert (source.root, source.main) == (tmp_path / "other", ".specflow/execution/a.json")


@pytest.mark.parametrize("name", ["empty", "empty/nothing.json", "note.txt", ".git/state.json"])
def test_a_place_without_a_state_is_an_error_that_says_so(tmp_path: Path, name: str) -> None:
    """An empty folder, a file that is not there, one of another kind, and git's own."""
    (tmp_path / "empty").mkdir()
    _write(tmp_path / ".git/state.json")
    _write(tmp_path / "note.txt", "hello")
    with pytest.raises(NothingFoundError):
        _find(tmp_path / name, tmp_path)


def _bomb() -> str:
    """Return a small YAML text whose aliases expand to thousands of millions of values."""
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    return "\n".join(["a0: &a0 [x, x]", *levels, "stories: *a9", ""])


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10**11)


HOSTILE: dict[str, tuple[str, Callable[[Path], object]]] = {
    "aliases that expand without end": ("docs/backlog.yaml", lambda path: path.write_text(_bomb())),
    "an alias of itself": ("docs/backlog.yaml", lambda path: path.write_text("stories: &a [*a]\n")),
    "deep YAML": (
        "docs/backlog.yaml",
        lambda path: path.write_text(f"stories: {'[' * 100_000}{']' * 100_000}"),
    ),
    "deep JSON": (
        "docs/tasks/thing/execute-state.json",
        lambda path: path.write_text('{"tasks":' * 500_000 + "}" * 500_000),
    ),
    "deep JSON that is cut off": (
        "docs/tasks/thing/execute-state.json",
        lambda path: path.write_text("[" * 500_000 + "]" * 499_000),
    ),
    "a pipe": ("docs/tasks/thing/execute-state.json", os.mkfifo),
    "a pipe as a lock": ("docs/tasks/thing/execute-state.lock", os.mkfifo),
    "a huge file": (
        "docs/tasks/thing/execute-state.json",
        _huge,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_ends_adopt_at_once(tmp_path: Path, name: str) -> None:
    """It is named, if it is what was asked for, and takes neither time nor memory: the command gets one gigabyte."""
    cli = Cli(Project.create(tmp_path / "p").path)
    place, make = HOSTILE[name]
    write(cli.here / "docs" / "tasks" / "other" / "execute-state.json", '{"tasks": {"L1-001": {}}}')
    path = cli.here / place
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    listed, adopted = (_adopt_in_a_gigabyte(cli, *words) for words in ((".", "--list"), (place, "--dry-run")))
    assert (listed.returncode, adopted.returncode) == (0, 2)
    assert place in adopted.stderr


def _adopt_in_a_gigabyte(cli: Cli, *words: str) -> subprocess.CompletedProcess[str]:
    script = 'ulimit -v 1000000; exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, "adopt", *words],
        cwd=cli.here,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done
