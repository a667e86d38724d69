"""What a hostile agent, user or environment did to a real run, and what the run made of it."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from holdfast.core.status import RunStatus
from holdfast.repo.git import Git, GitError
from tests.support.command import COMMAND, Cli, is_alive, writes
from tests.support.repositories import Project
from tests.support.runs import DEADLINE_S, Fifo, Trial, sh, stage, start_runner

NO_UNICODE = r"n=$(printf 'bad\377name')"


def test_file_names_that_are_no_unicode_do_not_end_the_run(tmp_path: Path) -> None:
    """A failed attempt, a rejected file, a nested repository and an intrusion may all have such a name."""
    project = Project.create(tmp_path / "p")
    trial = Trial.of(
        project,
        stage(
            "one",
            sh("A", f"{NO_UNICODE}; echo x > $n; test $HOLDFAST_ATTEMPT_NUMBER = 2"),
            sh("B", f"{NO_UNICODE}; mkdir $n.d; cd $n.d; git init -q .; echo x > x"),
            sh("C", f"{NO_UNICODE}; echo x > {project.path}/$n; echo c > C.txt"),
        ),
        limits={"attempts": 2},
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.violations() == []


def test_a_conflict_in_a_file_whose_name_is_no_unicode_is_resolved(tmp_path: Path) -> None:
    """The conflict is recorded, and a fresh agent gets its turn."""
    script = f"{NO_UNICODE}; echo $HOLDFAST_TASK $HOLDFAST_ATTEMPT_NUMBER > $n"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script), sh("B", script)))
    assert trial.execute() is RunStatus.COMPLETED
    assert sorted(trial.landed()) == ["A", "B"]


def test_directories_that_an_agent_closed_are_opened_and_taken(tmp_path: Path) -> None:
    """Neither the workspace's root nor a folder in it hides work by its mode, and the next task is not disturbed."""
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage(
            "one",
            sh("A", "mkdir -p d/e; echo a > d/e/a; chmod 000 d/e d"),
            sh("B", "echo b > b; chmod 000 ."),
        ),
        stage("two", sh("C", "echo c > c")),
        limits={"jobs": 1},
    )
    assert trial.execute() is RunStatus.COMPLETED
    assert [trial.show(path) for path in ("d/e/a", "b", "c")] == ["a", "b", "c"]


def test_a_closed_workspace_does_not_stop_the_next_runner(tmp_path: Path) -> None:
    """A runner that died before it collected the work leaves it to the next one, however it is protected."""
    there = Fifo(tmp_path / "there")
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", f"echo a > a; chmod 000 .; {there.give}"))
    )
    runner = start_runner(trial)
    there.wait()
    runner.kill()
    runner.communicate(timeout=DEADLINE_S)
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("a") == "a"


def test_an_agent_whose_records_were_deleted_is_ended_before_the_task_goes_on(tmp_path: Path) -> None:
    """The journal knows its token, so no second agent joins it in its workspace."""
    there, go = Fifo(tmp_path / "there"), Fifo(tmp_path / "go")
    script = (
        f"test -f {tmp_path}/again || {{ touch {tmp_path}/again; {there.give}; {go.take}; }}; echo a >> a"
    )
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)))
    runner = start_runner(trial)
    agent = int(there.wait())
    runner.kill()
    runner.communicate(timeout=DEADLINE_S)
    shutil.rmtree(trial.project.open().state_dir.run(trial.run).attempts)
    assert trial.execute() is RunStatus.COMPLETED
    assert (is_alive(agent), trial.show("a")) == (False, "a")


def test_work_is_collected_although_holdfasts_own_folder_in_git_was_deleted(tmp_path: Path) -> None:
    """What is in there can be made anew; the agent's work cannot."""
    there = Fifo(tmp_path / "there")
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", f"echo a > a; {there.give}")))
    runner = start_runner(trial)
    there.wait()
    runner.kill()
    runner.communicate(timeout=DEADLINE_S)
    shutil.rmtree(trial.project.path / ".git" / "holdfast-private")
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("a") == "a"


def test_a_pipe_in_place_of_head_does_not_keep_the_runner_waiting(tmp_path: Path) -> None:
    """Nobody will ever write to it; the files are taken without it."""
    script = "echo a > a; head=$(git rev-parse --git-dir)/HEAD; rm $head; mkfifo $head"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)))
    assert trial.execute() is RunStatus.COMPLETED
    assert trial.show("a") == "a"


