"""Agents at the command line: which are found, how it goes with them, what they wait for, what is gone on with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from tests.support.command import Cli
from tests.support.repositories import write
from tests.support.runs import Fifo
from tests.support.scripted_agents import THREAD, codex, fails, once, say, uses, work


def _tool(folder: Path, name: str, script: str) -> None:
    write(folder / name, f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def _only(folder: Path, **env: str) -> dict[str, str]:
    """Return an environment whose PATH has these tools and git, and whose home has no logins."""
    git = Path(shutil.which("git") or "git").parent
    cleared = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MISTRAL_API_KEY"), "")
    return {"PATH": f"{folder}:{git}", "HOME": str(folder), **cleared, **env}


def test_doctor_names_installed_agents_with_version_and_readiness(tmp_path: Path) -> None:
    """Only `--version` is run: which agents there are, how new, and what each still needs."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["true"]})
    _tool(tmp_path / "bin", "codex", 'test "$*" = --version && echo codex-cli 0.166.0')
    _tool(tmp_path / "bin", "vibe", "echo vibe 3.0.2")
    done = cli("doctor", **_only(tmp_path / "bin", OPENAI_API_KEY="x"))
    assert "agent codex: codex 0.166.0\n" in done.out
    assert "agent vibe: vibe 3.0.2 (not ready: set MISTRAL_API_KEY or log in with it once)" in done.out


def test_init_prefers_an_agent_that_is_ready(tmp_path: Path) -> None:
    """The starter plan names an agent that can work."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["true"]})
    for name in ("claude", "codex"):
        _tool(tmp_path / "bin", name, "echo 1.2.3")
    done = cli("init", "new.yaml", **_only(tmp_path / "bin", OPENAI_API_KEY="x"))
    assert "codex 1.2.3, claude 1.2.3 (not ready" in done.out
    assert "agent: codex" in (cli.here / "new.yaml").read_text()


def test_a_users_own_file_changes_an_agent(tmp_path: Path) -> None:
    """`~/.config/holdfast/agents.toml` counts wherever a plan is run."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine")
    command = json.dumps(["sh", "-c", "echo hello > hello.txt"])
    write(tmp_path / "config" / "holdfast" / "agents.toml", f"[mine]\ncommand = {command}\n")
    done = cli("run", "--yes", XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert done.code == 0, done.err


def _running(cli: Cli, at_work: Fifo) -> Any:
    process = cli.start("run", "--yes")
    at_work.wait()
    return process


def test_status_tells_how_it_goes_with_an_agent_at_work(tmp_path: Path) -> None:
    """C2: its liveness, what it is doing and what it has used, from its own stream."""
    at_work, go_on = Fifo(tmp_path / "at"), Fifo(tmp_path / "on")
    tool = {"type": "item.started", "item": {"type": "command_execution", "command": "make test"}}
    script = f"{say(THREAD, uses(70), tool)}; {at_work.give}; {go_on.take}; {work()}"
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="c", agents={"c": codex(script)})
    process = _running(cli, at_work)
    while not (task := cli.task("a"))["tokens"]:
        assert process.poll() is None
    assert (task["liveness"], task["activity"], task["tokens"]) == ("working", "make test", 70)
    assert "working, 70 tokens: make test" in cli("status").out
    go_on.release()
    process.wait()


def test_status_tells_until_when_a_task_waits_for_a_limit(tmp_path: Path) -> None:
    """X5: `waiting_limit` with its time, in JSON and in words; the run's reason has it where it stopped for it."""
    script = f"{say(fails('You have hit your usage limit. Please try again in 2h.'))}; exit 1"
    cli = Cli.of(
        tmp_path / "p",
        {"id": "a", "prompt": "x"},
        agent="c",
        agents={"c": codex(script)},
        limits={"on_limit": "stop"},
    )
    assert cli("run", "--yes").code == 3
    view = cli.json("status")
    (task,) = view["tasks"]
    assert (task["status"], task["attempts"], view["run"]["ending"]) == ("waiting_limit", 1, "limit")
    assert f"until {task['waiting_until']}" in cli("status").out
    assert "openai is at its limit until" in view["run"]["detail"]


def test_people_elsewhere_are_told_that_a_run_waits(tmp_path: Path) -> None:
    """A limit is news: the plan's command gets it with the reason."""
    news = tmp_path / "news"
    limit = fails("You have hit your usage limit. Please try again in 1s.")
    script = once(tmp_path / "hit", f"{say(limit)}; exit 1", work())
    notify = {"command": ["sh", "-c", f"cat >> {news}; echo >> {news}"]}
    cli = Cli.of(
        tmp_path / "p", {"id": "a", "prompt": "x"}, agent="c", agents={"c": codex(script)}, notify=notify
    )
    assert cli("run", "--yes").code == 0
    told = [json.loads(line) for line in news.read_text().splitlines()]
    (waiting,) = [one for one in told if one["event"] == "waiting_limit"]
    assert "at its limit" in waiting["reason"]


def test_inspect_tells_what_each_attempt_used_and_where_it_ended(tmp_path: Path) -> None:
    """The limited attempt is no failure; tokens and session are on record."""
    limit = fails("You have hit your usage limit. Please try again in 1s.")
    script = once(tmp_path / "hit", f"{say(THREAD, uses(30), limit)}; exit 1", work())
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="c", agents={"c": codex(script)})
    assert cli("run", "--yes").code == 0
    first, second = cli.json("inspect", "1", "a")["tasks"][0]["attempts"]
    assert (first["outcome"], first["tokens"], first["session"]) == ("limited", 30, "T-1")
    assert (second["outcome"], second["tokens"]) == ("landed", 100)


def test_native_resume_is_a_flag_of_run_and_resume(tmp_path: Path) -> None:
    """The next attempt goes on with the session, and the run says so."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine")
    script = once(tmp_path / "hit", f"{say(THREAD, fails('oops'))}; exit 1", work())
    words = json.dumps(["sh", "-c", script, "sh"])
    table = f'[mine]\npreset = "codex"\nprompt = "file"\ncommand = {words}\nresume = {words}\n'
    write(cli.here / ".holdfast" / "agents.toml", table)
    done = cli("run", "--yes", "--native-resume")
    assert "attempt 2 started (implementation), resuming mine's own session" in done.out


def test_a_run_whose_agent_is_gone_from_the_users_file_says_so(tmp_path: Path) -> None:
    """Nothing is started or charged until it is back."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "prompt": "x"}, agent="mine", limits={"attempts": 1})
    own = cli.here / ".holdfast" / "agents.toml"
    write(own, '[mine]\ncommand = ["false"]\n')
    cli("run", "--yes")
    own.unlink()
    cli("retry", "a")
    done = cli("resume")
    assert (done.code, 'agent "mine" is not known any more' in done.err) == (2, True)
