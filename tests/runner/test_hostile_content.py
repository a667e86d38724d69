"""Files that git cannot store as asked: the attempt is rejected with the reason, and the run goes on or is left."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.command import Cli

DEEP = (
    f"{sys.executable} -c 'import os\n"
    'for _ in range(60): os.mkdir("n" * 100); os.chdir("n" * 100)\n'
    'open("file", "w").close()\''
)
BROKEN_FILTER = '[filter "broken"]\n\tclean = false\n\tsmudge = false\n\trequired = true\n'

CONTENTS = {
    "an encoding that the file does not have": (
        "echo '*.u working-tree-encoding=UTF-16' > .gitattributes; echo plain > x.u",
        "x.u was stored as it is",
    ),
    "an encoding that nobody knows": (
        "echo '*.u working-tree-encoding=nonsense' > .gitattributes; echo plain > x.u",
        "x.u was stored as it is",
    ),
    "a required filter that fails": (
        "echo '*.u filter=broken' > .gitattributes; echo plain > x.u",
        "x.u was stored as it is",
    ),
    "a required filter that fails on files of the user": (
        "echo '* filter=broken' > .gitattributes; echo plain > x.u; echo more >> a.txt",
        "was stored as it is",
    ),
    "a chain of folders deeper than any path": (DEEP, "deeper than any path may be"),
}


def project(tmp_path: Path, script: str, attempts: int) -> tuple[Cli, dict[str, str]]:
    """Return a project whose agent does this in its first attempt, and cleans up in the second."""
    settings = tmp_path / "gitconfig"
    settings.write_text(BROKEN_FILTER)
    repair = "rm -rf .gitattributes x.u nnn*; echo done > done.txt"
    work = f"if [ $HOLDFAST_ATTEMPT_NUMBER = 1 ]; then echo new > new.txt; {script}; else {repair}; fi"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", work]}, limits={"attempts": attempts})
    return cli, {"GIT_CONFIG_GLOBAL": str(settings)}


@pytest.mark.parametrize(("script", "reason"), CONTENTS.values(), ids=list(CONTENTS))
def test_content_that_git_refuses_is_a_rejected_attempt(tmp_path: Path, script: str, reason: str) -> None:
    """The next attempt starts from what could be stored, is told why, and completes the run."""
    cli, env = project(tmp_path, script, 2)
    done = cli("run", "--yes", **env)
    assert done.code == 0, done.out + done.err
    assert reason in cli("inspect", "1", "a", "--brief", "--attempt", "2").out
    assert cli("land", "--yes", **env).code == 0
    assert ((cli.here / "done.txt").exists(), (cli.here / "new.txt").exists()) == (True, True)


@pytest.mark.parametrize("script", [script for script, _ in CONTENTS.values()], ids=list(CONTENTS))
def test_a_run_with_such_content_can_be_left(tmp_path: Path, script: str) -> None:
    """Abandoned after its only attempt, it can be tried again, abandoned and cleaned away."""
    cli, env = project(tmp_path, script, 1)
    cli("run", "--yes", **env)
    for command in (["retry", "a"], ["abandon", "--yes"], ["clean", "--all", "--yes"]):
        done = cli(*command, **env)
        assert done.code == 0, (command, done)
    assert not list((cli.here / ".holdfast").glob("work/*/*"))