def test_pipes_in_place_of_files_that_git_opens_do_not_keep_the_runner_waiting(tmp_path: Path) -> None:
    """Rule files, also in a closed directory, and the files of a nested repository: the work is taken without them."""
    script = (
        "echo a > a; rm -f .gitignore; mkfifo .gitignore .gitattributes .gitmodules; mkdir d; mkfifo d/.gitignore;"
        "chmod 000 d; git init -q n; echo x > n/x; rm n/.git/HEAD; mkfifo n/.git/HEAD"
    )
    trial = Trial.of(
        Project.create(tmp_path / "p"), stage("one", sh("A", script)), stage("two", sh("B", "echo b > b"))
    )
    assert _carried_on(trial) == "completed"
    assert (trial.show("a"), trial.landed()) == ("a", ["A", "B"])


def test_a_pipe_in_an_idle_workspace_does_not_keep_the_next_task_waiting(tmp_path: Path) -> None:
    """A later task can reach the workspace of an earlier one; it is prepared all the same."""
    plant = "for w in ../*/; do mkfifo $w.gitattributes $w/src/.gitignore; done; echo p > p"
    pairs = [[sh(f"{name}{side}", f"echo x > {name}{side}") for side in "lr"] for name in "ac"]
    trial = Trial.of(
        Project.create(tmp_path / "p"),
        stage("one", *pairs[0]),
        stage("two", sh("b", plant)),
        stage("three", *pairs[1]),
    )
    assert _carried_on(trial) == "completed"


def test_a_tracked_file_that_became_a_pipe_is_told_to_the_agent(tmp_path: Path) -> None:
    """Git cannot store it; the attempt is refused in words, and the next one may do better."""
    script = "echo a > a; test $HOLDFAST_ATTEMPT_NUMBER = 2 || { rm a.txt; mkfifo a.txt; }"
    trial = Trial.of(Project.create(tmp_path / "p"), stage("one", sh("A", script)), limits={"attempts": 2})
    assert _carried_on(trial) == "completed"
    assert "a.txt is a pipe" in trial.brief("A", 2)


def test_a_git_that_waits_for_ever_is_ended(tmp_path: Path) -> None:
    """Whatever it waits for, in the end there is an error that says so, and no process is left."""
    project = Project.create(tmp_path / "p")
    (project.path / ".gitignore").unlink()
    os.mkfifo(project.path / ".gitignore")
    git = Git(project.path / ".git", timeout_s=0.2)
    with pytest.raises(GitError, match="did not end within") as caught:
        git.run("ls-files", "-o", "--exclude-standard", work_tree=project.path)
    assert "pipe" in caught.value.hint


def test_stop_names_a_suspended_runner_and_how_to_wake_it(tmp_path: Path) -> None:
    """Nobody waits in silence for a process that cannot answer; woken up, it does what it was asked to."""
    there = Fifo(tmp_path / "there")
    cli = Cli.of(tmp_path / "p", {"id": "A", "run": ["sh", "-c", f"{there.give}; sleep 60"]})
    runner = cli.start("run", "--yes")
    there.wait()
    runner.send_signal(signal.SIGSTOP)
    with subprocess.Popen([*COMMAND, "stop"], cwd=cli.here, stderr=subprocess.PIPE, text=True) as stop:
        said = _line_of(stop)
        runner.send_signal(signal.SIGCONT)
        assert stop.wait(DEADLINE_S) == 0
    assert f"kill -CONT {runner.pid}" in said
    assert runner.wait(DEADLINE_S) == 130


def test_a_command_without_standard_streams_does_its_work(tmp_path: Path) -> None:
    """A daemon may have closed them; neither a print fails nor does a file of ours take their place."""
    cli = Cli.of(tmp_path / "p", writes("A"))
    script = 'exec "$@" <&- >&- 2>&-'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *COMMAND, "run", "plan.json", "--yes"], cwd=cli.here, check=False
    )
    assert (done.returncode, cli.run_status()) == (0, "completed")


def test_output_that_cannot_be_written_does_not_stop_the_run(tmp_path: Path) -> None:
    """What a run says about itself goes to a full disk; what it does is recorded all the same."""
    cli = Cli.of(tmp_path / "p", writes("A"))
    with Path("/dev/full").open("wb") as full:
        subprocess.run([*COMMAND, "run", "plan.json", "--yes"], cwd=cli.here, stdout=full, check=False)
    assert cli.run_status() == "completed"


def test_an_ignored_file_of_the_users_is_not_landed_over(tmp_path: Path) -> None:
    """Git holds ignored files to be expendable; the user's only `.env` is not."""
    cli = Cli.of(tmp_path / "p", {"id": "A", "run": ["sh", "-c", "echo agent > .env; git add -f .env"]})
    cli.project.write(".gitignore", ".env\n")
    cli.project.commit("ignore it")
    (cli.here / ".env").write_text("mine\n")
    assert cli("run", "plan.json", "--yes").code == 0
    refused = cli("land", "--yes")
    assert (refused.code, (cli.here / ".env").read_text()) == (3, "mine\n")
    assert "would be overwritten" in refused.err


