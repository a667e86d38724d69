"""A run whose agents and checks are in a sandbox, as a user starts it: what they see, and what they cannot do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import venv
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from holdfast.cli.sandbox_options import tell_unkept_bounds
from holdfast.core.plan import Limits
from holdfast.process import procfs
from holdfast.process.cgroups import available_groups
from tests.support.command import Cli, Done, eventually, writes
from tests.support.preloaded_command import ForkedProcess
from tests.support.repositories import write
from tests.support.runs import DEADLINE_S
from tests.support.sandboxes import needs_sandbox

pytestmark = needs_sandbox
SANDBOX = ("--sandbox", "workspace")
NOTHING_NAMED = {"HOLDFAST_SANDBOX": ""}
NO_LANDLOCK = {"HOLDFAST_SANDBOX_BY": "bubblewrap"}


def sh(task: str, script: str, **more: Any) -> dict[str, Any]:
    """Return a task whose agent is a shell script."""
    return {"id": task, "run": ["sh", "-c", script], **more}


def run(cli: Cli, *more: str, **env: str) -> Done:
    """Run the plan in a sandbox."""
    return cli("run", "--yes", *SANDBOX, *more, **env)


def show(cli: Cli, path: str) -> str:
    """Return a file of the run branch."""
    return cli.project.git("show", f"holdfast/01-try-it:{path}")


def require_work_and_report(cli: Cli, done: Done) -> None:
    """Fail unless task A landed its two files, one of them by a commit of its own, and its report was heard."""
    assert done.code == 0, cli("logs", "1", "A").out
    assert '"progress":40' in done.out
    assert (show(cli, "A.txt"), show(cli, "B.txt")) == ("a", "b")
    assert "by the agent" in cli.project.git("log", "--format=%s", "holdfast/01-try-it")
    assert cli("doctor").code == 0


def test_an_agent_works_commits_and_reports(tmp_path: Path) -> None:
    """Git, the brief and `holdfast report` work as without a sandbox, and the checks see what the agent did."""
    script = """
        test -s "$HOLDFAST_BRIEF" && echo a > A.txt && git add A.txt && git commit -qm 'by the agent'
        holdfast report --progress 40 && echo b > B.txt"""
    cli = Cli.of(tmp_path / "p", sh("A", script, verify=["git clone -q . ~/other && test -f ~/other/A.txt"]))
    require_work_and_report(cli, run(cli, "--json"))


def test_git_knows_the_user_in_every_repository_and_its_settings_can_be_changed(tmp_path: Path) -> None:
    """Tests make repositories of their own. What these say, or the agent for all of them, counts for more."""
    script = """
        commits() { git -C $1 commit -q --allow-empty -m x && git -C $1 log -1 --format='%an %ae' >> who.txt; }
        git init -q ~/x && commits ~/x && git -C ~/x config user.name Own && commits ~/x
        git config --global user.name Everywhere && git init -q ~/y && commits ~/y; echo done >> who.txt"""
    cli = Cli.of(
        tmp_path / "p", sh("A", script, verify=["git init -q ~/z && git -C ~/z commit -q --allow-empty -m z"])
    )
    cli.project.git("config", "user.name", 'A "B" C')
    cli.project.git("config", "user.email", "a@example.com")
    assert run(cli).code == 0, cli("logs", "1", "A").out
    assert show(cli, "who.txt").splitlines() == [
        'A "B" C a@example.com',
        "Own a@example.com",
        "Everywhere a@example.com",
        "done",
    ]


@pytest.mark.parametrize(
    "place",
    [
        ".holdfast/journal.db",
        ".holdfast/runs/01-try-it/lease",
        ".holdfast/runs/01-try-it/attempts/A/1/agent/supervisor.json",
        ".holdfast/work/01-try-it/1/a.txt",
        ".git/config",
        ".git/HEAD",
        ".git/holdfast-private",
        "a.txt",
        "plan.json",
    ],
)
def test_nothing_of_the_project_but_the_workspace_is_seen(tmp_path: Path, place: str) -> None:
    """No journal, no run folder, no other workspace, no main `.git`, not the user's checkout."""
    here = tmp_path / "p"
    cli = Cli.of(here, sh("A", f"test ! -e {here / place} && echo unseen > A.txt"), writes("B"))
    assert run(cli).code == 0
    assert show(cli, "A.txt") == "unseen"


