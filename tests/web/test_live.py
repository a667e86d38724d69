"""Streams: what another process writes arrives, nothing is missed or doubled over a reconnect, and a dead runner is noticed."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.web.event_stream import Viewer
from holdfast.web.live_runs import LiveRuns, number_of
from holdfast.web.repositories import ServedRepositories, ServedRepository
from tests.support.command import Cli, cli_at_work, eventually, writes
from tests.support.runs import Fifo
from tests.support.servers import PROTOCOLS, url_of
from tests.web.server import Stream, StreamMessage, serving

STORES = ["sqlite", *PROTOCOLS]


def _store(kind: str) -> list[str]:
    return [] if kind == "sqlite" else ["--store", url_of(kind), "--accept-volatile"]


def _told(data: Any) -> list[int]:
    return [event["seq"] for event in data["events"]]


def _first_run(stream: Stream) -> str:
    found = stream.until("overview", lambda data: data["repositories"][0]["runs"])
    return str(found.data["repositories"][0]["runs"][0]["id"])


@pytest.mark.parametrize("kind", STORES)
def test_what_another_process_writes_arrives_and_a_reconnect_misses_and_doubles_nothing(
    tmp_path: Path, kind: str
) -> None:
    """A viewer who leaves in the middle and comes back with the last number has exactly the events of the journal."""
    go_on = Fifo(tmp_path / "go-on")
    tasks = [writes("a"), {"id": "b", "run": ["sh", "-c", f"{go_on.take}; echo b > b.txt"], "needs": ["a"]}]
    cli = Cli.of(tmp_path / "p", *tasks, writes("c", needs=["b"]))
    store = _store(kind)
    with serving(cli.here, *store) as server:
        with server.stream("/stream") as overview:
            runner = cli.start("run", "--yes", *store)
            run = _first_run(overview)
        seen: list[int] = []
        path = server.run_path(run)
        with server.stream(f"{path}/stream?after=0") as stream:
            first = stream.next()
            assert first.event == "status"
            seen += _told(first.data)
            last = first
            while not _is_running(last, "b"):
                last = stream.next()
                seen += _told(last.data)
                assert last.number == last.data["seq"]
        go_on.release()
        assert runner.wait() == 0
        with server.stream(f"{path}/stream", **{"Last-Event-ID": str(last.number)}) as stream:
            again = stream.next()
            assert again.event == "status"
            assert again.data["status"]["run"]["status"] == "completed"
            seen += _told(again.data)
        assert seen == [event["seq"] for event in server.get(f"{path}/events")["events"]]
        assert len(seen) == len(set(seen)) > 8


def test_a_change_has_only_what_changed(tmp_path: Path) -> None:
    """A thousand tasks are not sent again because one of them moved."""
    steps = Fifo(tmp_path / "steps")
    waits = {"id": "a", "run": ["sh", "-c", f"{steps.take}; echo a > a.txt"]}
    cli = Cli.of(tmp_path / "p", waits, *(writes(f"b{n}", needs=["a"]) for n in range(5)))
    with serving(cli.here) as server:
        runner = cli.start("run", "--yes")
        with server.stream("/stream") as overview:
            run = _first_run(overview)
        with server.stream(f"{server.run_path(run)}/stream") as stream:
            _until_running(stream, "a")
            steps.release()
            change = stream.until("change", lambda data: data["tasks"])
            assert {task["id"] for task in change.data["tasks"]} <= {"a", "b0", "b1", "b2", "b3", "b4"}
            while change.data["run"]["status"] != "completed":
                change = stream.until("change")
            assert change.data["next"]["name"] == "land"
        assert runner.wait() == 0


def _until_running(stream: Stream, task: str) -> None:
    for found in stream:
        if _is_running(found, task):
            return


def _is_running(found: StreamMessage, task: str) -> bool:
    tasks = (found.data if found.event == "change" else found.data["status"])["tasks"]
    return any(one["id"] == task and one["status"] == "running" for one in tasks)


def test_a_runner_that_dies_is_noticed_without_an_event(tmp_path: Path) -> None:
    """Nobody could write one. The next thing to do changes with it."""
    cli, runner, _agent = cli_at_work(tmp_path)
    with serving(cli.here) as server:
        run = server.get("/overview")["repositories"][0]["runs"][0]["id"]
        with server.stream(f"{server.run_path(run)}/stream") as stream, server.stream("/stream") as overview:
            assert stream.until("status").data["status"]["run"]["status"] == "running"
            assert overview.next().data["inbox"] == []
            os.killpg(runner.pid, signal.SIGKILL)
            runner.wait()
            change = stream.until("change", lambda data: data["run"]["status"] == "interrupted")
            assert change.data["run"]["ending"] == "crash"
            assert change.data["next"]["name"] == "resume"
            assert change.data["events"] == []
            found = overview.until("overview", lambda data: data["inbox"])
            assert [item["kind"] for item in found.data["inbox"]] == ["interrupted"]
    cli("stop")


def test_a_run_that_is_removed_ends_its_stream(tmp_path: Path) -> None:
    """`clean` forgets a run; who looks at it is told."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert cli("run", "--yes", "--land").code == 0
    with serving(cli.here) as server:
        run = server.get("/overview")["repositories"][0]["runs"][0]["id"]
        with server.stream(f"{server.run_path(run)}/stream") as stream:
            assert stream.next().event == "status"
            assert cli("clean", run, "--yes").code == 0
            assert stream.until("gone").data == {"run": run}
        assert server.client.get(f"/api/v1{server.run_path(run)}").status_code == 404


