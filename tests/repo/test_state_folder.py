"""`.holdfast` is the user's own: neither a repository nor an agent brings one along that starts,
decides or deletes anything."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from holdfast.core.status import RunStatus
from tests.support.command import Cli, writes
from tests.support.repositories import Project, git, write
from tests.support.runs import Trial, sh, stage

COMMANDS = (
    ("clean", "--all", "--yes"),
    ("clean", "1", "--yes"),
    ("land", "--yes"),
    ("discard", "--yes"),
    ("abandon", "--yes"),
    ("stop",),
    ("pause",),
    ("reset", "1", "--yes"),
    ("skip", "a"),
    ("retry", "a"),
    ("resume", "--yes"),
    ("run", "--yes"),
    ("mirror", "1", "apex"),
    ("export", "1", "--as", "apex"),
    ("rebuild", "--yes"),
    ("review",),
    ("status",),
    ("list",),
    ("logs", "1", "a"),
    ("inspect", "1"),
    ("recap", "1"),
    ("save",),
    ("doctor", "--fix"),
)
BAD_INPUT, TASKS_FAILED = 2, 1


def _cloned(tmp_path: Path) -> tuple[Cli, Path]:
    """Return a project that has its own `.holdfast/agents.toml` committed, and the file that would prove it obeyed."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="codex")
    proof = tmp_path / "obeyed"
    argv = json.dumps(["sh", "-c", f"echo 1.0 > {proof}; echo x > x.txt"])
    toml = f'[codex]\nprogram = "sh"\ncommand = {argv}\nversion = {argv}\nstream = "raw"\n'
    write(cli.here / ".holdfast" / "agents.toml", toml)
    cli.project.git("add", "-f", ".holdfast")
    cli.project.git("commit", "-q", "-m", "Come in")
    return cli, proof


@pytest.mark.parametrize(
    "command", [("doctor",), ("init", "new.yaml"), ("run", "--yes"), ("plan", "Do it", "--agent", "codex")]
)
def test_a_cloned_repository_starts_nothing_through_its_own_state(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Who clones a repository has agreed to none of its commands: what it tracks below `.holdfast` is refused by name."""
    cli, proof = _cloned(tmp_path)
    done = cli(*command)
    assert done.code != 0
    assert ".holdfast/agents.toml" in done.out + done.err
    assert not proof.exists()


def test_a_state_folder_that_git_no_longer_tracks_is_the_users_own(tmp_path: Path) -> None:
    """The way out that the refusal names leads out."""
    cli, proof = _cloned(tmp_path)
    cli.project.git("rm", "-q", "-r", "--cached", ".holdfast")
    cli.project.git("commit", "-q", "-m", "Keep it to myself")
    assert cli("run", "--yes").code == 0
    assert proof.exists()


def test_an_agent_lands_nothing_in_the_state_folder(tmp_path: Path) -> None:
    """Committed by force, it would change how the user's next agents are started."""
    script = "mkdir -p .holdfast; echo '[codex]' > .holdfast/agents.toml; git add -f .holdfast; git commit -q -m in"
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", f"echo a > a; git add a; {script}"))
    )
    assert trial.execute() is RunStatus.COMPLETED
    listed = trial.project.git("ls-tree", "-r", "--name-only", f"holdfast/{trial.run}")
    assert "a" in listed.splitlines()
    assert ".holdfast" not in listed


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with one completed run."""
    cli = Cli.of(tmp_path_factory.mktemp("finished") / "p", writes("a"))
    assert cli("run", "--yes").code == 0
    return cli.here


def _copy(finished: Path, tmp_path: Path) -> Cli:
    shutil.copytree(finished, tmp_path / "p", symlinks=True)
    return Cli(tmp_path / "p")


def _precious(tmp_path: Path) -> Path:
    """Return a folder of the user's that is none of Holdfast's business."""
    write(tmp_path / "precious" / "thesis.txt", "years of work\n")
    write(tmp_path / "precious" / "attempts" / "notes.txt", "more\n")
    write(tmp_path / "precious" / "recap.json", "mine\n")
    return tmp_path / "precious"


def _content(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, without what is git's own."""
    files = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path): path.read_bytes() for path in files}


def _change_run(journal: Path, **changes: str) -> None:
    """Write something else into the row of the only run of a journal."""
    with closing(sqlite3.connect(journal)) as db:
        ((body,),) = db.execute("SELECT row FROM runs").fetchall()
        row = msgspec.json.encode({**msgspec.json.decode(body), **changes})
        db.execute("UPDATE runs SET row = ?, run = coalesce(?, run)", (row, changes.get("run")))
        db.commit()