def test_the_home_is_hidden_and_what_is_written_there_is_gone(tmp_path: Path) -> None:
    """Keys, logins and histories are not there; programs may still use it as their scratch."""
    home = tmp_path / "home"
    for name in (".ssh/id_ed25519", ".netrc", ".aws/credentials", ".bash_history", ".config/gh/hosts.yml"):
        write(home / name, "hunter2")
    script = "ls -A ~ > seen.txt; grep -rs hunter2 ~ >> seen.txt; mkdir -p ~/.cache && echo x > ~/.cache/x && echo ok >> seen.txt"
    cli = Cli.of(tmp_path / "p", sh("A", script))
    assert run(cli, HOME=str(home)).code == 0
    assert show(cli, "seen.txt") == "ok"
    assert not (home / ".cache").exists()


def test_a_program_of_the_users_below_the_home_can_be_run(tmp_path: Path) -> None:
    """The folder of programs is there, read-only; the login beside it is not."""
    home = tmp_path / "home"
    write(home / "tools/bin/mytool", "#!/bin/sh\necho made by mytool\n")
    (home / "tools/bin/mytool").chmod(0o755)
    write(home / "tools/token", "hunter2")
    script = "mytool > A.txt; test ! -e ~/tools/token && ! echo x 2>/dev/null > ~/tools/bin/mytool"
    cli = Cli.of(tmp_path / "p", sh("A", script))
    done = run(cli, HOME=str(home), PATH=f"{home}/tools/bin:{os.environ['PATH']}")
    assert done.code == 0, done.out
    assert show(cli, "A.txt") == "made by mytool"


def test_an_agent_has_copies_of_what_its_preset_names_and_nothing_else_of_the_home(tmp_path: Path) -> None:
    """It may change them, a later attempt finds what the one before left, and the user's own files stay as they are."""
    home = tmp_path / "home"
    write(home / ".tool" / "login", "token")
    write(home / ".tool" / "history", "hunter2")
    script = """
        test $HOLDFAST_ATTEMPT_NUMBER = 1 && { cat ~/.tool/login > ~/session; echo renewed > ~/.tool/login; exit 1; }
        cat ~/session ~/.tool/login > A.txt; ls -A ~/.tool >> A.txt"""
    agents = (
        f'[tool]\ncommand = ["sh", "-c", {msgspec.json.encode(script).decode()}]\nhome = ["~/.tool/login"]\n'
    )
    write(home / ".config" / "holdfast" / "agents.toml", agents)
    cli = Cli.of(tmp_path / "p", {"id": "A", "title": "A", "prompt": "Do it."}, agent="tool")
    done = run(cli, HOME=str(home), XDG_CONFIG_HOME=str(home / ".config"))
    assert done.code == 0, done.out
    assert show(cli, "A.txt") == "tokenrenewed\nlogin"
    assert (home / ".tool" / "login").read_text() == "token"
    assert not (tmp_path / "p" / ".holdfast" / "runs" / "01-try-it" / "homes").exists()


def test_a_login_that_an_agent_prints_is_not_kept(tmp_path: Path) -> None:
    """It can read its own login; its output, which Holdfast keeps, must not have it."""
    home, token = tmp_path / "home", "qW8".join(["n0tAKnownShape"] * 3)
    write(home / ".tool" / "login", f'{{"access": "{token}"}}')
    agents = '[tool]\ncommand = ["sh", "-c", "cat ~/.tool/login; echo a > A.txt"]\ncredentials = ["~/.tool/login"]\n'
    write(home / ".config" / "holdfast" / "agents.toml", agents)
    cli = Cli.of(tmp_path / "p", {"id": "A", "title": "A", "prompt": "Do it."}, agent="tool")
    assert run(cli, HOME=str(home), XDG_CONFIG_HOME=str(home / ".config")).code == 0
    said = cli("logs", "1", "A").out
    assert "access" in said
    assert token not in said
    assert subprocess.run(["grep", "-rq", token, cli.here], check=False).returncode == 1


