"""Actions: each name against a real run, what a refused one says, and how the page starts a run of a plan."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.views.actions import ACTIONS
from tests.support.command import Cli, cli_at_work, eventually, killed_cli, writes
from tests.support.repositories import git
from tests.web.server import DashboardProcess, serving

_REPORT = f"{sys.executable} -P -m holdfast report"
_ASK = f"{_REPORT} ask 'Postgres or SQLite?' --option Postgres --option SQLite"
_DECIDES = f'if grep -q "The answer" "$1"; then cp "$1" told.txt; else {_ASK}; fi'
_ASKER = {"asker": {"command": ["sh", "-c", _DECIDES, "agent", "{brief}"], "stream": "raw"}}


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Cli:
    """A run that rests: `a` landed, `b` was given up. To copy from."""
    tasks = (writes("a"), {"id": "b", "run": ["sh", "-c", "test -f fixed && echo b > b.txt"]})
    cli = Cli.of(tmp_path_factory.mktemp("original") / "p", *tasks, limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    return cli


@pytest.fixture
def blocked(original: Cli, tmp_path: Path) -> Cli:
    """A run that rests: `a` landed, `b` was given up."""
    return Cli(shutil.copytree(original.here, tmp_path / "p", symlinks=True))


def _run(server: DashboardProcess) -> str:
    return str(server.get("/overview")["repositories"][0]["runs"][0]["id"])


def _offered(server: DashboardProcess, run: str) -> dict[str, Any]:
    return {one["name"]: one for one in server.get(server.run_path(run))["actions"]}


def _offered_for(server: DashboardProcess, run: str, task: str) -> dict[str, Any]:
    return {one["name"]: one for one in server.get(f"{server.run_path(run)}/tasks/{task}")["actions"]}


def _status(server: DashboardProcess, run: str) -> str:
    return str(server.get(server.run_path(run))["status"]["run"]["status"])


def test_a_question_is_answered_from_the_inbox(tmp_path: Path) -> None:
    """In words that look like an option, which the agent gets as they are."""
    cli = Cli.of(tmp_path / "p", {"id": "db", "prompt": "x"}, agent="asker", agents=_ASKER)
    assert cli("run", "--yes").code == 3
    with serving(cli.here) as server:
        run = _run(server)
        (item,) = server.get("/overview")["inbox"]
        assert (item["kind"], item["task"], item["words"]) == ("question", "db", "Postgres or SQLite?")
        first = item["actions"][0]
        assert (first["name"], first["fields"][0]["options"]) == ("answer", ["Postgres", "SQLite"])
        answer = server.act(run, "answer", "db", answer="--neither; $(touch x) `id`")
        assert answer["ok"], answer
        assert answer["result"]["task"] == "db"
        (item,) = server.get("/overview")["inbox"]
        assert (item["kind"], item["actions"][0]["name"]) == ("blocked", "resume")
        assert server.act(run, "resume")["ok"]
        eventually(lambda: _status(server, run) == "completed", "it goes on")
    assert "--neither; $(touch x) `id`" in cli.project.git("show", f"holdfast/{run}:told.txt")
    assert not (cli.here / "x").exists()


def test_a_failed_task_is_retried_with_a_hint_and_the_run_resumed(blocked: Cli) -> None:
    """U7: a stuck task is recovered from the page."""
    with serving(blocked.here) as server:
        run = _run(server)
        kinds = [item["kind"] for item in server.get("/overview")["inbox"]]
        assert kinds == ["failed"]
        answer = server.act(run, "retry", "b", hint="-m look at 'fixed'\nand more", clean=True)
        assert answer["ok"], answer
        assert answer["command"].startswith(f"holdfast retry {run} b '--hint=-m look at")
        brief = server.get(f"{server.run_path(run)}/tasks/b/brief")
        assert (brief["attempt"], "-m look at 'fixed'" in brief["text"]) == (None, True)
        assert server.act(run, "resume")["ok"]
        eventually(lambda: _status(server, run) == "blocked", "it was tried again")
        assert len(server.get(f"{server.run_path(run)}/tasks/b")["history"]["attempts"]) == 2


def test_failed_tasks_are_restarted_all_at_once(blocked: Cli) -> None:
    """The choice of the recovery report."""
    with serving(blocked.here) as server:
        run = _run(server)
        assert server.get(server.run_path(run))["next"]["name"] == "resume_failed"
        assert server.act(run, "resume_failed")["ok"]
        path = f"{server.run_path(run)}/tasks/b"
        eventually(lambda: len(server.get(path)["history"]["attempts"]) == 2, "it was tried again")


def test_a_task_is_skipped_and_the_result_landed(blocked: Cli) -> None:
    """From a blocked run to the user's branch, with the whole difference in view."""
    with serving(blocked.here) as server:
        run = _run(server)
        assert server.act(run, "skip", "b")["ok"]
        assert server.act(run, "resume")["ok"]
        eventually(lambda: _status(server, run) == "completed", "it is completed")
        assert [one["path"] for one in server.get(f"{server.run_path(run)}/diff")["files"]] == ["a.txt"]
        now = server.get(server.run_path(run))
        assert now["next"]["name"] == "land"
        with server.stream(f"{server.run_path(run)}/stream") as stream:
            stream.next()
            assert server.act(run, "land", how="one commit", delete_branch=False)["ok"]
            stream.until("change", lambda data: data["run"]["landed_in"])
        assert "land" not in _offered(server, run)
    assert (blocked.here / "a.txt").exists()
    assert git(blocked.here, "log", "--format=%p", "-1").count(" ") == 0


