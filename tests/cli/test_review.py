"""`review`: what a run or a task produced, through the user's pager and colours."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Cli, cli_at_work, fails, on_terminal, writes


@pytest.fixture
def two(tmp_path: Path) -> Cli:
    """A completed run of two tasks."""
    cli = Cli.of(tmp_path / "p", writes("a", title="add a", verify=["test -e a.txt"]), writes("b"))
    assert cli("run", "--yes").code == 0
    return cli


def test_review_shows_each_task_with_its_files(two: Cli) -> None:
    """What landed, by which attempt, and the whole against the base."""
    said = two("review").out
    assert "Land a" in said
    assert "b.txt | 1 +" in said
    assert "2 files changed" in said
    assert two("review", "--stat").out == said


def test_a_patch_of_the_run_can_be_applied(two: Cli, tmp_path: Path) -> None:
    """In a pipe it is the patch alone, without pager and colours."""
    patch = two("review", "--patch", PAGER="false", GIT_PAGER="false")
    assert patch.out.startswith("diff --git a/a.txt b/a.txt\n")
    assert "\x1b" not in patch.out
    file = tmp_path / "run.patch"
    file.write_text(patch.out)
    two.project.git("apply", str(file))
    assert ((two.here / "a.txt").read_text(), (two.here / "b.txt").read_text()) == ("a\n", "b\n")


def test_the_names_of_the_changed_files_are_for_other_programs(two: Cli) -> None:
    """One per line, and nothing else."""
    assert two("review", "--files").out.splitlines() == ["a.txt", "b.txt"]
    assert two("review", "b", "--files").out.splitlines() == ["b.txt"]


def test_a_task_is_shown_by_itself(two: Cli) -> None:
    """Its run need not be named; its commits, files and checks are there, and nothing of others."""
    said = two("review", "a").out
    assert said.startswith("a: add a  landed as ")
    assert "a.txt | 4 +---" in said
    assert "check passed: test -e a.txt" in said
    assert "b.txt" not in said
    assert two("review", "1", "a").out == said


def test_unfinished_work_is_shown_and_said_to_be_so(tmp_path: Path) -> None:
    """What the last attempt left of a task that was given up."""
    half = {"id": "a", "run": ["sh", "-c", "echo half > half.txt; exit 1"], "resume": "continue"}
    cli = Cli.of(tmp_path / "p", half, limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    said = cli("review", "a").out
    assert "unfinished, what attempt 1 has saved so far (abandoned)" in said
    assert "half.txt | 1 +" in said
    shown = cli("review", "a", "--patch")
    assert "+half" in shown.out
    assert "unfinished" in shown.err


def test_a_task_that_was_never_tried_has_nothing_to_show(tmp_path: Path) -> None:
    """Said, and no error."""
    cli = Cli.of(tmp_path / "p", fails("a"), writes("b", needs=["a"]), limits={"attempts": 1})
    cli("run", "--yes")
    done = cli("review", "b")
    assert (done.code, "nothing to show yet" in done.out) == (0, True)


def test_work_under_way_is_shown_as_it_was_saved_last(tmp_path: Path) -> None:
    """While its agent is at work."""
    cli, runner, _ = cli_at_work(tmp_path)
    assert cli("save").code == 0
    assert "half.txt | 1 +" in cli("review", "a").out
    assert cli("stop").code == 0
    runner.wait()


def test_programs_get_files_commits_attempts_and_checks(two: Cli) -> None:
    """For the run and for each task; the patch if it was asked for."""
    found: dict[str, Any] = two.json("review")
    assert [(one["path"], one["insertions"], one["deletions"]) for one in found["files"]] == [
        ("a.txt", 1, 3),
        ("b.txt", 1, 0),
    ]
    assert (found["insertions"], found["deletions"], found["patch"]) == (2, 3, None)
    first = found["tasks"][0]
    assert (first["task"], first["work"], first["attempts"]) == ("a", "landed", 1)
    assert [one["subject"] for one in first["commits"]] == ["a: add a"]
    assert first["checks"] == [{"command": "test -e a.txt", "passed": True}]
    assert two.json("review", "b", "--patch")["patch"].startswith("diff --git a/b.txt")


def test_a_discarded_run_is_shown_from_its_archive(two: Cli) -> None:
    """And said to be discarded."""
    two("discard", "--yes")
    said = two("review").out
    assert "It was discarded; this is its archive, refs/holdfast/01-try-it/archive/branch-" in said
    assert "2 files changed" in said
    assert two("review", "--files").out.splitlines() == ["a.txt", "b.txt"]


def test_a_landed_run_whose_branch_was_removed_is_shown_from_what_remains(two: Cli) -> None:
    """The branch is named as gone, and not as a place to look at."""
    assert two("land", "--yes").code == 0
    assert two("clean", "--branches", "--yes").code == 0
    said = two("review").out
    assert "Its branch holdfast/01-try-it was removed; its result is in main." in said
    assert ("on holdfast/" in said, "2 files changed" in said) == (False, True)
    assert two("review", "b").code == 0
    assert ", removed since" in two("status").out


# -- pager and colours ------------------------------------------------------------------------------------------


def pager(tmp_path: Path, name: str) -> str:
    """Return a pager that keeps what it is shown."""
    return f"cat > {tmp_path}/{name}"


@pytest.mark.parametrize(
    ("wanted", "env", "config"),
    [
        ("first", {"GIT_PAGER": "first", "PAGER": "third"}, "second"),
        ("second", {"PAGER": "third"}, "second"),
        ("third", {"PAGER": "third"}, None),
    ],
)
def test_the_pager_is_the_one_that_git_would_take(
    two: Cli, tmp_path: Path, wanted: str, env: dict[str, str], config: str | None
) -> None:
    """`GIT_PAGER`, then the user's `core.pager`, then `PAGER`."""
    own = tmp_path / "gitconfig"
    own.write_text(f'[core]\n\tpager = "{pager(tmp_path, config)}"\n' if config else "")
    chosen = {name: pager(tmp_path, value) for name, value in env.items()}
    code, _ = on_terminal(two, "review", answers="", GIT_CONFIG_GLOBAL=str(own), **chosen)
    assert code == 0
    assert [path.name for path in tmp_path.iterdir() if path.name in ("first", "second", "third")] == [wanted]
    assert "2 files changed" in (tmp_path / wanted).read_text()