def test_a_forged_exit_record_cannot_be_written(tmp_path: Path) -> None:
    """The folder of the brief is read-only, so no check is passed by a file in it."""
    forge = """
        cd "$(dirname "$HOLDFAST_BRIEF")"; mkdir check-1.0
        echo '{"token":"x","reason":"exited","code":0}' > check-1.0/exit.json
        cd "$HOLDFAST_WORKSPACE"; echo a > A.txt"""
    cli = Cli.of(tmp_path / "p", sh("A", forge, verify=["false"]), limits={"attempts": 1})
    assert run(cli).code == 1
    assert cli.task("A")["status"] == "abandoned"


def test_checks_and_validators_are_in_the_sandbox_too(tmp_path: Path) -> None:
    """A check runs what an agent wrote, and a validator follows what it reads."""
    hidden = f"test ! -e {tmp_path}/p/.holdfast/journal.db"
    validator = {"id": "v", "run": ["sh", "-c", f"{hidden} && echo '{{\"score\": 1.0}}'"]}
    task = writes("A", verify=[hidden], validators=[validator], gate=0.9)
    cli = Cli.of(tmp_path / "p", task, stages=[{"id": "s", "tasks": [task], "exit": [hidden]}])
    assert run(cli).code == 0, cli("status").out


def test_the_sockets_of_other_programs_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the socket of a container engine or of a program that holds keys, a sandbox would be worth nothing."""
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # the path of a socket must be short
        server.bind("keys")
        server.listen()
        script = f"find /run /tmp {tmp_path} -type s > found.txt; echo a > A.txt"
        cli = Cli.of(tmp_path / "p", sh("A", script))
        assert run(cli).code == 0
    assert show(cli, "found.txt") == ""


@pytest.mark.skipif(not os.access("/opt", os.W_OK), reason="only root can put a socket there")
@pytest.mark.parametrize("level", ["workspace", "strict"])
def test_a_socket_in_a_folder_of_the_system_is_reached_only_if_the_user_shows_it(
    tmp_path: Path, level: str
) -> None:
    """Some programs have theirs in `/opt` or `/var/lib`, where all else can be read."""
    with TemporaryDirectory(dir="/opt") as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/socket")
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect('{folder}/socket')"
        cli = Cli.of(
            tmp_path / "p", sh("A", f'python3 -c "{code}" && echo reached > A.txt || echo no > A.txt')
        )
        assert cli("run", "--yes", "--sandbox", level).code == 0
        assert show(cli, "A.txt") == "no"
        assert cli("run", "--yes", "--fresh", "--sandbox", level, HOLDFAST_SANDBOX_SHOW=folder).code == 0
        assert cli.project.git("show", "holdfast/02-try-it:A.txt") == "reached"


def test_an_agent_has_its_whole_environment_and_nobody_else_reads_it_from_the_command_that_makes_the_sandbox(
    tmp_path: Path,
) -> None:
    """Everybody on the machine can read the arguments of a process. The environment may be as big as the kernel allows."""
    more = {f"PYTHON_{n}": f"line {n}\n" + "x" * 100_000 for n in range(9)}
    script = """
        echo $PPID $(env | wc -c) > A.txt; test "$PYTHON_EMPTY" = "" && test "${PYTHON_EMPTY+set}" = set && echo set >> A.txt
        tr '\\0' ' ' < /proc/1/cmdline > argv.txt; tr '\\0' '\\n' < /proc/1/environ > env.txt"""
    cli = Cli.of(tmp_path / "p", sh("A", script))
    assert run(cli, PYTHON_EMPTY="", **more).code == 0, cli("logs", "1", "A").out
    seen = show(cli, "A.txt").split()
    assert int(seen[1]) > 900_000
    assert seen[2] == "set"
    assert "bwrap" in show(cli, "argv.txt")
    assert "xxxx" not in show(cli, "argv.txt")
    assert [line.partition("=")[0] for line in show(cli, "env.txt").splitlines()] == [procfs.TOKEN_VARIABLE]


def test_the_level_stays_in_force_until_the_user_gives_it_up(tmp_path: Path) -> None:
    """`resume` without an option keeps it; `--no-sandbox` ends it, and `status` shows which one is in force."""
    seen = f"test -e {tmp_path}/p/.holdfast/journal.db && echo yes > A.txt"
    cli = Cli.of(tmp_path / "p", sh("A", seen), limits={"attempts": 1})
    assert run(cli).code == 1
    assert cli.json("status")["run"]["sandbox"] == "workspace"
    assert "sandbox: workspace" in cli("status").out
    assert cli("resume", "1", "--failed-only", "--yes").code == 1
    given_up = cli("resume", "1", "--failed-only", "--yes", "--no-sandbox")
    assert (given_up.code, "No sandbox: agents and checks can read" in given_up.err) == (0, True)
    assert cli.json("status")["run"]["sandbox"] == "off"
    assert show(cli, "A.txt") == "yes"


def test_a_plan_can_ask_for_more_and_never_for_less(tmp_path: Path) -> None:
    """Whoever wrote it does not decide what the user's machine shows."""
    unseen = f"test ! -e {tmp_path}/p/plan.json && echo a > A.txt"
    cli = Cli.of(tmp_path / "p", sh("A", unseen), sandbox="workspace")
    assert cli("run", "--yes", "--no-sandbox").code == 0
    assert cli.json("status")["run"]["sandbox"] == "workspace"
    cli.plan(sh("A", unseen), sandbox="off")
    refused = cli("run", "--yes", *SANDBOX)
    assert refused.code == 2
    assert "workspace" in refused.err


