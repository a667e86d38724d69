"""`adopt redis://…`: what a crashed run of CFN Loop left in a server is found and carried on; its keys stay as they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support.command import Cli, fails, writes
from tests.support.redis_server import RedisServerProcess
from tests.support.repositories import Project, write
from tests.support.servers import running

DONE, BAD_INPUT, WAITS = 0, 2, 3
AGENT = ("--agent", "worker", "--yes")

EPIC = {
    "epicId": "e-commerce-123",
    "name": "E-commerce Platform",
    "status": "in_progress",
    "startTime": "2025-10-10T20:15:00Z",
    "lastCheckpoint": "2025-10-10T20:45:30Z",
    "totalSprints": 3,
    "completedSprints": 1,
    "inProgressSprints": 1,
    "waitingSprints": 1,
    "sprints": [
        {"id": "auth-system", "status": "completed", "progress": 100},
        {"id": "product-catalog", "status": "in_progress", "progress": 80},
        {"id": "admin-panel", "status": "waiting", "progress": 0},
    ],
    "dependencies": {"admin-panel": ["auth-system"]},
}
SPRINT = {
    "sprintId": "product-catalog",
    "epicId": "e-commerce-123",
    "status": "in_progress",
    "phase": "Loop 3 - Implementation",
    "progress": 80,
    "agents": [{"id": "coder-1", "status": "active", "task": "Write the catalog"}],
    "filesWritten": [],
    "filesInProgress": [
        {
            "path": "src/catalog.ts",
            "completed": False,
            "lastCompletedSection": "searchProducts",
            "nextSection": "filterProducts",
            "currentLine": 245,
            "confidence": 0.82,
        }
    ],
    "confidence": {"loop3": 0.82, "loop2": None},
}
CODER = {
    "agentId": "coder-1",
    "sprintId": "product-catalog",
    "epicId": "e-commerce-123",
    "currentTask": "Write the catalog",
    "fileBeingEdited": "src/catalog.ts",
    "lineNumber": 245,
    "lastHeartbeat": "2025-10-10T20:45:35Z",
}
INTERFACE = {"sprintId": "auth-system", "name": "AuthAPI", "contract": "POST /auth/login, /auth/logout"}


@pytest.fixture
def server() -> Iterator[RedisServerProcess]:
    """A server of the test's own."""
    with running(RedisServerProcess.start) as started:
        yield started


def _fill(server: RedisServerProcess, **more: object) -> None:
    """Leave what the document shows of a crashed epic, and a key that is none of its records."""
    records = {
        "epic:e-commerce-123:state": EPIC,
        "sprint:product-catalog:state": SPRINT,
        "sprint:product-catalog:files": SPRINT["filesInProgress"],
        "agent:coder-1:state": CODER,
        "agent:coder-1:checkpoint": {"agentId": "coder-1", "file": "src/catalog.ts", "line": 245},
        "interface:auth-system:ready": INTERFACE,
        "session:42": {"user": "somebody"},
        **more,
    }
    with server.client() as client:
        for key, record in records.items():
            client.set(key, json.dumps(record))


