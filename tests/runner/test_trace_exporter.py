"""Spans of a run reach a real collector, by OTLP over HTTP, and a collector cannot hold the run up or fail it."""

from __future__ import annotations

import gzip
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.support.command import Cli, eventually, writes
from tests.support.http_receiver import http_receiver
from tests.support.runs import Fifo

pytest.importorskip("opentelemetry.proto")
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


@pytest.fixture
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """A collector that takes everything; its address, and what it got."""
    with http_receiver(_take) as (url, posted):
        yield url, posted


def _take(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()


def _spans(posted: Sequence[bytes]) -> list[Span]:
    requests = (ExportTraceServiceRequest.FromString(_plain(body)) for body in posted)
    scopes = (scope for one in requests for resource in one.resource_spans for scope in resource.scope_spans)
    return [span for scope in scopes for span in scope.spans]


def _killed_after_b(tmp_path: Path, until: Callable[[Cli], bool]) -> Cli:
    """Leave a run whose runner and agent were killed after task `b` had landed. Task `a` ends well the second time."""
    at_work, again = Fifo(tmp_path / "at-work"), tmp_path / "again"
    script = f"echo a > a.txt; test -e {again} || {{ touch {again}; {at_work.give}; sleep 60; }}"
    cli = Cli.of(tmp_path / "p", {"id": "a", "run": ["sh", "-c", script]}, writes("b"))
    runner = cli.start("run", "--yes")
    agent = int(at_work.wait())
    eventually(lambda: until(cli), "b has landed")
    os.killpg(runner.pid, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    runner.wait()
    return cli


def _plain(body: bytes) -> bytes:
    return gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body


def test_a_run_sends_its_spans_with_their_parents(tmp_path: Path, collector: tuple[str, list[bytes]]) -> None:
    """All of them are in one trace."""
    url, posted = collector
    cli = Cli.of(tmp_path / "p", writes("a", verify=["true"]))
    assert cli("run", "--yes", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=url).code == 0
    spans = {span.name: span for span in _spans(posted)}
    assert list(spans) == ["command", "checks", "landing", "task a", "invoke_workflow 01-try-it"]
    run, task = spans["invoke_workflow 01-try-it"], spans["task a"]
    assert run.parent_span_id == b""
    assert task.parent_span_id == run.span_id
    assert spans["landing"].parent_span_id == task.span_id
    assert {span.trace_id for span in spans.values()} == {run.trace_id}


def test_what_a_killed_runner_could_not_send_is_sent_by_the_next_one(
    tmp_path: Path, collector: tuple[str, list[bytes]]
) -> None:
    """The first one knew no collector."""
    url, posted = collector
    cli = _killed_after_b(tmp_path, lambda cli: cli.task("b")["status"] == "completed")
    assert cli("resume", "--yes", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=url).code == 0
    assert {"task b", "task a", "invoke_workflow 01-try-it"} <= {span.name for span in _spans(posted)}


def test_spans_that_were_sent_twice_have_the_same_ids(
    tmp_path: Path, collector: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner that was killed may not have sent what it had done, so the next one sends it again."""
    url, posted = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url)
    cli = _killed_after_b(tmp_path, lambda _: "task b" in {span.name for span in _spans(posted)})
    assert cli("resume", "--yes").code == 0
    twice = [span.span_id for span in _spans(posted) if span.name == "task b"]
    assert len(twice) == 2
    assert twice[0] == twice[1]


def test_a_collector_that_refuses_fails_no_run_and_is_told(tmp_path: Path) -> None:
    """The run is what matters."""

    def refuse(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(400)
        handler.end_headers()

    cli = Cli.of(tmp_path / "p", writes("a"))
    with http_receiver(refuse) as (url, _):
        done = cli("run", "--yes", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=url)
    assert done.code == 0
    assert "the collector of traces was not notified: spans were not sent" in done.out + done.err


def test_nothing_is_sent_unless_a_collector_is_named(
    tmp_path: Path, collector: tuple[str, list[bytes]]
) -> None:
    """`OTEL_SDK_DISABLED` takes the name back."""
    url, posted = collector
    cli = Cli.of(tmp_path / "p", writes("a"))
    assert cli("run", "--yes", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=url, OTEL_SDK_DISABLED="true").code == 0
    assert posted == []


def test_a_protocol_that_holdfast_does_not_speak_is_told(tmp_path: Path) -> None:
    """The run goes on without traces."""
    cli = Cli.of(tmp_path / "p", writes("a"))
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    done = cli("run", "--yes", **env)
    assert done.code == 0
    assert "no traces are sent: Holdfast speaks http/protobuf, not grpc" in done.err