def test_it_is_the_default_where_the_machine_can(tmp_path: Path) -> None:
    """Nobody has to ask for it, and `status` shows it."""
    cli = Cli.of(tmp_path / "p", sh("A", f"test ! -e {tmp_path}/p/plan.json && echo a > A.txt"))
    done = cli("run", "--yes", **NOTHING_NAMED)
    assert (done.code, "sandbox" in done.err) == (0, False), done.err
    assert "  sandbox: workspace, network: on\n" in cli("status").out


def test_a_machine_without_one_runs_without_and_says_so_if_nobody_asked(tmp_path: Path) -> None:
    """What is missing, what that means, and what to do are told; `status` shows it."""
    cli = Cli.of(tmp_path / "p", writes("A"))
    done = cli("run", "--yes", PATH=without_bubblewrap(tmp_path), **NOTHING_NAMED, **NO_LANDLOCK)
    assert done.code == 0
    assert (
        "No sandbox, because bubblewrap is not installed: agents and checks can read your files" in done.err
    )
    assert "install the package bubblewrap" in done.err
    assert "  sandbox: off\n" in cli("status").out


def test_a_program_that_a_check_names_by_its_path_is_there(tmp_path: Path) -> None:
    """Such as that of the virtual environment in the checkout, which is not on the PATH, with all that belongs to it."""
    cli = Cli.of(tmp_path / "p")
    venv.create(cli.here / ".venv", symlinks=True)
    write(next((cli.here / ".venv/lib").iterdir()) / "site-packages" / "mine.py", "print('imported')")
    command = f"{cli.here}/.venv/bin/python -c 'import mine'"
    cli.plan(writes("A", verify=[command, f"(cd . && {command})"]))
    done = run(cli)
    assert done.code == 0, done.out


def test_a_program_in_the_home_is_found_as_shells_find_it(tmp_path: Path) -> None:
    """By `~`, by $HOME, and with spaces in its name."""
    home = tmp_path / "home"
    write(home / "my own" / "judge", "#!/bin/sh\necho judged\n")
    (home / "my own" / "judge").chmod(0o755)
    checks = [
        "~/'my own'/judge",
        '"$HOME/my own/judge"',
        "(${HOME}/my\\ own/judge)",
        f"'{home}/my own/judge'",
    ]
    cli = Cli.of(tmp_path / "p", writes("A", verify=checks))
    done = run(cli, HOME=str(home))
    assert done.code == 0, done.out