def test_a_journal_that_came_with_a_clone_decides_and_deletes_nothing(finished: Path, tmp_path: Path) -> None:
    """Its run is called `../../../precious`, and its folders are links: `clean --all` once removed the folder."""
    _precious(tmp_path)
    author = _copy(finished, tmp_path)
    state = author.here / ".holdfast"
    _change_run(state / "journal.db", run="../../../precious")
    for name in ("runs", "work"):
        shutil.rmtree(state / name)
        (state / name).symlink_to("..")
    author.project.git("add", "-f", ".holdfast/journal.db", ".holdfast/runs", ".holdfast/work")
    author.project.git("commit", "-q", "-m", "Come in")
    git(tmp_path, "clone", "-q", "p", "clone")
    victim = Cli(tmp_path / "clone")
    shutil.copy(author.here / "plan.json", victim.here)
    before = _content(tmp_path)
    for command in COMMANDS:
        done = victim(*command)
        assert "Traceback" not in done.err
        assert done.code == (TASKS_FAILED if command[0] == "doctor" else BAD_INPUT), (command, done)
        assert ".holdfast" in done.err + done.out
        assert _content(tmp_path) == before


HARMFUL = {
    "run": "../../../precious",
    "branch": "refs/heads/main",
    "base": "--output=precious.txt",
    "tip": "--output=precious.txt",
    "target": "--upload-pack=sh",
}


@pytest.mark.parametrize("field", HARMFUL)
def test_names_in_a_journal_are_checked_when_they_are_read(
    finished: Path, tmp_path: Path, field: str
) -> None:
    """They become folders, refs and words for git. The journal is refused with the way out, and that way works."""
    precious = _precious(tmp_path)
    before = _content(precious)
    cli = _copy(finished, tmp_path)
    _change_run(cli.here / ".holdfast" / "journal.db", **{field: HARMFUL[field]})
    main = cli.project.git("rev-parse", "main")
    for command in (("status",), ("clean", "--all", "--yes"), ("land", "--yes")):
        done = cli(*command)
        assert (done.code, "Traceback" in done.err) == (BAD_INPUT, False), done
        assert "holdfast rebuild" in done.err
    assert _content(precious) == before
    assert cli.project.git("rev-parse", "main") == main
    assert cli("rebuild").code == 0
    assert cli.run_status() == "completed"


@pytest.mark.parametrize("name", ["runs", "work", "journal.db", "outputs", "backups"])
def test_a_link_in_the_state_folder_is_refused_and_named(finished: Path, tmp_path: Path, name: str) -> None:
    """Behind it something could be deleted or overwritten that is not ours."""
    precious = _precious(tmp_path)
    before = _content(precious)
    cli = _copy(finished, tmp_path)
    place = cli.here / ".holdfast" / name
    if place.exists():
        place.rename(tmp_path / f"real-{name}")
    place.symlink_to(tmp_path / f"real-{name}" if name == "journal.db" else precious)
    for command in (("status",), ("clean", "--all", "--yes")):
        done = cli(*command)
        assert done.code == BAD_INPUT
        assert f"rm .holdfast/{name}" in done.err
    assert _content(precious) == before


@pytest.mark.parametrize("place", ["runs/{run}", "runs/{run}/attempts", "work/{run}", "outputs/{run}"])
@pytest.mark.parametrize("command", [("clean", "--all", "--yes"), ("discard", "--yes")])
def test_a_link_in_place_of_a_folder_of_a_run_is_never_followed(
    finished: Path, tmp_path: Path, place: str, command: tuple[str, ...]
) -> None:
    """An agent can put one there. It is replaced; what is behind it stays."""
    precious = _precious(tmp_path)
    before = _content(precious)
    cli = _copy(finished, tmp_path)
    run = cli.json("status")["run"]["id"]
    folder = cli.here / ".holdfast" / place.format(run=run)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)
    folder.symlink_to(precious)
    done = cli(*command)
    assert (done.code, done.err) == (0, "")
    assert _content(precious) == before


def test_a_moved_repository_goes_on(finished: Path, tmp_path: Path) -> None:
    """Whose state it is does not depend on where it is."""
    shutil.copytree(finished, tmp_path / "elsewhere", symlinks=True)
    cli = Cli(tmp_path / "elsewhere")
    assert cli.run_status() == "completed"
    assert cli("land", "--yes").code == 0
    assert cli("clean", "--all", "--yes").code == 0


@pytest.mark.parametrize(
    "kind", [("update-index", "--index-version", "4"), ("update-index", "--split-index")]
)
def test_an_index_that_does_not_spell_out_its_paths_hides_nothing(
    tmp_path: Path, kind: tuple[str, ...]
) -> None:
    """Whether git tracks the folder is read from the index; where that is not certain, git is asked."""
    cli, proof = _cloned(tmp_path)
    write(cli.here / ".holdfast.txt", "x")
    cli.project.commit("Sorted right before it")
    cli.project.git(*kind)
    done = cli("status")
    assert (done.code, proof.exists()) == (BAD_INPUT, False)
    assert "is tracked by git" in done.err


def test_a_file_in_place_of_the_folder_is_named(tmp_path: Path) -> None:
    """Not one of the files that would be in it."""
    project = Project.create(tmp_path / "p")
    (project.path / ".holdfast").write_text("notes")
    done = Cli(project.path)("status")
    assert (done.code, ".holdfast is not a folder" in done.err) == (2, True), done.err
