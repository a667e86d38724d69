"""Notifies the plan's command and webhook about a run. It never delays the run for long and never fails it.

A notification that was not delivered becomes an event, without the webhook's address.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.core import events as ev
from holdfast.core.facts import ExitReason
from holdfast.core.state import RunState
from holdfast.errors import HoldfastError
from holdfast.fleet.protocol import LaunchSpec
from holdfast.reporting.notifications import Notification, displayed_webhook, notification_of
from holdfast.runner.context import RunContext

PATIENCE_S = 5.0
"""How long a run that is over waits for its notifications, and how long one webhook may take."""
_COMMAND_S = 4.0
_GRACE_S = 0.5
_OWNER = "@"


class Notifier:
    """An observer that sends notifications while the loop continues. It needs a running event loop."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._sending: dict[asyncio.Task[str], str] = {}

    def __call__(self, events: Sequence[ev.Event], state: RunState) -> None:
        """Send a notification for each event that calls for one. Returns at once."""
        for event in events:
            notification = notification_of(event, state)
            if notification is not None:
                self._send(notification)

    def _send(self, notification: Notification) -> None:
        notify = self._context.state.plan.notify
        body = msgspec.json.encode(notification)
        if notify.command:
            self._begin(f"the command {notify.command[0]}", _run_command(self._context, notify.command, body))
        if notify.webhook:
            channel = f"the webhook at {displayed_webhook(notify.webhook)}"
            self._begin(channel, _post(notify.webhook, body))

    def _begin(self, channel: str, sending: Coroutine[Any, Any, str]) -> None:
        self._sending[asyncio.ensure_future(sending)] = channel

    async def finish(self) -> list[ev.Event]:
        """Wait briefly for what is being sent, cancel the rest, and return what failed, once."""
        if not self._sending:
            return []
        await asyncio.wait(self._sending, timeout=PATIENCE_S)
        for sending in self._sending:
            sending.cancel()
        results = await asyncio.gather(*self._sending, return_exceptions=True)
        failures: list[ev.Event] = [
            ev.NotificationFailed(channel=channel, error=_error_text(result))
            for channel, result in zip(self._sending.values(), results, strict=True)
            if result != ""
        ]
        self._sending.clear()
        return failures


def _error_text(result: str | BaseException) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, asyncio.CancelledError):
        return f"no answer within {PATIENCE_S:g} s"
    return result.message if isinstance(result, HoldfastError) else type(result).__name__


async def _run_command(context: RunContext, command: tuple[str, ...], body: bytes) -> str:
    """Run a command with the notification on its standard input; return what went wrong, or an empty string."""
    key = context.check_key(_OWNER, 1, "notify")
    message = context.directory.root / f"news-{key.step}.json"
    message.write_bytes(body)
    env, cwd = dict(os.environ), context.repo.checkout
    spec = LaunchSpec(key, command, cwd, env, stdin=message, timeout_s=_COMMAND_S, grace_s=_GRACE_S)
    try:
        await context.fleet.launch(spec)
        ended = (await context.fleet.wait(key)).exit
    except asyncio.CancelledError:
        await context.fleet.cancel(key)
        raise
    finally:
        message.unlink(missing_ok=True)
    if ended is None:
        return "it was lost"
    if ended.reason is ExitReason.EXITED:
        return "" if ended.code == 0 else f"it exited with {ended.code}"
    return ended.error or f"it was stopped: {ended.reason}"


async def _post(webhook: str, body: bytes) -> str:
    """Post to a webhook's address; `$NAME` stands for the variable of the user that holds it."""
    if not webhook.startswith("$"):
        return await _post_in_thread(webhook, body)
    url = os.environ.get(webhook[1:], "")
    if not url.startswith(("http://", "https://")):
        return "this variable holds no http address" if url else "this variable is not set"
    return await _post_in_thread(url, body)


async def _post_in_thread(url: str, body: bytes) -> str:
    """Post in a thread that nobody has to wait for: a server may never answer."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def post() -> None:
        said = post_json(url, body, PATIENCE_S)
        with suppress(RuntimeError):  # the loop is closed: nobody waits for the answer any more
            loop.call_soon_threadsafe(lambda: None if answer.done() else answer.set_result(said))

    threading.Thread(target=post, daemon=True, name="holdfast-webhook").start()
    return await answer


def post_json(url: str, body: bytes, timeout_s: float) -> str:
    """Post a JSON text to this address and nowhere else; return what went wrong, or an empty string.

    Nothing returned contains the address.
    """
    # Loaded here: a run without a webhook needs no HTTP client.
    import urllib.error
    import urllib.request
    from http.client import HTTPException

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        """A redirection becomes an error with its status."""

        def redirect_request(self, *_: Any) -> None:
            """Refuse."""

    headers = {"Content-Type": "application/json", "User-Agent": "holdfast"}
    try:
        request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 - a plan has http(s) only
        with urllib.request.build_opener(NoRedirect).open(request, timeout=timeout_s):
            return ""
    except urllib.error.HTTPError as error:
        error.close()
        return f"it answered with {error.code}"
    except urllib.error.URLError as error:
        reason = error.reason.strerror if isinstance(error.reason, OSError) else ""
        return reason or "no connection"
    except (OSError, HTTPException, ValueError) as error:
        return f"it could not be reached ({type(error).__name__})"
