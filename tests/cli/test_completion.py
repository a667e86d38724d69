"""`completion`: what bash, zsh and fish offer, asked of the real shells; and that it is there at once."""

from __future__ import annotations

import os
import pty
import re
import resource
import select
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.commands import COMMANDS
from holdfast.cli.completion import completed_commands
from tests.support.command import COMMAND, Cli, fails, writes
from tests.support.runs import DEADLINE_S

RUN = "01-try-it"
OFFERED = [
    ("stat", {"status"}),
    ("resume ", {RUN}),
    ("resume 1", {"1"}),
    ("retry 1 ", {"alpha", "beta"}),
    ("retry ", {RUN, "alpha", "beta"}),
    ("retry --json al", {"alpha"}),
    ("mirror 1 sp", {"specflow"}),
    ("mirror sp", {"specflow"}),
    ("export --as ex", {"execute"}),
    ("export --as execute ", {RUN}),
    ("plan im", {"import"}),
    ("plan import pla", {"plan.json"}),
    ("run pla", {"plan.json"}),
    ("status --fo", {"--follow"}),
    ("resume --only be", {"beta"}),
    ("run --agent cla", {"claude", "claude-agent-acp"}),
    ("completion z", {"zsh"}),
    ("land --into ", {"main"}),
    ("nonsense ", set()),
]
"""What is typed after `holdfast`, and what is offered."""


@pytest.fixture(scope="module")
def cli(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A repository with one run, which rests, and a `holdfast` on the PATH."""
    path = tmp_path_factory.mktemp("completion")
    made = Cli.of(path / "p", writes("alpha"), fails("beta"), limits={"attempts": 1})
    assert made("run", "--yes").code == 1
    program = path / "bin" / "holdfast"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    return made


def _env(cli: Cli) -> dict[str, str]:
    return {
        **os.environ,
        "PATH": f"{cli.here.parent / 'bin'}:{os.environ['PATH']}",
        "HOME": str(cli.here.parent),
    }


def _script(cli: Cli, shell: str) -> Path:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = cli.here.parent / f"completion.{shell}"
    if not path.exists():
        path.write_text(cli("completion", shell).out)
    return path


def _ask(cli: Cli, argv: list[str]) -> str:
    done = subprocess.run(
        argv, cwd=cli.here, env=_env(cli), capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(("typed", "offered"), OFFERED)
def test_bash_offers_what_fits(cli: Cli, typed: str, offered: set[str]) -> None:
    """Commands, options, runs, tasks, formats, agents and files, each in its place."""
    words = ["holdfast", *typed.split(" ")]
    program = (
        f"source {_script(cli, 'bash')}; COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; "
        '_holdfast; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    assert set(_ask(cli, ["bash", "--norc", "-c", program]).split()) == offered


@pytest.mark.parametrize(("typed", "offered"), OFFERED)
def test_fish_offers_what_fits(cli: Cli, typed: str, offered: set[str]) -> None:
    """The same, with what each is beside it."""
    program = f"source {_script(cli, 'fish')}; complete -C {shlex.quote(f'holdfast {typed}')}"
    lines = _ask(cli, ["fish", "--no-config", "-c", program]).splitlines()
    assert {line.partition("\t")[0] for line in lines} == offered


ALONE = [(typed, one) for typed, one in OFFERED if len(one) == 1]


@pytest.mark.parametrize(
    ("shell", "typed", "offered"),
    [*(("zsh", *one) for one in ALONE), *(("bash", *one) for one in ALONE[::4])],
)
def test_a_tab_completes_in_an_interactive_shell(cli: Cli, shell: str, typed: str, offered: set[str]) -> None:
    """Typed on a terminal, with the Tab key, as a user does. Zsh completes nowhere else."""
    before = typed.rpartition(" ")[0]
    made = f"holdfast {before} {next(iter(offered))}".split()
    assert _completed_line(cli, shell, f"holdfast {typed}").split() == made


def _completed_line(cli: Cli, shell: str, typed: str) -> str:
    """Type a command and Tab into a shell on a terminal; return the line that it made of it."""
    script = _script(cli, shell)
    setup = "bindkey -e; autoload -U compinit && compinit -u; " if shell == "zsh" else ""
    argv = ["zsh", "-f", "-i"] if shell == "zsh" else ["bash", "--norc", "--noprofile", "-i"]
    keyboard, terminal = pty.openpty()
    process = subprocess.Popen(
        argv,
        cwd=cli.here,
        env={**_env(cli), "TERM": "dumb"},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
    )
    os.close(terminal)
    try:
        os.write(keyboard, f"{setup}source {script}; echo re''ady\n".encode())
        _read_until(keyboard, r"ready\n")
        # The beginning and the end of the line make a command of it that prints it.
        os.write(keyboard, f"{typed}\t\x01echo li''ne: \x05 :e''nd\n".encode())
        return _read_until(keyboard, r"\nline: (.*?) :end\n")
    finally:
        process.kill()
        process.wait()
        os.close(keyboard)


def _read_until(keyboard: int, pattern: str) -> str:
    """Read what a shell prints until it has printed this; return the part in brackets, if there is one."""
    seen = ""
    while (found := re.search(pattern, seen)) is None:
        assert select.select([keyboard], [], [], DEADLINE_S)[0], f"never: {pattern} in {seen!r}"
        seen += os.read(keyboard, 65536).decode(errors="replace").replace("\r", "")
    return found[found.lastindex or 0]


def test_every_command_and_option_is_completed() -> None:
    """The scripts are made from the table of commands: what is added there needs no line in them."""
    found = {one.name: one for one in completed_commands()}
    assert found.keys() == COMMANDS.keys()
    assert {"--json", "--help"} <= {name for option in found["status"].options for name in option.names}


def test_names_are_offered_from_a_linked_worktree_and_a_folder_below(cli: Cli, tmp_path: Path) -> None:
    """Wherever the other commands find the runs."""
    below = cli.here / "below"
    below.mkdir()
    cli.project.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    for place in (below, tmp_path / "linked"):
        assert Cli(place)("completion", "--runs").out.startswith(RUN)


def test_names_come_with_the_statuses_that_status_shows(cli: Cli) -> None:
    """They are read in a shorter way than everything else, from the same journal."""
    shown = [f"{task['id']}\t{task['status']}" for task in cli.json("status")["tasks"]]
    for named in ("", "1", "try", RUN):
        assert cli("completion", "--tasks", named).out.splitlines() == shown
    assert cli("completion", "--runs").out == f"{RUN}\tblocked: Try it\n"


def test_outside_a_repository_nothing_is_offered_and_nothing_is_said(tmp_path: Path) -> None:
    """A shell has no place for an error while somebody types."""
    done = Cli(tmp_path)("completion", "--tasks")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_names_are_there_at_once(cli: Cli) -> None:
    """Most of the time is Python's own. Ratios of processor time hold on a busy machine, too."""
    python = _least_time(cli, [sys.executable, "-c", "import sqlite3, typing"])
    assert _least_time(cli, [*COMMAND, "completion", "--tasks", "1"]) < 4 * python


def _least_time(cli: Cli, argv: list[str]) -> float:
    times = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, cwd=cli.here, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(times)