def test_a_plan_shows_nothing_of_the_home_by_the_variables_that_it_sets(tmp_path: Path) -> None:
    """Which programs are shown is the user's word: not a PATH of the plan's, and no other home."""
    home = tmp_path / "home"
    write(home / ".ssh/id_ed25519", "hunter2")
    write(home / ".local/share/keyrings/login", "hunter2")
    write(home / ".local/bin/tool", "")
    (home / ".local/lib").mkdir()
    path = f"{home}/.local/bin:/usr/bin:/bin"
    command = ["sh", "-c", f"grep -rs hunter2 {home} > seen.txt; echo a > A.txt"]
    for name, env in (("p", {"PATH": f"{home}/.ssh:{path}"}), ("q", {"HOME": "/tmp/nohome"})):
        agents = {"x": {"command": command, "env": env}}
        task = {"id": "A", "title": "A", "prompt": "Do it."}
        cli = Cli.of(tmp_path / name, task, agents=agents, agent="x")
        done = run(cli, HOME=str(home), PATH=f"{path}:{os.environ['PATH']}")
        assert done.code == 0, done.out
        assert show(cli, "seen.txt") == "", name


def test_a_program_that_is_hidden_is_told_with_the_way_to_show_it(tmp_path: Path) -> None:
    """It is there for the user, so "not found" alone would be a riddle. What is shown cannot be changed."""
    home = tmp_path / "home"
    write(home / "own" / "judge", "#!/bin/sh\n! echo x 2>/dev/null > ~/own/judge\n")
    (home / "own" / "judge").chmod(0o755)
    cli = Cli.of(tmp_path / "p", writes("A", verify=["name=judge; ~/own/$name"]), limits={"attempts": 1})
    assert run(cli, HOME=str(home)).code == 1
    assert "HOLDFAST_SANDBOX_SHOW" in cli.task("A")["error"]
    assert "its name is mistyped, it is not installed, git ignores it, or" in cli.task("A")["error"]
    refused = run(cli, HOME=str(home), HOLDFAST_SANDBOX_SHOW="own")
    assert "not an absolute path" in refused.err
    shown = cli("resume", "--failed-only", "--yes", HOME=str(home), HOLDFAST_SANDBOX_SHOW="~/own:/nowhere")
    assert shown.code == 0, shown.out


def test_what_the_user_shows_never_includes_our_own_files(tmp_path: Path) -> None:
    """Even if it is the whole checkout."""
    here = tmp_path / "p"
    script = f"test -e {here}/plan.json && test ! -e {here}/.git/config && test ! -e {here}/.holdfast/journal.db && echo a > A.txt"
    cli = Cli.of(here, sh("A", script))
    done = run(cli, HOLDFAST_SANDBOX_SHOW=str(here))
    assert done.code == 0, done.out


def test_a_run_can_be_left_although_its_sandbox_is_gone(tmp_path: Path) -> None:
    """Nothing is started for that, so nothing needs one."""
    cli = Cli.of(tmp_path / "p", sh("A", "echo > there; mkfifo wait; read x < wait"))
    runner = cli.start("run", "--yes", *SANDBOX)
    eventually((cli.here / ".holdfast/work/01-try-it/0/there").exists, "the agent is at work")
    kill_all(tmp_path / "p", runner)
    path = without_bubblewrap(tmp_path)
    assert "--no-sandbox" in cli("resume", "--yes", PATH=path, **NO_LANDLOCK).err
    assert cli("abandon", "--yes", PATH=path, **NO_LANDLOCK).code == 0
    assert cli("discard", "--yes", PATH=path, **NO_LANDLOCK).code == 0


