"""Telling the plan's command and webhook what became of a run. It never holds the run up for long nor fails it:
what could not be told is written down, without the webhook's address.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.core import events as ev
from holdfast.core.facts import ExitReason
from holdfast.core.state import RunState
from holdfast.errors import HoldfastError, JournalError, LeaseLostError
from holdfast.fleet.protocol import LaunchSpec
from holdfast.reporting.notifications import Notification, displayed_webhook, notification_of
from holdfast.runner.context import RunContext

PATIENCE_S = 5.0
"""How long a run that is over waits for the news to be out, and how long each way of telling may take."""
_COMMAND_S = 4.0
_GRACE_S = 0.5
_OWNER = "@"

Observer = Callable[[Sequence[ev.Event], RunState], None]


class Notifier:
    """Sends news while the loop goes on. One per runner; it needs a running event loop."""

    def __init__(self, context: RunContext, observer: Observer) -> None:
        self._context = context
        self._observer = observer
        self._sending: dict[asyncio.Task[str], str] = {}

    def __call__(self, events: Sequence[ev.Event], state: RunState) -> None:
        """Let the observer see the events, and send those that are news. Returns at once."""
        self._observer(events, state)
        for event in events:
            news = notification_of(event, state)
            if news is not None:
                self._send(news)

    def _send(self, news: Notification) -> None:
        notify = self._context.state.plan.notify
        body = msgspec.json.encode(news)
        if notify.command:
            self._begin(f"the command {notify.command[0]}", _run_command(self._context, notify.command, body))
        if notify.webhook:
            self._begin(
                f"the webhook at {displayed_webhook(notify.webhook)}", _post_in_thread(notify.webhook, body)
            )

    def _begin(self, whom: str, sending: Coroutine[Any, Any, str]) -> None:
        self._sending[asyncio.ensure_future(sending)] = whom

    async def finish(self) -> None:
        """Wait a moment for what is under way, end the rest, and record what was not told. Repeated, nothing is left."""
        if not self._sending:
            return
        await asyncio.wait(self._sending, timeout=PATIENCE_S)
        for sending in self._sending:
            sending.cancel()
        results = await asyncio.gather(*self._sending, return_exceptions=True)
        failures = [
            ev.NotificationFailed(channel=whom, error=_error_text(result))
            for whom, result in zip(self._sending.values(), results, strict=True)
            if result != ""
        ]
        self._sending.clear()
        if failures:
            self._record(failures)

    def _record(self, failures: Sequence[ev.Event]) -> None:
        context = self._context
        # The run is over and its last event is durable: a journal that fails now must not spoil that.
        with suppress(JournalError, LeaseLostError):
            context.journal.append(context.run, context.epoch, failures, context.state.row, (), time.time())
        self._observer(failures, context.state)


def _error_text(result: str | BaseException) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, asyncio.CancelledError):
        return f"no answer within {PATIENCE_S:g} s"
    return result.message if isinstance(result, HoldfastError) else type(result).__name__


async def _run_command(context: RunContext, command: tuple[str, ...], body: bytes) -> str:
    """Run a command with the news on its standard input; return what went wrong, or an empty string."""
    key = context.check_key(_OWNER, 1, "notify")
    paper = context.directory.root / f"news-{key.step}.json"
    paper.write_bytes(body)
    spec = LaunchSpec(
        key=key,
        token=secrets.token_hex(16),
        argv=command,
        cwd=context.repo.checkout,
        env=dict(os.environ),
        stdin=paper,
        timeout_s=_COMMAND_S,
        grace_s=_GRACE_S,
    )
    try:
        await context.fleet.launch(spec)
        ended = (await context.fleet.wait(key)).exit
    except asyncio.CancelledError:
        await context.fleet.cancel(key)
        raise
    finally:
        paper.unlink(missing_ok=True)
    if ended is None:
        return "it was lost"
    if ended.reason is ExitReason.EXITED:
        return "" if ended.code == 0 else f"it exited with {ended.code}"
    return ended.error or f"it was stopped: {ended.reason}"


async def _post_in_thread(url: str, body: bytes) -> str:
    """Post in a thread that nobody has to wait for: a server may drip its answer for ever."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def post() -> None:
        # The thread's own business, also to load: a run without a webhook goes without a client for it.
        from holdfast.runner.webhook import post_json

        said = post_json(url, body, PATIENCE_S)
        with suppress(RuntimeError):  # the loop is closed: nobody waits for the answer any more
            loop.call_soon_threadsafe(lambda: None if answer.done() else answer.set_result(said))

    threading.Thread(target=post, daemon=True, name="holdfast-webhook").start()
    return await answer