def test_a_pager_in_the_repositorys_configuration_is_not_run(two: Cli, tmp_path: Path) -> None:
    """An agent can write there. The same for programs that git would show differences with."""
    touched = tmp_path / "touched"
    two.project.git("config", "core.pager", f"touch {touched}")
    two.project.git("config", "diff.external", f"touch {touched}")
    two.project.git("config", "diff.evil.textconv", f"touch {touched};")
    two.project.git("config", "diff.evil.command", f"touch {touched};")
    (two.project.git_dir / "info" / "attributes").write_text("* diff=evil\n")
    code, screen = on_terminal(two, "review", "--patch", answers="", PAGER="cat")
    assert (code, touched.exists(), "+a" in screen) == (0, False, True)


def test_a_patch_has_the_users_colours_on_a_terminal(two: Cli, tmp_path: Path) -> None:
    """Git's own, or those of the user's configuration; none with `NO_COLOR` or `color.ui=false`."""
    own = tmp_path / "gitconfig"
    own.write_text('[color]\n\tui = auto\n[color "diff"]\n\tnew = magenta\n')

    def shown(**env: str) -> str:
        return on_terminal(
            two, "review", "--patch", answers="", GIT_CONFIG_GLOBAL=str(own), PAGER="cat", **env
        )[1]

    assert "\x1b[35m+a\x1b[m" in shown()
    assert "\x1b[1mdiff --git" in shown()
    assert "\x1b" not in shown(NO_COLOR="1")
    own.write_text("[color]\n\tui = false\n")
    assert "\x1b" not in shown()


def test_what_an_agent_wrote_cannot_steer_the_terminal_or_show_a_secret(tmp_path: Path) -> None:
    """No hidden text, no movement of the cursor, in patch, names and statistics."""
    key = "sk-ant-api03-" + "a1B2c3D4e5F6g7H8" * 6
    text = "x\\033[8mhidden\\033[2J\\n%s%s\\n"
    script = f"printf '{text}' {key[:9]} {key[9:]} > \"$(printf 'odd\\033[2Jname')\""
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    assert cli("run", "--yes").code == 0
    for words in (("--patch",), ("--stat",), ("--files",), ("a",), ("--json", "--patch")):
        done = cli("review", *words)
        assert done.code == 0, done.err
        assert "\x1b" not in done.out
        assert key not in done.out
    _, screen = on_terminal(cli, "review", "--patch", answers="", PAGER="cat")
    assert "\x1b[8m" not in screen
    assert "\x1b[2J" not in screen


def test_a_user_who_leaves_the_pager_early_is_no_error(two: Cli) -> None:
    """Most of a long patch is never read."""
    code, _ = on_terminal(two, "review", "--patch", answers="", PAGER="true", **_plain())
    assert code == 0


def _plain() -> dict[str, str]:
    return {"GIT_CONFIG_GLOBAL": os.devnull}


def test_a_squashed_run_whose_branch_was_removed_was_not_discarded(completed: Cli) -> None:
    """`review` says where its result is, as `status` does."""
    assert completed("land", "--squash", "--yes").code == 0
    assert completed("clean", "--branches", "--yes").code == 0
    shown = completed("review").out
    assert ("its result is in main" in shown, "discarded" in shown) == (True, False)
