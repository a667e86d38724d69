"""`answer`, and the questions of agents: asked by `report ask`, shown everywhere, answered with a live runner and without one."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Cli, eventually, on_terminal, writes
from tests.support.repositories import git
from tests.support.runs import Fifo

_REPORT = f"{sys.executable} -P -m holdfast report"
_ASK = f"{_REPORT} ask 'Postgres or SQLite?' --option Postgres --option SQLite"


def _agent(script: str, **more: Any) -> dict[str, Any]:
    """Return the entry of an agent that is a shell script; `$1` is its brief."""
    return {"command": ["sh", "-c", script, "agent", "{brief}"], "stream": "raw", **more}


def _project(path: Path, script: str, *tasks: dict[str, Any], **plan: Any) -> Cli:
    """Make a project whose task `db` is done by an agent with this script."""
    db = {"id": "db", "prompt": "make it"}
    return Cli.of(path, db, *tasks, agent="asker", agents={"asker": _agent(script)}, **plan)


_DECIDES = (
    f'if grep -q "The answer: SQLite" "$1"; then echo sqlite > db.txt; else echo half > half.txt; {_ASK}; fi'
)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A run that rests: `db` asked, `other` landed. To copy from."""
    cli = _project(tmp_path_factory.mktemp("asking") / "p", _DECIDES, writes("other"))
    assert cli("run", "--yes").code == 3
    return cli


@pytest.fixture
def asking(original: Cli, tmp_path: Path) -> Cli:
    """A run that rests: `db` asked "Postgres or SQLite?", `other` landed."""
    return Cli(shutil.copytree(original.here, tmp_path / "p", symlinks=True))


def test_an_attempt_after_an_answer_continues(asking: Cli) -> None:
    """Nothing was wrong with the work, so it is not called a fix."""
    asking("answer", "db", "2")
    shown = asking("resume", "--yes")
    assert "db: attempt 2 started (continuation)" in shown.out + shown.err
    (task,) = asking.json("inspect", "1", "db")["tasks"]
    assert [attempt["kind"] for attempt in task["attempts"]] == ["implementation", "continuation"]


def test_a_question_parks_its_task_and_charges_nothing(asking: Cli) -> None:
    """Other tasks landed meanwhile, and what the agent did is kept."""
    db = asking.task("db")
    assert (db["status"], db["question"], db["options"]) == (
        "blocked",
        "Postgres or SQLite?",
        ["Postgres", "SQLite"],
    )
    assert asking.task("other")["status"] == "completed"
    attempt = asking.json("inspect", "db")["tasks"][0]["attempts"][0]
    assert (attempt["outcome"], attempt["errors"]) == ("asked", [])
    assert git(asking.here, "show", f"{attempt['kept']}:half.txt") == "half"


@pytest.mark.parametrize(
    "words", [("status",), ("list",), ("inspect",), ("inspect", "db"), ("recap",), ("resume", "--dry-run")]
)
def test_a_question_is_shown_wherever_its_task_is(words: tuple[str, ...], original: Cli) -> None:
    """Nobody has to look for it."""
    assert "Postgres or SQLite?" in original(*words).out


def test_what_needs_the_user_comes_first_with_the_command(original: Cli) -> None:
    """Typed as it stands, the command answers."""
    shown = original("status").out
    assert shown.index("needs you") < shown.index("STAGE")
    assert "`holdfast answer 1 db 1`" in shown


def test_the_note_of_a_resting_run_asks_too(original: Cli) -> None:
    """Who comes back next week reads it there."""
    note = (original.here / ".holdfast/runs/01-try-it/continue-here.md").read_text()
    assert "## Needs you (1)" in note
    assert "Postgres or SQLite?" in note
    assert "Under way" not in note, "it waits, nobody works on it"
    assert re.findall(r"^    (holdfast .+)$", note, re.M) == ["holdfast answer 1 db 1", "holdfast resume 1"]


def test_an_answer_continues_the_task(asking: Cli) -> None:
    """A number chooses an option; the next attempt has it, and the work so far."""
    done = asking("answer", "db", "2")
    assert (done.code, '"SQLite"' in done.out, "holdfast resume" in done.out) == (0, True, True)
    assert asking("resume", "--yes").code == 0
    tip = git(asking.here, "ls-tree", "--name-only", "holdfast/01-try-it").split()
    assert {"db.txt", "half.txt", "other.txt"} <= set(tip)
    assert asking.task("db")["attempts"] == 2


def test_a_resume_alone_does_not_try_a_task_that_asked(asking: Cli) -> None:
    """It would only ask again, or guess."""
    assert asking("resume", "--yes").code == 3
    assert asking.task("db")["attempts"] == 1


def test_a_retry_without_an_answer_tells_the_next_agent(asking: Cli) -> None:
    """The user wants no part in it: the agent decides by itself."""
    done = asking("retry", "db")
    assert (done.code, "stays without an answer" in done.out) == (0, True)
    assert asking.task("db")["question"] is None
    assert "Nobody answered. Decide it yourself" in asking("inspect", "db", "--brief").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("answer", "other", "yes"), "has not asked anything"),
        (("answer", "db", "7"), "there is no option 7"),
        (("answer", "db", " "), "the answer is empty"),
    ],
)
def test_an_answer_that_fits_no_question_is_refused(words: tuple[str, ...], said: str, original: Cli) -> None:
    """Nothing is recorded."""
    done = original(*words)
    assert (done.code, said in done.err) == (2, True)


