"""A full disk under every command that writes into the user's checkout: nothing is torn, and given again it works."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.command import Cli, Done
from tests.support.repositories import write
from tests.support.tiny_disk import TinyDisk, tiny_disk

LINES = "".join(f"line {number}\n" for number in range(12_000))
GROW = (
    "for n in 1 2 3 4; do seq $n 30000 > new$n.txt; done; mkdir d; seq 30000 > d/e.txt; "
    "seq 9 30000 > big.txt; rm gone.txt; echo x > a.txt"
)
CHECKLIST = "- [ ] " + "Do this first. " * 800 + "\n- [ ] Then that\n"


@dataclass(frozen=True, slots=True)
class FullProject:
    """A project on a small disk, and what its user does."""

    cli: Cli
    disk: TinyDisk

    def files(self) -> dict[str, bytes]:
        """Return the files of the checkout that git does not keep."""
        found = (path for path in self.cli.here.rglob("*") if path.is_file())
        names = {str(path.relative_to(self.cli.here)): path for path in found}
        return {
            name: path.read_bytes()
            for name, path in names.items()
            if not name.startswith((".git/", ".holdfast/"))
        }

    def on_full_disk(self, *args: str, leave: int = 0) -> Done:
        """Run a command with hardly any room left, also for its temporary files; make room again."""
        self.disk.fill(leave)
        done = self.cli(*args, TMPDIR=str(self.disk.root))
        self.disk.free()
        return done


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A completed run that changes, adds and removes files, and has a snapshot of unfinished work; to copy from."""
    cli = Cli.of(tmp_path_factory.mktemp("original") / "p", {"id": "a", "run": ["sh", "-c", GROW]})
    write(cli.here / "big.txt", LINES)
    write(cli.here / "gone.txt", LINES)
    write(cli.here / "todo.md", CHECKLIST)
    cli.project.commit("much")
    assert cli("run", "--yes").code == 0
    ref = "refs/holdfast/01-try-it/wip/a"
    cli.project.git("update-ref", "--create-reflog", "-m", "WIP", ref, "holdfast/01-try-it")
    return cli


@pytest.fixture
def full(original: Cli, tmp_path: Path) -> Iterator[FullProject]:
    """A copy of it on a disk of 16 MB."""
    with tiny_disk(tmp_path / "disk", 16) as disk:
        cli = Cli(shutil.copytree(original.here, disk.root / "p", symlinks=True))
        cli.project.git("status")
        yield FullProject(cli, disk)


@pytest.mark.parametrize("leave", [0, 40_000, 100_000, 200_000, 300_000, 500_000, 700_000])
def test_land_is_undone_or_completed_by_landing_again(full: FullProject, leave: int) -> None:
    """Wherever the disk gets full: whatever is left of it, the same command finishes it."""
    before = full.cli.project.head()
    refused = full.on_full_disk("land", "--yes", leave=leave)
    assert (refused.code, full.cli.project.head()) == (3, before), refused.err
    assert "Traceback" not in refused.err
    landed = full.cli("land", "--yes")
    assert landed.code == 0, landed.err
    assert full.cli.project.git("status", "--porcelain") == ""
    assert (full.cli.here / "d" / "e.txt").exists()


def test_land_says_that_the_checkout_is_half_updated(full: FullProject) -> None:
    """There is no room to undo it, either: the user knows what state the files are in, and what to do."""
    refused = full.on_full_disk("land", "--yes", leave=300_000)
    assert "is half updated" in refused.err
    assert "run the command again" in refused.err


COMMANDS = {
    "plan import": ("plan", "import", "todo.md", "-o", "made.yaml"),
    "init": ("init", "made.yaml"),
    "export": ("export", "--as", "apex", "-o", "made/"),
    "inspect --restore": ("inspect", "1", "a", "--restore", "made"),
    "discard": ("discard", "1", "--yes"),
    "clean": ("clean", "1", "--yes"),
    "mirror": ("mirror", "1", "apex"),
}


@pytest.mark.parametrize("leave", [0, 36_000, 60_000])
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_that_writes_leaves_no_half_of_anything(
    full: FullProject, command: tuple[str, ...], leave: int
) -> None:
    """What it did not finish is not there, or whole; with room it does all of it."""
    before = full.files()
    refused = full.on_full_disk(*command, leave=leave)
    assert "Traceback" not in refused.err
    left = full.files()
    done = full.cli(*command) if refused.code else refused
    assert done.code == 0, (refused.err, done.err)
    whole = full.files()
    assert {name: whole.get(name) for name in left if name not in before} == {
        name: data for name, data in left.items() if name not in before
    }
    assert {name: left[name] for name in before} == before
    assert [path.name for path in full.disk.root.iterdir()] == ["p"]
