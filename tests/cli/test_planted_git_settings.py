"""What an agent plants for git: no command of Holdfast runs it, hangs on it or is led astray by it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.command import Cli, on_terminal, writes


def planted(tmp_path: Path) -> tuple[Path, Path]:
    """Return a program that says who ran it, and where it says so: an agent is named by its task."""
    trace, program = tmp_path / "trace", tmp_path / "planted"
    program.write_text(f"#!/bin/sh\necho ran by ${{HOLDFAST_TASK:-another}} >> {trace}\ncat\n")
    program.chmod(0o755)
    return program, trace


def agent(script: str) -> dict[str, object]:
    """Return a task whose agent does this, and some work."""
    return {"id": "a", "run": ["sh", "-ec", f"{script}\necho done > done.txt"]}


def test_an_object_that_is_missing_is_not_fetched_by_a_planted_program(tmp_path: Path) -> None:
    """A promisor remote and an ssh command of the agent's; its HEAD names a commit that only they could bring."""
    trace, missing = tmp_path / "trace", "1" * 40
    script = f"""git config core.repositoryformatversion 1
git config extensions.partialClone origin
git config remote.origin.url ssh://nowhere/x
git config remote.origin.promisor true
git config core.sshCommand 'touch {trace}; false'
echo {missing} > "$(git rev-parse --git-dir)/HEAD" """
    cli = Cli.of(tmp_path / "p", agent(script))
    assert cli("run", "--yes").code == 0
    assert not trace.exists()
    cli.project.git("cat-file", "-e", missing, check=False)
    assert trace.exists()  # the user's own git does run it, so silence proves something


def test_settings_planted_in_holdfasts_own_git_directory_are_not_used(tmp_path: Path) -> None:
    """The agent knows the place, and writes a filter into every file there that git could read."""
    program, trace = planted(tmp_path)
    script = f"""private="$(git rev-parse --path-format=absolute --git-common-dir)/holdfast-private/sealed"
for name in config filters config.worktree; do
  printf '[filter "evil"]\\n\\tclean = {program}\\n\\tsmudge = {program}\\n' >> "$private/$name"
done
echo '* filter=evil' >> "$private/info/attributes"
echo x | git --git-dir="$private" hash-object --stdin --path=x"""
    cli = Cli.of(tmp_path / "p", agent(script), writes("b", needs=["a"]))
    assert cli("run", "--yes", "--land").code == 0
    assert set(trace.read_text().splitlines()) == {"ran by a"}


def test_a_filter_planted_during_a_run_does_not_run_when_its_result_lands(tmp_path: Path) -> None:
    """Neither in the user's checkout nor in a review."""
    program, trace = planted(tmp_path)
    script = f"""git config filter.evil.smudge {program}
git config filter.evil.clean {program}
echo '* filter=evil' >> "$(git rev-parse --git-common-dir)/info/attributes" """
    cli = Cli.of(tmp_path / "p", agent(script))
    assert cli("run", "--yes").code == 0
    assert cli("review").code == 0
    assert cli("land", "--yes").code == 0
    assert ((cli.here / "done.txt").read_text(), trace.exists()) == ("done\n", False)
    assert "filter.evil.smudge" in cli("run", "--yes", "--fresh").err
    assert not trace.exists()


def test_on_a_terminal_the_user_decides_about_a_new_filter(completed: Cli) -> None:
    """`--yes` is about the plan, and accepts no filter."""
    completed.project.git("config", "filter.late.clean", "cat")
    code, screen = on_terminal(completed, "run", "--yes", answers="n\n")
    assert (code, "filter.late.clean = 'cat'" in screen) == (0, True)
    assert "filter.late.clean" in on_terminal(completed, "run", "--yes", answers="y\n")[1]
    assert "filter.late.clean" not in on_terminal(completed, "run", "--yes", answers="")[1]


def test_git_and_the_users_filters_see_no_secret_of_the_runner(tmp_path: Path) -> None:
    """They get as small an environment as an agent."""
    seen, settings = tmp_path / "seen", tmp_path / "gitconfig"
    settings.write_text(f'[filter "look"]\n\tclean = "env >> {seen}; cat"\n')
    cli = Cli.of(tmp_path / "p", agent("echo '* filter=look' > .gitattributes"))
    assert cli("run", "--yes", GIT_CONFIG_GLOBAL=str(settings), DEPLOY_KEY="s3cret").code == 0
    assert "PATH=" in seen.read_text()
    assert "s3cret" not in seen.read_text()


@pytest.mark.parametrize("name", ["info/attributes", "commondir", "packed-refs", "refs/heads/x"])
def test_a_pipe_in_the_git_directory_is_named_and_removed_on_request(blocked: Cli, name: str) -> None:
    """Git would wait for it for ever, and so would every command."""
    path = blocked.project.git_dir / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    for command in (["resume", "--yes"], ["abandon", "--yes"], ["doctor"]):
        done = blocked(*command)
        assert (done.code != 0, f"{path} is a pipe" in done.err + done.out) == (True, True), command
        assert "doctor --fix" in done.err + done.out
    assert blocked("status").code == 0
    assert f"Removed {path}" in blocked("doctor", "--fix").out
    assert blocked("abandon", "--yes").code == 0


@pytest.mark.parametrize("setting", ["core.worktree=/nowhere", "core.bare=true"])
def test_a_repository_that_an_agent_declared_to_be_elsewhere_is_still_found(
    completed: Cli, setting: str
) -> None:
    """Its files are beside its git directory, whatever the configuration says."""
    completed.project.git("config", *setting.split("="))
    assert completed("land", "--yes").code == 0
    assert (completed.here / "a.txt").exists()


def test_what_a_run_left_in_the_users_git_is_told(tmp_path: Path) -> None:
    """Settings, hooks and branches: Holdfast does not follow them, but the user's next git command does."""
    script = """git config alias.st '!echo planted'
git branch left-behind
mkdir -p "$(git rev-parse --git-common-dir)/hooks"
echo true > "$(git rev-parse --git-common-dir)/hooks/pre-commit" """
    cli = Cli.of(tmp_path / "p", agent(script))
    told = [cli("run", "--yes").err, cli("doctor").out]
    for name in ("alias.st", "hooks/pre-commit", "branch left-behind"):
        assert [f'"{name}"' in text for text in told] == [True, True], (name, told)


def test_an_ordinary_run_leaves_nothing_to_tell_of(completed: Cli) -> None:
    """Nothing of ours, and nothing that was there before it."""
    assert "git settings" not in completed("doctor").out
