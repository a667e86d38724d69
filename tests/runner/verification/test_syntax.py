"""Syntax errors in what an attempt changed are found right after it ended, in many languages, and told to the next."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest

from holdfast.core.status import FailureKind, RunStatus
from holdfast.core.syntax import language_of, may_be_checked, read_tool_output, wants_newer_python
from tests.support.command import Cli, eventually
from tests.support.repositories import Project, write
from tests.support.runs import Trial, sh, stage
from tests.support.sandboxes import needs_sandbox

BROKEN = {
    "f.py": "def f(:\n",
    "late.py": "def f():\n    pass\nreturn 1\n",
    "tool": "#!/usr/bin/env python3\nprint(\n",
    "a.json": '{"a": 1,}\n',
    "a.toml": "a = \n",
    "a.yaml": "a: [1, 2\nb: 3\n",
    "a.svg": "<svg><g></svg>\n",
    "a.sh": "#!/bin/sh\nif true; then\n",
    "b.sh": "#!/bin/bash\nfor x in (1 2); do :; done\n",
}
GOOD = {
    "f.py": "match 1:\n    case 1: print('\\d')\n",
    "a.json": "{}\n",
    "tsconfig.json": "{ // why\n}\n",
    ".vscode/settings.json": "{ // why\n}\n",
    "chart/templates/a.yaml": "{{ if x }}\na: [\n",
    "tests/fixtures/bad.json": "{\n",
    "values.yaml": "a: {{ b }}\n",
    "many.yaml": "a: !Ref b\n---\nc: !custom {d: 1}\n",
    "empty.json": "",
    "entity.xml": '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>\n',
    "a.sh": "#!/bin/bash\nx=(1 2)\n[[ $x ]] && echo <<EOF\nEOF\n",
    "z.sh": "#!/bin/zsh\nfor x (1 2) echo $x\n",
    "data.txt": "def f(:\n",
}


def _attempt(
    tmp_path: Path, files: dict[str, str], before: dict[str, str] | None = None, **plan: object
) -> Trial:
    """Let one task write these files, in one attempt, over what was there before."""
    project = Project.create(tmp_path / "p")
    for name, content in (before or {}).items():
        project.write(name, content)
    project.commit("before")
    made = tmp_path / "made"
    for name, content in files.items():
        write(made / name, content)
        (made / name).chmod(0o755 if content.startswith("#!") else 0o644)
    copy = f"cp -r {made}/. ."
    trial = Trial.of(project, stage("one", sh("A", copy)), limits={"attempts": 1}, **plan)
    trial.execute()
    return trial


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_does_not_parse_fails_the_attempt_by_name(tmp_path: Path, name: str) -> None:
    """The error names file and line; nothing of it lands."""
    trial = _attempt(tmp_path, {name: BROKEN[name]})
    (failure,) = trial.state().tasks["A"].failures
    assert failure.kind is FailureKind.SYNTAX
    assert f"{name}:" in failure.error
    assert trial.landed() == []


def test_files_that_parse_and_files_in_doubt_are_accepted(tmp_path: Path) -> None:
    """Comments in JSON where they are usual, templates, fixtures, other shells: nobody is blamed for them."""
    assert _attempt(tmp_path, GOOD).landed() == ["A"]


def test_the_next_attempt_is_told_file_line_and_message_and_mends_it(tmp_path: Path) -> None:
    """The broken work is kept to build on, and the brief says what is wrong with it."""
    script = "if [ -f f.py ]; then echo 'x = 1' > f.py; else printf 'x = 1\\ny = = 2\\n' > f.py; fi"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)))
    assert trial.execute() is RunStatus.COMPLETED
    assert "f.py:2: invalid syntax" in trial.brief("A", 2)


def test_a_file_that_did_not_parse_before_is_not_blamed_on_the_task(tmp_path: Path) -> None:
    """Python 2 in an old corner of the project does not stop anybody."""
    trial = _attempt(
        tmp_path, {"old.py": "print 'b'\n", "b.sh": "if\n"}, before={"old.py": "print 'a'\n", "b.sh": "fi\n"}
    )
    assert trial.landed() == ["A"]


def test_a_plan_can_switch_the_look_at_syntax_off(tmp_path: Path) -> None:
    """`syntax: false`."""
    assert _attempt(tmp_path, {"f.py": "def f(:\n"}, syntax=False).landed() == ["A"]


def test_a_project_for_a_newer_python_is_not_judged_by_an_older_one(tmp_path: Path) -> None:
    """This program may run on an older interpreter than the project is for."""
    project = {"pyproject.toml": '[project]\nrequires-python = ">=3.99"\n', "f.py": "def f(:\n"}
    assert _attempt(tmp_path, project).landed() == ["A"]
    assert not wants_newer_python('requires-python = ">=3.11"', (3, 11))


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_javascript_is_read_by_node_as_script_or_as_module(tmp_path: Path) -> None:
    """Both kinds are right, also with a first line for the shell; JSX is left to the project's own tools."""
    good = {
        "a.js": "#!/usr/bin/env node\nif (1) { return; }\n",
        "b.js": "import a from './a.js';\nawait a;\n",
        "c.js": "const x = () => <div>hi</div>;\n",
    }
    assert _attempt(tmp_path / "good", good).landed() == ["A"]
    trial = _attempt(tmp_path / "bad", {"src/a.mjs": "export const x = 1;\nconst y = = 2;\n"})
    (failure,) = trial.state().tasks["A"].failures
    assert "src/a.mjs:2: Unexpected token '='" in failure.error