def test_a_path_with_a_line_break_is_refused_in_words(tmp_path: Path) -> None:
    """Git tells paths line by line; one that breaks the line cannot be told."""
    done = Cli.of(tmp_path / "two\nlines", writes("A"))("run", "plan.json", "--yes")
    assert (done.code, "line break" in done.err, "Traceback" in done.err) == (2, True, False)


@pytest.mark.parametrize("kind", ["pipe", "directory"])
def test_a_plan_that_is_no_file_is_refused_in_words(tmp_path: Path, kind: str) -> None:
    """Nothing waits for a writer that never comes."""
    cli = Cli.of(tmp_path / "p")
    path = cli.here / "odd.json"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    done = cli("run", "odd.json", "--yes")
    assert (done.code, "odd.json" in done.err, kind in done.err) == (2, True, True)


def test_a_dry_run_refuses_a_base_that_does_not_exist(tmp_path: Path) -> None:
    """What could not run is not shown as if it could."""
    done = Cli.of(tmp_path / "p", writes("A"), base="nowhere")("run", "--dry-run")
    assert (done.code, "'nowhere' names no commit" in done.err) == (2, True)


@pytest.mark.parametrize("command", ["skip", "retry"])
def test_a_decision_about_a_running_task_is_refused_in_words(tmp_path: Path, command: str) -> None:
    """The user learns what stands in the way, not what our events are called."""
    there = Fifo(tmp_path / "there")
    cli = Cli.of(tmp_path / "p", {"id": "A", "run": ["sh", "-c", f"{there.give}; sleep 60"]})
    runner = cli.start("run", "--yes")
    there.wait()
    done = cli(command, "A")
    cli("stop")
    assert runner.wait(DEADLINE_S) == 130
    assert (done.code, "task A is running" in done.err, "Task" in done.err) == (2, True, False)


def test_words_beyond_ascii_reach_the_agent_whatever_the_locale(tmp_path: Path) -> None:
    """A brief is UTF-8, also where the machine's own encoding is another."""
    cli = Cli.of(tmp_path / "p", writes("A"), goal="Grüße")
    done = cli("run", "--yes", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert done.code == 0, done.err
    (brief,) = cli.here.glob(".holdfast/runs/*/attempts/A/1/brief.md")
    assert "Grüße" in brief.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["run", "resume"])
def test_a_state_folder_that_is_a_link_is_refused_in_words(tmp_path: Path, command: str) -> None:
    """Holdfast deletes in there, so it never works through a link, neither at first nor later."""
    cli = Cli.of(tmp_path / "p", {"id": "A", "run": ["false"]}, limits={"attempts": 1})
    if command == "resume":
        cli("run", "--yes")
        (cli.here / ".holdfast").rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir(exist_ok=True)
    (cli.here / ".holdfast").symlink_to(tmp_path / "elsewhere")
    done = cli(command, "--yes")
    assert (done.code, "symbolic link" in done.err) == (2, True)


def test_a_terminal_is_never_steered_by_a_goal_or_a_log(tmp_path: Path) -> None:
    """An agent's output and a plan's words may hold escapes; what reaches a terminal does not obey them."""
    noisy = {"id": "A", "run": ["sh", "-c", r"printf '\033]0;owned\007\033[31mred\033[0m\n'; echo a > A.txt"]}
    cli = Cli.of(tmp_path / "p", noisy, goal="Try \x1b]0;owned\x07 it")
    seen = _on_terminal(cli, "run", "plan.json", "--yes") + _on_terminal(cli, "logs", "1", "A")
    assert b"\x1b]" not in seen
    assert b"\x1b[31mred" in seen


def _carried_on(trial: Trial) -> str:
    """Carry a run on in a process that is ended if it hangs, and return how the run rests."""
    runner = start_runner(trial)
    try:
        return runner.communicate(timeout=DEADLINE_S)[0].decode().strip()
    finally:
        runner.kill()


def _line_of(process: subprocess.Popen[str]) -> str:
    """Return the first line that a process complains with; it is ended if it stays silent."""
    assert process.stderr
    if not select.select([process.stderr], [], [], DEADLINE_S)[0]:
        process.kill()
    return process.stderr.readline()


def _on_terminal(cli: Cli, *args: str) -> bytes:
    ours, theirs = pty.openpty()
    with subprocess.Popen([*COMMAND, *args], cwd=cli.here, stdin=theirs, stdout=theirs, stderr=theirs):
        os.close(theirs)
        return b"".join(iter(lambda: _read(ours), b""))


def _read(fd: int) -> bytes:
    """Read from a terminal; that its other side was closed is an error of its own kind."""
    try:
        return os.read(fd, 65536)
    except OSError:
        os.close(fd)
        return b""
