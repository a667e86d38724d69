"""`agents try`: one tiny task for one agent, what was read of its stream, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import COMMAND, Cli, Done, eventually, is_alive, on_terminal
from tests.support.installed_tools import install, only_tools
from tests.support.repositories import fingerprint, git, write
from tests.support.runs import Fifo
from tests.support.tiny_disk import tiny_disk

STARTS: list[dict[str, Any]] = [
    {"type": "thread.started", "thread_id": "t-1"},
    {"type": "item.started", "item": {"type": "command_execution", "command": "make hello"}},
]
ENDS = [
    {"type": "item.completed", "item": {"type": "agent_message", "text": "All done."}},
    {"type": "turn.completed", "usage": {"input_tokens": 2000, "output_tokens": 100}},
]
WRITES = "echo hello from holdfast > hello.txt"


def prints(*events: dict[str, Any]) -> str:
    """Return shell text that prints events."""
    return "; ".join(f"echo '{json.dumps(event)}'" for event in events)


class Bench:
    """A user outside of any repository, with a plan that describes an agent, and a folder for temporary files."""

    def __init__(self, tmp_path: Path, script: str, stream: str = "codex") -> None:
        self.here, self.temporary = tmp_path / "here", tmp_path / "tmp"
        self.here.mkdir()
        self.temporary.mkdir()
        mine = {"command": ["sh", "-c", script], "stream": stream}
        plan = {"holdfast": 1, "goal": "x", "agents": {"mine": mine}, "tasks": [{"id": "a", "run": ["true"]}]}
        write(self.here / "plan.json", json.dumps(plan))

    def command(self, *args: str) -> list[str]:
        """Return the words of a trial of the agent."""
        return ["agents", "try", "mine", "--plan", "plan.json", "--yes", *args]

    def __call__(self, *args: str) -> Done:
        """Try the agent."""
        return Cli(self.here)(*self.command(*args), TMPDIR=str(self.temporary))

    def json(self, *args: str) -> tuple[int, Any]:
        """Try the agent and return the exit code and what programs get."""
        done = self("--json", *args)
        return done.code, json.loads(done.out)

    @property
    def folders_left(self) -> list[str]:
        """What is left of scratch repositories."""
        return [path.name for path in self.temporary.iterdir() if path.is_dir()]


def test_a_trial_shows_what_was_read_of_the_stream(tmp_path: Path) -> None:
    """Tools, session, tokens, the last word, how it would be judged, and the raw log."""
    bench = Bench(tmp_path, f"{prints(*STARTS)}; {WRITES}; {prints(*ENDS)}")
    done = bench()
    assert done.code == 0, done.err
    assert done.out.startswith("mine: done\n  judged     done: it ended well")
    rows = dict(line.strip().split(None, 1) for line in done.out.splitlines()[2:] if line.startswith("  "))
    assert (rows["tools"], rows["session"], rows["tokens"]) == ("make hello", "t-1", "2,100")
    assert "last word  All done." in done.out
    assert (rows["errors"], "not read   no event" in done.out) == ("none", True)
    assert Path(rows["log"]).read_text().splitlines() == [json.dumps(event) for event in [*STARTS, *ENDS]]


def test_lines_that_no_reader_understood_are_counted_and_shown(tmp_path: Path) -> None:
    """A new version, or a stream that is not quite a known one, is recognised by them."""
    unknown = {"type": "turn.diff", "diff": "x"}
    script = f"{prints(*STARTS, unknown, unknown)}; echo a warning; {WRITES}; {prints(*ENDS)}"
    code, view = Bench(tmp_path, script).json()
    assert (code, view["events"], view["plain"]) == (0, 6, 1)
    assert view["unread"] == [{"kind": "turn.diff", "count": 2, "example": json.dumps(unknown)}]
    assert view["beside"] == ["a warning"]


FAILURES = {
    "limit": (
        prints({"type": "turn.failed", "error": {"message": "usage limit reached"}}) + "; exit 1",
        (3, "limited", "limit"),
    ),
    "outage": (
        prints({"type": "turn.failed", "error": {"message": "error sending request"}}) + "; exit 1",
        (3, "limited", "outage"),
    ),
    "auth": (
        prints({"type": "turn.failed", "error": {"message": "401 Unauthorized"}}) + "; exit 1",
        (3, "blocked", "auth"),
    ),
    "error": (
        prints({"type": "turn.failed", "error": {"message": "it broke"}}) + "; exit 1",
        (1, "failed", "agent"),
    ),
}


@pytest.mark.parametrize("case", FAILURES)
def test_an_error_is_shown_with_what_it_was_taken_for(tmp_path: Path, case: str) -> None:
    """And how the attempt would be judged. Nothing is tried twice, and no limit is waited for."""
    calls = tmp_path / "calls"
    script, (expected, outcome, failure) = FAILURES[case]
    code, view = Bench(tmp_path, f"echo x >> {calls}; {script}").json()
    assert (code, view["outcome"], view["failure"]) == (expected, outcome, failure)
    assert [error["taken_for"] for error in view["errors"]] == [case]
    assert "holdfast resume" not in view["why"]
    assert calls.read_text() == "x\n"


def test_a_provider_out_of_reach_is_no_limit_and_nothing_waits_for_it(tmp_path: Path) -> None:
    """A wrong address looks like an outage: the user is told where to look."""
    done = Bench(tmp_path, FAILURES["outage"][0])()
    said = " ".join(done.out.split())
    assert said.startswith("mine: out of reach judged out of reach (outage): a run would wait")
    assert "error sending request; check its base URL and the network, then try again" in said
    assert "waits until" not in said


def test_the_last_line_of_an_agent_that_died_at_once_is_the_reason(tmp_path: Path) -> None:
    """Its stream names none: what it printed beside it is all there is."""
    _, view = Bench(tmp_path, "seq 4; echo error: no such option; exit 1").json()
    assert view["why"] == "the agent exited with status 1: error: no such option"


def test_where_the_agent_works_is_told_while_it_works(tmp_path: Path) -> None:
    """Whoever waits for it knows how to end it, also where Python buffers nothing."""
    go_on = Fifo(tmp_path / "on")
    bench = Bench(tmp_path, f"{go_on.take}; {WRITES}; {prints(*ENDS)}")
    with subprocess.Popen(
        [*COMMAND, *bench.command()],
        cwd=bench.here,
        env={**os.environ, "TMPDIR": str(bench.temporary), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as trial:
        assert trial.stderr is not None
        told = next(line for line in trial.stderr if "mine works in" in line)
        go_on.release()
    assert (trial.returncode, "Ctrl-C ends it" in told) == (0, True)


@pytest.mark.parametrize(
    ("work", "failure"),
    [("true", "no_change"), ("echo other > hello.txt", "checks"), ("echo a > b", "missing_files")],
)
def test_an_agent_that_says_it_is_done_and_is_not_fails(tmp_path: Path, work: str, failure: str) -> None:
    """Git decides, as in every run."""
    code, view = Bench(tmp_path, f"{work}; {prints(*ENDS)}").json()
    assert (code, view["outcome"], view["failure"], view["finished"]) == (1, "failed", failure, True)


def test_an_agent_whose_stream_has_no_end_is_unfinished_and_not_started_again(tmp_path: Path) -> None:
    """In a run a fresh agent would continue. A trial is one attempt."""
    calls = tmp_path / "calls"
    code, view = Bench(tmp_path, f"echo x >> {calls}; {prints(*STARTS)}; {WRITES}").json()
    assert (code, view["outcome"], view["failure"]) == (1, "failed", "unfinished")
    assert calls.read_text() == "x\n"


def test_an_agent_without_a_stream_is_judged_by_its_exit_status_and_its_work(tmp_path: Path) -> None:
    """Plain output tells nothing more."""
    bench = Bench(tmp_path, f"echo working; {WRITES}", stream="raw")
    done = bench()
    assert (done.code, "raw: 1 line; its exit status and its work decide" in done.out) == (0, True)
    assert "tokens     not told" in done.out


def test_a_trial_leaves_nothing_in_the_users_repository_and_no_folder(tmp_path: Path) -> None:
    """Not even a state folder."""
    bench = Bench(tmp_path, f"{WRITES}; {prints(*ENDS)}")
    git(bench.here, "init", "-q")
    before = fingerprint(bench.here)
    assert bench().code == 0
    assert fingerprint(bench.here) == before
    assert not (bench.here / ".holdfast").exists()
    assert git(bench.here, "for-each-ref") == ""
    assert bench.folders_left == []


def test_keep_leaves_the_scratch_repository_where_the_user_wants_it(tmp_path: Path) -> None:
    """It is a run like any other, to be looked at. A folder with something in it is not used."""
    bench = Bench(tmp_path, f"{WRITES}; {prints(*ENDS)}")
    kept = tmp_path / "kept"
    assert bench("--keep", str(kept)).code == 0
    assert "All done." in Cli(kept)("logs", "1", "hello").out
    refused = bench("--keep", str(kept))
    assert (refused.code, "is not an empty folder" in refused.err) == (2, True)


def test_ctrl_c_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    """The agent, what it started, and the scratch repository are gone."""
    at_work = Fifo(tmp_path / "at-work")
    bench = Bench(tmp_path, f"setsid sleep 600 & {at_work.give}; sleep 600")
    process = Cli(bench.here).start(*bench.command(), TMPDIR=str(bench.temporary))
    agent = int(at_work.wait())
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(60) == 130
    eventually(lambda: not is_alive(agent), "the agent ends")
    assert bench.folders_left == []


def test_what_a_killed_trial_left_is_removed_by_the_next_one(tmp_path: Path) -> None:
    """Its agent works on under its supervisor, and a copy of a login may be there: both are gone. A live trial stays."""
    at_work, go_on = Fifo(tmp_path / "at-work"), Fifo(tmp_path / "go-on")
    bench = Bench(
        tmp_path,
        f"if mkdir {tmp_path}/first; then {at_work.give}; {go_on.take}; fi; {WRITES}; {prints(*ENDS)}",
    )
    killed = Cli(bench.here).start(*bench.command(), TMPDIR=str(bench.temporary))
    agent = int(at_work.wait())
    done = bench()
    assert (done.code, len(bench.folders_left), "killed trial" in done.err) == (0, 1, False)
    killed.kill()
    killed.wait()
    assert is_alive(agent)
    done = bench()
    assert (done.code, "Removed what 1 killed trial had left." in done.err) == (0, True)
    assert (bench.folders_left, is_alive(agent)) == ([], False)


def test_nobody_pays_without_having_been_asked(tmp_path: Path) -> None:
    """Without a terminal the answer is no. On one, what would start is shown before."""
    bench = Bench(tmp_path, f"touch {tmp_path}/ran; {WRITES}")
    words = [word for word in bench.command() if word != "--yes"]
    refused = Cli(bench.here)(*words)
    assert (refused.code, "This costs a model call" in refused.err) == (3, True)
    code, screen = on_terminal(Cli(bench.here), *words, answers="n\n")
    assert (code, "agent mine starts: sh -c" in screen) == (3, True)
    assert not (tmp_path / "ran").exists()


def test_an_agent_that_is_not_known_or_not_installed_is_refused(tmp_path: Path) -> None:
    """With the name that was meant, or the line that installs it."""
    tools = only_tools(tmp_path)
    unknown = Cli(tmp_path)("agents", "try", "codxe", "--yes", **tools)
    assert (unknown.code, 'there is no agent "codxe"; did you mean "codex"?' in unknown.err) == (2, True)
    missing = Cli(tmp_path)("agents", "try", "codex", "--yes", **tools)
    assert (missing.code, "install it: npm install -g @openai/codex" in missing.err) == (2, True)


def test_a_missing_key_is_told_before_the_question(tmp_path: Path) -> None:
    """It may have a login that Holdfast does not know of, so it can be tried all the same."""
    install(tmp_path / "bin", "codex", "exit 1")
    told = Cli(tmp_path)("agents", "try", "codex", **only_tools(tmp_path / "bin"))
    assert "codex does not look ready: set OPENAI_API_KEY or log in with it once." in told.err
    assert told.code == 3


def test_an_agent_of_the_users_file_is_found(tmp_path: Path) -> None:
    """As a plan finds it, with the version of the agent that it builds on left out: nobody agreed to ask for it."""
    bench = Bench(tmp_path, "true")
    script = f"{WRITES}; {prints(*ENDS)}"
    table = f'[night]\npreset = "codex"\ncommand = ["sh", "-c", {json.dumps(script)}]\nprogram = "sh"\n'
    write(tmp_path / "config" / "holdfast" / "agents.toml", table)
    folders = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "TMPDIR": str(bench.temporary)}
    done = Cli(bench.here)("agents", "try", "night", "--yes", **folders)
    assert (done.code, done.out.startswith("night: done")) == (0, True), done.err


def test_an_agent_of_the_projects_file_is_found_before_the_first_commit(tmp_path: Path) -> None:
    """The trial has a repository of its own: that of the user needs no commit for it."""
    bench = Bench(tmp_path, "true")
    git(bench.here, "init", "-q")
    script = f"{WRITES}; {prints(*ENDS)}"
    table = f'[night]\npreset = "codex"\ncommand = ["sh", "-c", {json.dumps(script)}]\nprogram = "sh"\n'
    write(bench.here / ".holdfast" / "agents.toml", table)
    assert "night" in Cli(bench.here)("agents").out
    done = Cli(bench.here)("agents", "try", "night", "--yes", TMPDIR=str(bench.temporary))
    assert (done.code, done.out.startswith("night: done")) == (0, True), done.err


def test_a_trial_without_room_says_where_it_could_work(tmp_path: Path) -> None:
    """Its repository goes with it: there is no run to be resumed, wherever the disk gets full."""
    bench, hints = Bench(tmp_path, WRITES, "raw"), set[str]()
    with tiny_disk(tmp_path / "disk", 1) as disk:
        for leave in range(40_000, 440_000, 60_000):
            disk.fill(leave)
            done = Cli(bench.here)(*bench.command(), TMPDIR=str(disk.root))
            hints |= {done.err.splitlines()[-1]} if done.code else set()
            disk.free()
            assert [path for path in disk.root.iterdir() if path.is_dir()] == []
    assert any("`--keep DIR`, or TMPDIR" in hint for hint in hints)
    assert not any("holdfast resume" in hint for hint in hints)