def test_nothing_of_the_project_runs_and_no_copies_stay(tmp_path: Path) -> None:
    """A script is read, never started; the folder of copies is removed."""
    trial = _attempt(
        tmp_path,
        {
            "a.sh": f"#!/bin/sh\ntouch {tmp_path}/ran\n",
            "b.js": f"require('fs').writeFileSync('{tmp_path}/ran', '')\n",
        },
    )
    assert trial.landed() == ["A"]
    assert not (tmp_path / "ran").exists()
    assert list(trial.project.open().state_dir.run(trial.run).root.glob("syntax-*")) == []


def test_a_tool_that_is_not_installed_is_simply_not_used(tmp_path: Path) -> None:
    """Without ruby, php or go their files are left to the project's checks."""
    missing = {
        f"a.{suffix}": "(((\n"
        for tool, suffix in (("ruby", "rb"), ("php", "php"), ("gofmt", "go"))
        if not shutil.which(tool)
    }
    assert _attempt(tmp_path, {**missing, "ok.txt": "ok\n"}).landed() == ["A"]


def test_what_the_tools_of_go_php_and_the_shells_print_is_understood() -> None:
    """Each has its own way to name file and line."""
    output = (
        "0.go:3:5: expected operand, found '}'\n"
        'PHP Parse error:  syntax error, unexpected token "}" in 1.php on line 7\n'
        "2.sh: line 4: syntax error near unexpected token `fi'\n"
        "3.sh: 9: Syntax error: end of file unexpected\n"
        "4.sh: line 1: warning: here-document delimited by end-of-file\n"
    )
    assert [(name, line) for name, line, _ in read_tool_output(output)] == [
        ("0.go", 3),
        ("1.php", 7),
        ("2.sh", 4),
        ("3.sh", 9),
    ]


def test_a_large_stored_pointer_and_a_link_are_no_source(tmp_path: Path) -> None:
    """A git-lfs pointer is not JSON, and a link's content is a path."""
    assert language_of("a.json", b"version https://git-lfs.github.com/spec/v1\n") is None
    assert not may_be_checked("{{cookiecutter.name}}/a.json", executable=False)
    made = tmp_path / "made"
    made.mkdir()
    (made / "link.json").symlink_to("f.json")
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", f"cp -r {made}/. .")))
    assert trial.execute() is RunStatus.COMPLETED


def test_many_files_cost_one_process_for_each_program(tmp_path: Path) -> None:
    """S10: looking at the syntax does not slow a run down noticeably, however many files were changed."""
    files = {f"{number}.py": "x = 1\n" * (number + 1) for number in range(50)}
    files |= {f"{number}.json": f"[{number}]\n" for number in range(50)}
    files |= {f"{number}.sh": "echo\n" * (number + 1) for number in range(50)}
    trial = _attempt(tmp_path, files)
    attempt = trial.project.open().state_dir.run(trial.run).attempts / "A" / "1"
    assert len(list(attempt.glob("syntax-*"))) == 2
    assert trial.landed() == ["A"]


def test_a_file_that_keeps_a_parser_busy_keeps_nobody_else(tmp_path: Path) -> None:
    """One line of Python that takes a compiler many minutes: the run can be stopped all the same, and the work is there."""
    bomb = "printf 'import a' > f.py; yes .a | head -n 400000 | tr -d '\\n' >> f.py"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", bomb]})
    runner = cli.start("run", "--yes")
    collected = ("for-each-ref", "refs/holdfast/01-try-it/task/a/1")
    eventually(
        lambda: cli.project.git(*collected) != "", "its work is committed; its syntax is looked at next"
    )
    stopped = cli("stop")
    assert stopped.code == 0, stopped.err
    runner.wait()
    # The stop may have come early, before its result was known, or late, after the parser had its time.
    assert cli.task("a")["attempts"] == 1
    assert cli.task("a")["status"] in ("verifying", "verified", "completed", "pending")


@needs_sandbox
@pytest.mark.parametrize("name", ["f.py", "a.yaml", "a.sh"])
def test_syntax_errors_are_found_in_a_sandbox(tmp_path: Path, name: str) -> None:
    """The programs that look for them, and their libraries, are there to be used."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", sh("A", f"printf '%s' {shlex.quote(BROKEN[name])} > {name}")),
        limits={"attempts": 1},
        sandbox="workspace",
    )
    trial.execute()
    assert f"{name}:" in trial.state().tasks["A"].failures[0].error