def test_a_task_is_taken_and_given_back(blocked: Cli) -> None:
    """The person's workspace is told, and what is in it is taken in."""
    with serving(blocked.here) as server:
        run = _run(server)
        taken = server.act(run, "take", "b")
        assert taken["ok"], taken
        (Path(taken["result"]["kept"]["workspace"]) / "b.txt").write_text("mine\n")
        assert [item["kind"] for item in server.get("/overview")["inbox"]] == ["taken"]
        assert server.get(server.run_path(run))["next"]["name"] == "give"
        assert server.act(run, "give", "b", message="-by hand")["ok"]
        assert server.act(run, "resume")["ok"]
        eventually(lambda: _status(server, run) == "completed", "it is completed")
    assert blocked.project.git("show", f"holdfast/{run}:b.txt").strip() == "mine"


def test_a_task_starts_again_from_nothing(blocked: Cli) -> None:
    """After a copy of everything."""
    with serving(blocked.here) as server:
        answer = server.act(_run(server), "reset", "b")
        assert answer["ok"], answer
        assert Path(answer["result"]["kept"]["backup"]).exists()


def test_a_run_at_work_is_saved_paused_and_stopped(tmp_path: Path) -> None:
    """While it works, these are offered, and nothing that would be refused."""
    cli, runner, _agent = cli_at_work(tmp_path)
    with serving(cli.here) as server:
        run = _run(server)
        assert set(_offered(server, run)) == {"pause", "save", "stop", "abandon"}
        assert server.get(server.run_path(run))["next"] is None
        assert server.act(run, "save")["result"][0]["saved"] is True
        assert server.act(run, "pause")["result"]["pending"] is True
        assert "pause" not in _offered(server, run)
        assert server.act(run, "stop")["ok"]
        assert runner.wait() == 130
        assert _status(server, run) == "stopped"
        assert server.act(run, "abandon")["ok"]
        assert _status(server, run) == "abandoned"


def test_a_run_whose_runner_was_killed_is_recovered_with_a_click(tmp_path: Path) -> None:
    """C8 in a browser: the report says what is safe, and the button resumes."""
    cli, agent = killed_cli(tmp_path)
    with serving(cli.here) as server:
        run = _run(server)
        (item,) = server.get("/overview")["inbox"]
        assert item["kind"] == "interrupted"
        assert [
            choice["key"] for choice in server.get(f"{server.run_path(run)}/recovery")["choices"]
        ] == list("rfia")
        answer = server.act(run, "resume")
        assert answer["ok"], answer
        assert _status(server, run) == "running"
        assert server.act(run, "stop")["ok"]
    assert agent


def test_a_failed_gate_is_waived(tmp_path: Path) -> None:
    """By the person who decides so, for the stage that is named."""
    stages = [{"id": "one", "tasks": [writes("a")], "exit": ["false"]}, {"id": "two", "tasks": [writes("b")]}]
    cli = Cli.of(tmp_path / "p", stages=stages)
    assert cli("run", "--yes").code == 3
    with serving(cli.here) as server:
        run = _run(server)
        assert [item["kind"] for item in server.get("/overview")["inbox"]] == ["gate"]
        now = server.get(server.run_path(run))
        assert (now["next"]["name"], now["next"]["fields"][0]["options"]) == ("accept_gate", ["one"])
        assert server.act(run, "accept_gate", stage="one")["ok"]
        eventually(lambda: _status(server, run) == "completed", "it goes on")


