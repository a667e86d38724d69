"""Sends the spans of a run to an OpenTelemetry collector while it is executed. It never delays or fails the run.

It is on if the usual variables name a collector (`OTEL_EXPORTER_OTLP_ENDPOINT`) and `holdfast[otel]` is installed. A thread
reads the journal, so what is sent is what is durable. After a crash the next runner sends the spans of the one before it
again, under the same ids: none is missing, and a collector that goes by ids keeps each once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from hashlib import sha256
from importlib.util import find_spec
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Protocol

from holdfast import __version__
from holdfast.core import events as ev
from holdfast.core.state import RunState
from holdfast.core.status import RunStatus
from holdfast.errors import JournalError
from holdfast.journal.protocol import Journal, JournalReader
from holdfast.reporting.spans import SpanFold, SpanKey, TraceSpan
from holdfast.runner.held_run import Tell

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SENDING_S = 5.0
"""How long one sending may take, and how long a run that is over waits for the last one."""
_KEPT_MAX = 10_000
"""How many spans are kept for a collector that does not answer. The oldest are dropped."""


class SpanSender(Protocol):
    """Takes spans somewhere; tells whether they arrived."""

    def send(self, spans: Sequence[TraceSpan]) -> bool:
        """Send spans. Never raises."""


def trace_exporter(journal: Journal, state: RunState, epoch: int, tell: Tell) -> TraceExporter | None:
    """Return what sends the spans of a run; None if nobody wants them. Says why if they cannot be sent."""
    if not _is_wanted(os.environ):
        return None
    protocol = next((os.environ[name] for name in _PROTOCOLS if os.environ.get(name)), "http/protobuf")
    if protocol != "http/protobuf":
        tell(f"no traces are sent: Holdfast speaks http/protobuf, not {protocol} ({_PROTOCOLS[1]})")
        return None
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
        tell("no traces are sent: `pip install 'holdfast[otel]'` adds what that needs")
        return None
    return TraceExporter(journal, state, epoch, CollectorSender())


def _is_wanted(env: Mapping[str, str]) -> bool:
    off = env.get("OTEL_SDK_DISABLED", "").lower() == "true" or env.get("OTEL_TRACES_EXPORTER") == "none"
    return not off and any(env.get(name) for name in _ENDPOINTS)


class TraceExporter:
    """An observer that only wakes its thread, which reads the journal and sends what is over."""

    def __init__(self, journal: Journal, state: RunState, epoch: int, sender: SpanSender) -> None:
        """Begin, with the state before this runner attached: a runner that was killed may have left spans unsent."""
        self._journal, self._run, self._epoch, self._sender = journal, state.row.run, epoch, sender
        self._is_interrupted = state.row.status is RunStatus.RUNNING
        self._fold, self._seen = SpanFold(), 0
        self._unsent: list[TraceSpan] = []
        self._wakes = SimpleQueue[bool]()
        self._thread = Thread(target=self._work, daemon=True, name="holdfast-traces")
        self._thread.start()

    def __call__(self, _events: Sequence[ev.Event], _state: RunState) -> None:
        """Have the thread look at what is new. Returns at once."""
        self._wakes.put(True)

    def finish(self) -> list[ev.Event]:
        """Wait briefly until everything was sent; return what to record if it was not."""
        self._wakes.put(False)
        self._thread.join(_SENDING_S)
        if not self._thread.is_alive() and not self._unsent:
            return []
        return [ev.NotificationFailed(channel="the collector of traces", error="spans were not sent")]

    def _work(self) -> None:
        with closing(self._journal.reader()) as reader:
            go_on = True
            while go_on:
                go_on = self._wakes.get()
                with suppress(JournalError):  # a store that is away has its events later
                    self._take_in(reader)
                self._send()

    def _take_in(self, reader: JournalReader) -> None:
        """Fold what is new. What earlier runners left is dropped, but for one that was killed just before us."""
        for record in reader.events(self._run, after=self._seen):
            if isinstance(record.event, ev.RunnerAttached) and not self._continues(record.event):
                self._unsent.clear()
            self._unsent += self._fold.add(record.at, record.event)
            self._seen = record.seq
        del self._unsent[:-_KEPT_MAX]

    def _continues(self, attached: ev.RunnerAttached) -> bool:
        return attached.epoch == self._epoch and self._is_interrupted

    def _send(self) -> None:
        if self._unsent and self._sender.send(self._unsent):
            self._unsent.clear()


class CollectorSender:
    """Sends spans by OTLP over HTTP, as the variables of OpenTelemetry say."""

    def __init__(self) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource

        # It complains on the terminal, in the middle of ours. Whether it worked is told by its answer.
        logging.getLogger("opentelemetry").addHandler(logging.NullHandler())
        logging.getLogger("opentelemetry").propagate = False
        self._exporter = OTLPSpanExporter(timeout=_SENDING_S)
        about = {"service.name": "holdfast", "service.version": __version__}
        self._resource = Resource(about).merge(Resource.create())
        if not os.environ.get("OTEL_SERVICE_NAME"):
            self._resource = self._resource.merge(Resource(about))

    def send(self, spans: Sequence[TraceSpan]) -> bool:
        """Send spans; tell whether the collector took them."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        made = [self._readable(span) for span in spans]
        try:
            return self._exporter.export(made) is SpanExportResult.SUCCESS
        except Exception:  # noqa: BLE001 - whatever a collector or its library does, the run goes on
            return False

    def _readable(self, span: TraceSpan) -> ReadableSpan:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.trace.status import Status, StatusCode

        status = Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET)
        return ReadableSpan(
            name=span.name,
            context=_context(span, span.key),
            parent=_context(span, span.parent) if span.parent else None,
            resource=self._resource,
            attributes=span.attributes,
            status=status,
            start_time=round(span.begin * 1e9),
            end_time=round(span.end * 1e9),
        )


def _context(span: TraceSpan, key: SpanKey) -> SpanContext:
    """Return the ids of a span: the same ones whoever computes them."""
    from opentelemetry.trace import SpanContext, TraceFlags

    trace = sha256(span.trace.encode()).digest()[:16]
    own = sha256("\0".join((span.trace, *key)).encode()).digest()[:8]
    return SpanContext(
        trace_id=int.from_bytes(trace),
        span_id=int.from_bytes(own),
        is_remote=False,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
    )
