"""A repository with large files in git-lfs: the real program, as its users set it up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command import Cli, writes
from tests.support.git_tools import needs_lfs, with_lfs

pytestmark = needs_lfs
POINTER = "version https://git-lfs.github.com/spec/v1"


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """A project whose `*.bin` are kept by git-lfs; an agent writes one more and changes one."""
    monkeypatch.setenv("PATH", with_lfs())
    script = 'test "$(cat old.bin)" = old && echo changed > old.bin && echo new > new.bin'
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]}, writes("b", needs=["a"]))
    cli.project.git("lfs", "install", "--local")
    cli.project.write(".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n")
    cli.project.write("old.bin", "old\n")
    cli.project.commit("large files")
    assert cli.project.git("show", "HEAD:old.bin").startswith(POINTER)
    return cli


@pytest.mark.parametrize("level", ["off", "workspace"])
def test_large_files_are_content_in_a_workspace_and_pointers_in_git(cli: Cli, level: str) -> None:
    """And content again in the user's checkout when they land."""
    done = cli("run", "--yes", "--land", "--sandbox", level)
    assert done.code == 0, done.out + done.err
    for name, content in (("old.bin", "changed\n"), ("new.bin", "new\n")):
        assert cli.project.git("show", f"HEAD:{name}").startswith(POINTER)
        assert (cli.here / name).read_text() == content
    assert cli.project.git("status", "--short", "--untracked-files=no") == ""


def test_a_run_begins_although_the_store_of_git_lfs_is_not_there_yet(cli: Cli) -> None:
    """Git-lfs is installed, and nothing was ever stored: `.git/lfs` is missing."""
    cli.project.git("rm", "-q", "old.bin")
    cli.project.commit("no large file")
    (cli.here / ".git" / "lfs").rename(cli.here.parent / "gone")
    cli.plan({"id": "a", "run": ["sh", "-c", "echo new > new.bin"]})
    assert cli("run", "--yes", "--land").code == 0
    assert cli.project.git("show", "HEAD:new.bin").startswith(POINTER)
    assert (cli.here / "new.bin").read_text() == "new\n"