def test_a_spent_budget_is_raised(tmp_path: Path) -> None:
    """What is in the way is offered, instead of a resume that would change nothing."""
    report = f"{_REPORT} cost 2 && echo $HOLDFAST_TASK > $HOLDFAST_TASK.txt"
    agents = {"dear": {"command": ["sh", "-c", report], "stream": "raw"}}
    tasks = ({"id": "a", "prompt": "x"}, {"id": "b", "prompt": "x", "needs": ["a"]})
    cli = Cli.of(tmp_path / "p", *tasks, agent="dear", agents=agents, limits={"cost_usd": 1})
    assert cli("run", "--yes").code == 3
    with serving(cli.here) as server:
        run = _run(server)
        assert [item["kind"] for item in server.get("/overview")["inbox"]] == ["budget"]
        assert "resume" not in _offered(server, run)
        assert server.get(server.run_path(run))["next"]["name"] == "amend_budget"
        assert server.act(run, "amend_budget", cost_usd="100")["ok"]
        eventually(lambda: _status(server, run) == "completed", "it goes on")


def test_a_result_is_discarded(tmp_path: Path) -> None:
    """It is archived, and not offered any more."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert cli("run", "--yes").code == 0
    with serving(cli.here) as server:
        run = _run(server)
        assert [item["kind"] for item in server.get("/overview")["inbox"]] == ["land"]
        assert server.act(run, "discard")["result"]["kept"]["branch"]
        assert not {"land", "discard"} & _offered(server, run).keys()
        eventually(lambda: server.get("/overview")["inbox"] == [], "it waits no longer")


def test_a_review_is_an_action_that_changes_nothing(blocked: Cli) -> None:
    """Its button opens the page of the same name."""
    with serving(blocked.here) as server:
        run = _run(server)
        assert server.act(run, "review")["result"]["run"] == run


def test_what_is_refused_says_why_and_what_to_do(blocked: Cli) -> None:
    """The words of the command line, apart from each other."""
    with serving(blocked.here) as server:
        run = _run(server)
        refused = server.act(run, "skip", "a")
        assert (refused["ok"], refused["exit_code"], refused["result"]) == (False, 2, None)
        assert refused["message"] == "that cannot be done now: task a is completed"
        assert refused["hint"].startswith("`holdfast status")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "explode"}, 400),
        ({"name": "retry"}, 400),
        ({"name": "stop", "task": "b"}, 400),
        ({"name": "retry", "task": "nobody"}, 404),
        ({"name": "retry", "task": "b", "fields": {"unknown": "x"}}, 400),
        ({"name": "answer", "task": "b", "fields": {}}, 400),
        ({"name": "accept_gate", "fields": {"stage": " "}}, 400),
    ],
)
def test_an_action_that_cannot_be_meant_starts_nothing(
    server: DashboardProcess, rested_run: str, body: dict[str, Any], status: int
) -> None:
    """It is refused before any command."""
    answer = server.post(f"{server.run_path(rested_run)}/actions", body)
    assert (answer.status_code, bool(answer.json()["error"])) == (status, True)


def test_a_run_is_started_from_a_plan_after_its_dry_run(tmp_path: Path) -> None:
    """The plan is shown whole with what it executes; then it runs without the page."""
    cli = Cli.of(
        tmp_path / "p", writes("a"), agent="mine", agents={"mine": {"command": ["true"], "stream": "raw"}}
    )
    (cli.here / "notes.json").write_text("{}")
    with serving(cli.here) as server:
        assert server.get("/repositories/p/plans") == {"plans": ["plan.json"]}
        shown = server.post("/repositories/p/plans/preview", {"path": "plan.json"}).json()
        assert shown["execution"]["executes"]
        for odd in ("notes.json", "../p/plan.json", "/etc/passwd", "--help", ".git/config"):
            assert server.post("/repositories/p/plans/preview", {"path": odd}).status_code == 404
            assert server.post("/repositories/p/runs", {"path": odd}).status_code == 404
        answer = server.post("/repositories/p/runs", {"path": "plan.json", "jobs": 2}).json()
        assert answer["ok"], answer
        eventually(lambda: _status(server, answer["result"]["run"]) == "completed", "it runs")


def test_a_detached_run_outlives_the_server(tmp_path: Path) -> None:
    """The page may be closed, and the server ended."""
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", "sleep 3; echo a > a.txt"]})
    with serving(cli.here) as server:
        assert server.post("/repositories/p/runs", {"path": "plan.json"}).json()["ok"]
        os.killpg(server.process.pid, signal.SIGKILL)
    eventually(lambda: cli.run_status() == "completed", "it goes on alone")


def test_every_action_is_tried_in_this_file() -> None:
    """A new row of the table comes with a test against a real run."""
    text = Path(__file__).read_text()
    assert [name for name in ACTIONS if f', "{name}"' not in text] == []