def test_the_users_environment_can_ask_for_it(tmp_path: Path) -> None:
    """For every run, without an option. A level that does not exist is refused."""
    cli = Cli.of(tmp_path / "p", sh("A", f"test ! -e {tmp_path}/p/plan.json && echo a > A.txt"))
    refused = cli("run", "--yes", HOLDFAST_SANDBOX="workspce")
    assert refused.code != 0
    assert "workspace" in refused.err
    assert cli("run", "--yes", "--auto-continue", HOLDFAST_SANDBOX="workspace").code == 0


def test_a_machine_without_a_sandbox_refuses_and_starts_nothing(tmp_path: Path) -> None:
    """The reason is told, and the way to run without."""
    cli = Cli.of(tmp_path / "p", writes("A"))
    done = run(cli, PATH=without_bubblewrap(tmp_path), **NO_LANDLOCK)
    assert done.code != 0
    assert "bubblewrap is not installed" in done.err
    assert "--no-sandbox" in done.err
    assert cli.json("list") == []


def test_the_commits_of_an_agent_that_was_killed_with_its_runner_are_kept(tmp_path: Path) -> None:
    """They are in its own clone only. They are taken over before anybody prepares the workspace anew."""
    script = """
        test $HOLDFAST_ATTEMPT_NUMBER = 2 && { echo b > B.txt; exit 0; }
        echo half > half.txt; git add .; git commit -qm 'half of it'; mkfifo wait; echo > there; read x < wait"""
    cli = Cli.of(tmp_path / "p", sh("A", script))
    runner = cli.start("run", "--yes", *SANDBOX)
    eventually((cli.here / ".holdfast/work/01-try-it/0/there").exists, "the agent is at work")
    kill_all(tmp_path / "p", runner)
    done = cli("resume", "1", "--yes")
    assert done.code == 0, done.out
    assert show(cli, "B.txt") == "b"
    assert "half of it" in cli.project.git("log", "--all", "--format=%s")


@pytest.mark.skipif("pids" not in available_groups(), reason="this user may not make control groups here")
def test_a_plan_bounds_the_processes_of_its_attempts_and_checks(tmp_path: Path) -> None:
    """A fork bomb hits the bound, and not the machine."""
    many = "for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9; do sleep 60 & done; done; echo all > all.txt"
    cli = Cli.of(
        tmp_path / "p",
        sh("A", f"sh -c '{many}'; echo a > A.txt", verify=["test ! -e all.txt"]),
        limits={"pids": 50},
    )
    done = run(cli)
    assert done.code == 0, done.out


@pytest.mark.skipif("memory" not in available_groups(), reason="this user may not make control groups here")
def test_a_bound_that_was_reached_is_named(tmp_path: Path) -> None:
    """The kernel kills without a word."""
    eats = "python3 -c 'x = bytearray(400_000_000); print(len(x))' && echo a > A.txt"
    cli = Cli.of(tmp_path / "p", sh("A", eats), limits={"memory": "100MB", "attempts": 1})
    assert run(cli).code == 1
    assert "after it reached the bound that `limits: memory` of the plan sets" in cli.task("A")["error"]


def test_bounds_that_cannot_be_kept_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """Only those that the plan names."""
    tell_unkept_bounds(Limits(memory=2**30, cpus=2), ("pids", "memory"))
    assert "No bound for cpu:" in capsys.readouterr().err
    tell_unkept_bounds(Limits(), ())
    assert capsys.readouterr().err == ""


def without_bubblewrap(tmp_path: Path) -> str:
    """Return a PATH with what a run needs, and no more."""
    folder = tmp_path / "few programs"
    folder.mkdir()
    for name in ("git", "sh"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    return str(folder)


def kill_all(here: Path, runner: ForkedProcess) -> None:
    """Kill a runner and every process of its agents at once, as the kernel does when memory runs out."""
    runner.kill()
    runner.wait(timeout=DEADLINE_S)
    record = here / ".holdfast/runs/01-try-it/attempts/A/1/agent/supervisor.json"
    supervisor = int(record.read_text().partition('"pid": ')[2].partition(",")[0])
    tree = [supervisor, *procfs.descendants(supervisor)]
    for pid in tree:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