def test_a_live_runner_takes_an_answer(tmp_path: Path) -> None:
    """The task goes on while another is still at work."""
    busy = Fifo(tmp_path / "busy")
    other = {"id": "other", "run": ["sh", "-c", f"{busy.give}; sleep 60"]}
    cli = _project(tmp_path / "p", _DECIDES, other, limits={"jobs": 2})
    runner = cli.start("run", "--yes")
    busy.wait()
    eventually(lambda: cli.task("db")["status"] == "blocked", "the agent asked")
    assert "goes on with it" in cli("answer", "db", "SQLite").out
    eventually(lambda: cli.task("db")["status"] == "completed", "the task landed")
    cli("stop")
    runner.wait()


def test_a_question_survives_a_kill_of_everything(tmp_path: Path) -> None:
    """The agent asked and goes on; then runner, supervisor and agent are killed."""
    asked = Fifo(tmp_path / "asked")
    cli = _project(tmp_path / "p", f"echo half > half.txt; {_ASK}; {asked.give}; sleep 60")
    runner = cli.start("run", "--yes", HOLDFAST_SANDBOX="off")
    agent = int(asked.wait())
    os.killpg(runner.pid, signal.SIGKILL)
    runner.wait()
    os.kill(agent, signal.SIGKILL)
    assert cli("resume", "--yes").code == 3
    db = cli.task("db")
    assert (db["status"], db["question"], db["attempts"]) == ("blocked", "Postgres or SQLite?", 1)


def test_an_agent_that_reported_blocked_and_failed_waits_for_a_person(tmp_path: Path) -> None:
    """It is not retried blindly, costs no attempt, and `answer` lets it go on."""
    script = f'if grep -q "use the test key" "$1"; then echo done > done.txt; else {_REPORT} blocked "no API key"; exit 1; fi'
    cli = _project(tmp_path / "p", script, limits={"attempts": 1})
    assert cli("run", "--yes").code == 3
    db = cli.task("db")
    assert (db["status"], db["question"], db["attempts"]) == ("blocked", "no API key", 1)
    assert cli("answer", "db", "use the test key").code == 0
    assert cli("resume", "--yes").code == 0


def test_what_blocks_a_working_agent_is_shown(tmp_path: Path) -> None:
    """`report blocked` is no failure yet: the agent may find a way."""
    told = Fifo(tmp_path / "told")
    cli = _project(tmp_path / "p", f'{_REPORT} blocked "no API key"; {told.give}; sleep 60')
    runner = cli.start("run", "--yes")
    told.wait()
    eventually(lambda: cli.task("db")["obstacle"] == "no API key", "the obstacle is shown")
    assert "blocked: no API key" in cli("status").out
    assert "no API key" in cli("inspect", "db").out
    cli("stop")
    runner.wait()


def test_a_question_is_an_agents_text(tmp_path: Path) -> None:
    """It steers no terminal, holds no secret, and has an end."""
    key = "sk-ant-api03-" + "A1b2C3d4" * 11
    script = tmp_path / "ask.sh"
    script.write_text(f"""{_REPORT} ask "$(printf '\\033[2J') {key} really?"\n""")
    cli = _project(tmp_path / "p", f"sh {script}")
    code, screen = on_terminal(cli, "run", "--yes", answers="", NO_COLOR="1", HOLDFAST_SANDBOX="off")
    assert (code, "\x1b[2J" in screen, key in screen) == (3, False, False)
    kept = (cli.here / ".holdfast/journal.db").read_bytes() + cli("status", "--json").out.encode()
    assert key.encode() not in kept
    assert "really?" in cli.task("db")["question"]


def test_the_user_is_notified_of_a_question(tmp_path: Path) -> None:
    """With the question and the command to answer it."""
    told = tmp_path / "told"
    notify = {"command": ["sh", "-c", f"printf '%s\\n' \"$(cat)\" >> {told}"]}
    cli = _project(tmp_path / "p", _DECIDES, notify=notify)
    assert cli("run", "--yes").code == 3
    sent = [json.loads(line) for line in told.read_text().splitlines() if line]
    [question] = [one for one in sent if one["event"] == "question"]
    assert "Postgres or SQLite?" in question["reason"]
    assert "holdfast answer 01-try-it db" in question["reason"]


def test_an_agent_cannot_answer_itself(tmp_path: Path) -> None:
    """Agents decide nothing."""
    script = f"{_ASK}; {sys.executable} -P -m holdfast answer db 1 2> said.txt; true"
    cli = _project(tmp_path / "p", script)
    assert cli("run", "--yes", HOLDFAST_SANDBOX="off").code == 3
    assert cli.task("db")["status"] == "blocked"
    kept = cli.json("inspect", "db")["tasks"][0]["attempts"][0]["kept"]
    assert "agents decide nothing" in git(cli.here, "show", f"{kept}:said.txt")


def test_a_question_is_lost_with_the_journal_and_asked_again(asking: Cli) -> None:
    """It is not in git. `rebuild` says so, and the next agent finds the work and asks."""
    for file in (asking.here / ".holdfast").glob("journal.db*"):
        file.unlink()
    assert "questions and answers" in asking("rebuild", "--yes").out
    assert asking.task("db")["status"] == "pending"
    assert asking("resume", "--yes").code == 3
    db = asking.task("db")
    assert (db["question"], db["attempts"]) == ("Postgres or SQLite?", 2)


@pytest.mark.parametrize("words", [("db", "blue", "green"), ("1", "db", "blue", "green"), ("db", *"abc")])
def test_an_answer_without_quotes_is_told_how_to_type_it(asking: Cli, words: tuple[str, ...]) -> None:
    """Its first words are not taken for a run and a task."""
    done = asking("answer", *words)
    named = words[: words.index("db") + 1]
    told = f"`holdfast answer {' '.join(named)} '{' '.join(words[len(named) :])}'`"
    assert (done.code, told in done.err) == (2, True), done.err
    assert asking.task("db")["question"] == "Postgres or SQLite?"