def test_all_viewers_of_a_run_share_one_follower_that_ends_with_the_last(tmp_path: Path) -> None:
    """Twenty windows must not read the journal twenty times, and a page left behind costs nothing."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert cli("run", "--yes").code == 0
    run = cli.json("list")[0]["id"]
    (served,) = ServedRepositories([cli.here]).all.values()
    asyncio.run(_look_with_three(served, run))
    eventually(lambda: _followers() == 0, "the follower ends")


async def _look_with_three(served: ServedRepository, run: str) -> None:
    live = LiveRuns()
    viewers = [live.messages(served, run, None) for _ in range(3)]
    first = [await anext(viewer) for viewer in viewers]
    assert {text.partition(b"data")[0] for text in first} == {
        b"id: %d\nevent: status\n" % number_of(first[0])
    }
    assert _followers() == 1
    for viewer in viewers:
        await viewer.aclose()  # type: ignore[attr-defined]


def _followers() -> int:
    return sum(thread.name.startswith("follow ") for thread in threading.enumerate())


def test_a_viewer_who_does_not_read_gets_the_whole_instead_of_ever_more(tmp_path: Path) -> None:
    """What waits for one viewer is bounded."""
    viewer = Viewer()
    for number in range(1000):
        viewer.put(b"x" * number)
    assert viewer.is_behind
    assert viewer.take() is None
    viewer.start_over()
    viewer.put(b"next")
    assert (viewer.take(), viewer.is_behind) == (b"next", False)


def test_the_log_of_an_agent_follows_until_it_ends(tmp_path: Path) -> None:
    """Line by line as the agent prints, with an end that says that no more comes."""
    steps = Fifo(tmp_path / "steps")
    script = f"echo one; {steps.take}; echo two; echo a > a.txt"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    with serving(cli.here) as server:
        runner = cli.start("run", "--yes")
        with server.stream("/stream") as overview:
            run = _first_run(overview)
        with server.stream(f"{server.run_path(run)}/stream") as stream:
            _until_running(stream, "a")
        with server.stream(f"{server.run_path(run)}/tasks/a/log") as stream:
            assert [entry["text"] for entry in stream.until("entries").data] == ["one"]
            steps.release()
            assert [entry["text"] for entry in stream.until("entries").data] == ["two"]
            assert stream.until("end").data == {"attempt": 1}
        assert runner.wait() == 0


def test_of_a_huge_log_only_the_end_is_sent(tmp_path: Path) -> None:
    """And of a line without end only its beginning; the server stays small."""
    script = "yes 0123456789012345678901234567890123456789 | head -c 30000000; echo; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo last; echo a > a.txt"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]})
    assert cli("run", "--yes").code == 0
    with serving(cli.here) as server:
        run = server.get("/overview")["repositories"][0]["runs"][0]["id"]
        with server.stream(f"{server.run_path(run)}/tasks/a/log") as stream:
            messages = list(stream)
    assert messages[0].event == "skipped"
    assert messages[0].data["bytes"] > 30_000_000
    entries = [entry for message in messages if message.event == "entries" for entry in message.data]
    assert entries[-1]["text"] == "last"
    assert sum(len(entry["text"]) for entry in entries) < 600_000
    assert messages[-1].event == "end"