def _all_keys(server: RedisServerProcess) -> dict[bytes, bytes | None]:
    with server.client() as client:
        return {key: client.dump(key) for key in client.scan_iter()}


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A repository with the work of the first sprint, and an agent that writes a file for its task."""
    project = Project.create(tmp_path / "p")
    script = 'cat "$HOLDFAST_BRIEF" > "brief-$HOLDFAST_TASK.txt"'
    agents = f"[worker]\ncommand = {json.dumps(['sh', '-c', script])}\n"
    project.git("checkout", "-q", "-b", "epic-e-commerce-123/product-catalog-wip")
    project.write("src/catalog.ts", "searchProducts\n")
    project.commit("WIP: product-catalog checkpoint (80%)")
    project.git("checkout", "-q", "-")
    write(project.path / ".holdfast/agents.toml", agents)
    return Cli(project.path)


def test_a_crashed_epic_is_found_in_the_server_and_its_keys_stay_as_they_are(
    server: RedisServerProcess, cli: Cli
) -> None:
    """A dry run tells what git proves, and a list what there is."""
    _fill(server)
    before = _all_keys(server)
    done = cli("adopt", server.url, "--dry-run")
    assert (done.code, done.err) == (DONE, "")
    assert "cfn e-commerce-123  (epic:e-commerce-123:state)" in done.out
    assert "epic-e-commerce-123/product-catalog-wip" in done.out
    [line] = cli.json("adopt", server.url, "--list")
    assert (line["name"], line["tasks"], line["done"]) == ("e-commerce-123", 3, 1)
    assert line["updated_at"].startswith("2025-10-10T20:45:30")
    assert _all_keys(server) == before


def test_uncommitted_files_that_may_be_of_several_sprints_are_told(
    server: RedisServerProcess, cli: Cli
) -> None:
    """None of them is taken for the work of one, nor is it passed over in silence."""
    others = {f"sprint:{name}:state": {**SPRINT, "sprintId": name} for name in ("cart", "profile")}
    _fill(server, **others)
    write(cli.here / "src/basket.ts", "half of it")
    findings = cli.json("adopt", server.url, "--dry-run", "--with-checkout")["findings"]
    (told,) = [finding["sentence"] for finding in findings if finding["kind"] == "uncommitted"]
    assert ("uncommitted file" in told, "cart" in told, "profile" in told) == (True, True, True), told


def test_a_crashed_epic_is_carried_on_to_its_end(server: RedisServerProcess, cli: Cli) -> None:
    """The agent is told the place in the file where the work stopped, and the interface that others published."""
    _fill(server)
    before = _all_keys(server)
    assert cli("adopt", server.url, *AGENT).code == DONE
    assert cli("resume", "--yes").code == DONE
    branch = cli.json("status")["run"]["branch"]
    catalog = cli.project.git("show", f"{branch}:brief-product-catalog.txt")
    assert "src/catalog.ts" in catalog
    assert "filterProducts" in catalog
    assert "POST /auth/login" in cli.project.git("show", f"{branch}:brief-admin-panel.txt")
    assert _all_keys(server) == before
    again = cli("adopt", server.url, *AGENT)
    assert "has it already" in again.out


def test_an_adopted_epic_is_continued_under_its_own_keys(server: RedisServerProcess, cli: Cli) -> None:
    """Its records follow the run, keep fields that are not ours, and are known for ours afterwards."""
    _fill(server)
    assert cli("adopt", server.url, *AGENT).code == DONE
    assert cli("mirror", "cfn", "--to", server.url).code == DONE
    assert cli("resume", "--yes").code == DONE
    with server.client() as client:
        epic = json.loads(client.get("epic:e-commerce-123:state") or b"{}")
        sprint = json.loads(client.get("sprint:product-catalog:state") or b"{}")
        assert client.get("agent:coder-1:state") == json.dumps(CODER).encode()
    assert (epic["status"], epic["startTime"][:4]) == ("completed", str(datetime.now(UTC).year))
    assert (sprint["status"], sprint["progress"]) == ("completed", 100)
    assert cli("adopt", server.url, *AGENT).code == WAITS


def test_the_records_of_a_run_of_our_own_are_not_adopted_by_mistake(
    server: RedisServerProcess, tmp_path: Path
) -> None:
    """The run is here; a copy of it would do everything that is left a second time. --fresh insists."""
    cli = Cli.of(tmp_path / "p", writes("a"), fails("b"), limits={"attempts": 1})
    assert cli("run", "--yes").code == 1
    assert cli("mirror", "cfn", "--to", server.url).code == DONE
    done = cli("adopt", server.url, "--agent", "claude")
    assert done.code == WAITS
    assert "Holdfast itself writes epic:01-try-it:state for run 01-try-it" in done.err
    told = cli.json("adopt", server.url, "--dry-run")
    assert [(task["id"], task["verdict"]) for task in told["tasks"]] == [("a", "proven"), ("b", "given-up")]


def test_several_epics_in_one_server_are_told_apart(server: RedisServerProcess, cli: Cli) -> None:
    """Each has its own records; the answer names the command for each."""
    other = {"epicId": "blog", "status": "in_progress", "sprints": [{"id": "posts", "status": "in_progress"}]}
    posts = {"sprintId": "posts", "epicId": "blog", "status": "in_progress", "progress": 50}
    _fill(server, **{"epic:blog:state": other, "sprint:posts:state": posts})
    assert {line["name"]: line["tasks"] for line in cli.json("adopt", server.url, "--list")} == {
        "e-commerce-123": 3,
        "blog": 1,
    }
    done = cli("adopt", server.url)
    assert done.code == WAITS
    assert f"holdfast adopt '{server.url}?run=epic:blog:state'" in done.err
    one = cli.json("adopt", f"{server.url}?run=epic:blog:state", "--dry-run")
    assert [task["id"] for task in one["tasks"]] == ["posts"]
    assert cli("adopt", f"{server.url}?run=epic:blag:state", "--dry-run").code == BAD_INPUT


def test_an_agent_with_a_fresh_heartbeat_is_said_to_be_at_work(server: RedisServerProcess, cli: Cli) -> None:
    """An old one is a crash, and no alarm."""
    _fill(server)
    assert "may still be at work" not in cli("adopt", server.url, "--dry-run").out
    now = datetime.now(UTC).isoformat()
    _fill(server, **{"agent:coder-1:state": {**CODER, "lastHeartbeat": now}})
    assert "may still be at work" in cli("adopt", server.url, "--dry-run").out


def test_a_broken_record_is_told_and_the_others_are_used(server: RedisServerProcess, cli: Cli) -> None:
    """Half a record is left by a crash; another type by another tool."""
    _fill(server)
    with server.client() as client:
        client.set("sprint:admin-panel:state", '{"sprintId": "admin-panel", "stat')
        client.hset("sprint:other:state", "status", "in_progress")
    done = cli("adopt", server.url, "--dry-run")
    assert done.code == DONE
    assert "sprint:other:state is no text" in done.out
    assert "product-catalog" in done.out


def test_a_server_without_records_or_without_an_answer_is_told(server: RedisServerProcess, cli: Cli) -> None:
    """No password is shown."""
    empty = cli("adopt", server.url)
    assert empty.code == BAD_INPUT
    assert "holds no records" in empty.err
    server.kill()
    gone = cli("adopt", server.url.replace("://", "://:s3cret-word@"))
    assert gone.code == WAITS
    assert "does not answer" in gone.err
    assert "s3cret-word" not in gone.err
