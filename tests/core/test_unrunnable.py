"""Whose fault it is that a command could not be executed, by what real shells say."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from holdfast.core.unrunnable import (
    CommandFault,
    TreePath,
    fault_of,
    lacks_program,
    program_named,
    tree_path,
    words_said,
)

_SAID = [
    (127, "sh: 1: pytset: not found\n", "pytset"),
    (127, "/bin/sh: 1: pytset: not found\n", "pytset"),
    (127, "/bin/sh: line 1: pytset: command not found\n", "pytset"),
    (127, "sh: pytset: not found\n", "pytset"),
    (127, "bash: line 1: ./run_tests.sh: No such file or directory\n", "./run_tests.sh"),
    (126, "sh: 1: ./run_tests.sh: Permission denied\n", "./run_tests.sh"),
    (126, "bash: ./t.py: /usr/bin/nope: bad interpreter: No such file or directory\n", "./t.py"),
    (127, "bash: ./t.py: cannot execute: required file not found\n", "./t.py"),
    (127, "/usr/bin/env: 'pythn3': No such file or directory\n", "pythn3"),
    (127, "env: pythn3: No such file or directory\n", "pythn3"),
    (127, "> test\n> jest\n\nsh: 1: jest: not found\n", "jest"),
    (1, "sh: 1: pytset: not found\n", ""),
    (127, "3 tests failed\n", ""),
    (127, "", ""),
    (127, "cat: notes.txt: No such file or directory\n", ""),
]


@pytest.mark.parametrize(("code", "output", "program"), _SAID)
def test_what_a_shell_could_not_execute_is_read_from_its_words(code: int, output: str, program: str) -> None:
    """Only statuses 126 and 127 count, and only lines that a shell or `env` writes."""
    assert program_named(code, output) == program


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("command", ["pytset -q", "./gone.sh", "./plain.sh", "./stray.py", "/no/such/tool x"])
def test_the_words_of_this_machines_shells_are_known(shell: str, command: str, tmp_path: Path) -> None:
    """Whatever a real shell says about what it cannot execute is recognised."""
    (tmp_path / "plain.sh").write_text("echo\n")
    (tmp_path / "stray.py").write_text("#!/no/such/python\n")
    (tmp_path / "stray.py").chmod(0o755)
    ended = subprocess.run([shell, "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    said = ended.stdout + ended.stderr
    assert program_named(ended.returncode, said) == command.split()[0]
    assert command.split()[0] in words_said(said)


_FILES = {
    "not changed, and cannot be executed": (
        TreePath(before=True, now=True, changed=False),
        CommandFault.PLAN,
    ),
    "broken by the attempt": (TreePath(before=True, now=True, changed=True), CommandFault.AGENT),
    "made by the attempt": (TreePath(before=False, now=True, changed=True), CommandFault.AGENT),
    "deleted by the attempt": (TreePath(before=True, now=False, changed=True), CommandFault.AGENT),
    "never there": (TreePath(before=False, now=False, changed=False), CommandFault.UNSURE),
}


@pytest.mark.parametrize("case", _FILES)
def test_a_file_of_the_tree_is_judged_by_what_became_of_it(case: str) -> None:
    """The agent's fault stays the agent's; what nobody touched is the plan's or the machine's."""
    file, fault = _FILES[case]
    assert fault_of("./run_tests.sh", "./run_tests.sh --all", file) is fault


@pytest.mark.parametrize(
    ("program", "command", "fault"),
    [
        ("pytset", "pytset -q", CommandFault.PLAN),
        ("pytset", "cd src && pytset -q", CommandFault.PLAN),
        ("/opt/tool", "/opt/tool --check", CommandFault.PLAN),
        ("jest", "npm test", CommandFault.UNSURE),
        ("test", "pytest -q", CommandFault.UNSURE),
    ],
)
def test_a_program_of_the_machine_is_the_plans_fault_if_the_plan_names_it(
    program: str, command: str, fault: CommandFault
) -> None:
    """A program that only a script of the tree names may be what the agent wrote there."""
    assert fault_of(program, command, None) is fault


@pytest.mark.parametrize(
    ("command", "code", "output", "expected"),
    [
        ("pytset -q", 127, "/bin/sh: 1: pytset: not found", True),
        ("cd web && eslnt .", 127, "sh: line 1: eslnt: command not found", True),
        ("env pytset", 127, "env: 'pytset': No such file or directory", True),
        ("/opt/tool/check", 127, "/bin/sh: 1: /opt/tool/check: not found", True),
        ("./check.sh", 127, "/bin/sh: 1: ./check.sh: not found", False),
        ("scripts/check", 126, "/bin/sh: 1: scripts/check: Permission denied", False),
        ("npm test", 127, "sh: 1: vitest: not found", False),
        ("pytest -q", 5, "no tests ran", False),
        ("pytset -q || exit 1", 1, "/bin/sh: 1: pytset: not found", False),
    ],
)
def test_a_program_that_the_command_names_and_nobody_has_is_the_plan_s_fault(
    command: str, code: int, output: str, expected: bool
) -> None:
    """One of the tree is not: a task may write it. Nor one that a tool looks for by itself."""
    assert lacks_program(command, code, output) == expected


@pytest.mark.parametrize(
    ("program", "path"),
    [
        ("./run_tests.sh", "run_tests.sh"),
        ("bin//check", "bin/check"),
        ("pytest", ""),
        ("/bin/true", ""),
        ("../other/x", ""),
    ],
)
def test_only_a_relative_path_with_a_slash_is_of_the_tree(program: str, path: str) -> None:
    """A bare name is looked up on the PATH, an absolute one is the machine's, and `..` leaves the tree."""
    assert tree_path(program) == path
