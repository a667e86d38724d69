"""The stream of Claude Code, `--output-format stream-json`. Qwen Code has the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, count, mapping, number, rows, text
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.core import observations as obs
from holdfast.core.projection import Spent

_CACHED = "cache_read_input_tokens"
_TOKENS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", _CACHED)
_CONTEXT_REASONS = ("prompt_too_long", "model_context_window_exceeded", "context_window_exceeded")


class ClaudeStream(StreamDialect):
    """A message comes once for each of its parts, always with the same usage, which counts once."""

    def __init__(self, patterns: ErrorPatterns) -> None:
        super().__init__(patterns)
        self._used: dict[str, Spent] = {}

    def read(self, event: dict[str, Any]) -> Iterator[obs.Observation]:
        """Yield what one event tells."""
        if session := text(event, "session_id"):
            yield obs.SessionNamed(session)
        match text(event, "type"):
            case "assistant":
                yield from self._assistant(event)
            case "user":
                if any(text(part, "type") == "tool_result" for part in rows(event, "message", "content")):
                    yield obs.Activity(tool_done=True)
            case "system":
                yield from self._system(event)
            case "rate_limit_event":
                yield from _rate_limit(mapping(event, "rate_limit_info") or event)
            case "result":
                yield from self._result(event)

    def log(self, event: dict[str, Any]) -> Iterator[obs.LogEntry]:
        """Yield how one event reads."""
        match text(event, "type"):
            case "assistant":
                for part in rows(event, "message", "content"):
                    if text(part, "type") == "tool_use":
                        yield from entries.tool_call(text(part, "name"), part.get("input"))
                    yield from entries.message(text(part, "text"))
            case "user":
                for part in rows(event, "message", "content"):
                    if text(part, "type") == "tool_result":
                        failed = part.get("is_error") is True
                        yield from entries.tool_result(part.get("content"), failed=failed)
            case "rate_limit_event" | "system":
                for seen in self.read(event):
                    if isinstance(seen, obs.TroubleSeen):
                        yield from entries.error(seen.message)
            case "result":
                yield from self._log_result(event)

    def _log_result(self, event: dict[str, Any]) -> Iterator[obs.LogEntry]:
        for denial in rows(event, "permission_denials"):
            yield from entries.error(f"not allowed: {_denial(denial)}")
        seen = list(self._result(event))[-1]
        if isinstance(seen, obs.TroubleSeen):
            yield from entries.error(seen.message)
        else:
            yield from entries.end()

    def _assistant(self, event: dict[str, Any]) -> Iterator[obs.Observation]:
        message = mapping(event, "message")
        answer = "\n".join(text(part, "text") for part in rows(message, "content") if text(part, "text"))
        if error := text(event, "error"):
            yield obs.TroubleSeen(self._patterns.of_error(f"{error} {answer}"), answer or error)
            return
        for part in rows(message, "content"):
            if text(part, "type") == "tool_use":
                yield obs.Activity(tool=text(part, "name"))
        if answer:
            yield obs.Activity(text=answer)
        usage, name = mapping(message, "usage"), text(message, "id")
        known = self._used.get(name, Spent())
        more = Spent(tokens=count(usage, *_TOKENS), cache_read=count(usage, _CACHED)).beyond(known)
        yield obs.Usage(more.tokens, cache_read=more.cache_read)
        self._used[name] = known.plus(more)

    def _system(self, event: dict[str, Any]) -> Iterator[obs.Observation]:
        if text(event, "subtype") == "api_retry":
            status = number(event, "error_status") or number(event, "status")
            message = text(event, "error") or "the request to the model is repeated"
            seen = self._trouble(message, status)
            yield seen if seen.trouble is obs.AgentTrouble.LIMIT else obs.Activity()

    def _result(self, event: dict[str, Any]) -> Iterator[obs.Observation]:
        usage = mapping(event, "usage")
        cost, cached = number(event, "total_cost_usd"), count(usage, _CACHED)
        yield obs.Usage(count(usage, *_TOKENS), cost, whole=True, cache_read=cached)
        for denial in rows(event, "permission_denials"):
            yield obs.PermissionDenied(_denial(denial))
        answer = text(event, "result") or text(event, "error", "message") or text(event, "error")
        status = number(event, "api_error_status")
        reason = text(event, "terminal_reason")
        if reason in _CONTEXT_REASONS:
            yield obs.TroubleSeen(obs.AgentTrouble.CONTEXT, answer or reason)
        elif event.get("is_error") is True or status or text(event, "subtype").startswith("error"):
            message = answer or text(event, "subtype")
            yield self._trouble(message, status)
        else:
            yield obs.AgentFinished(answer)


def _rate_limit(info: dict[str, Any]) -> Iterator[obs.Observation]:
    """Only a rejection is a limit; a warning is a sign of life."""
    if text(info, "status") != "rejected":
        yield obs.Activity()
        return
    until = number(info, "resetsAt") or number(info, "resets_at")
    kind = text(info, "rateLimitType") or text(info, "rate_limit_type") or "usage"
    yield obs.TroubleSeen(
        obs.AgentTrouble.LIMIT, f"the {kind.replace('_', ' ')} limit is reached", until or None
    )


def _denial(denial: dict[str, Any]) -> str:
    asked = mapping(denial, "tool_input")
    what = text(asked, "command") or text(asked, "file_path") or text(asked, "url")
    tool = text(denial, "tool_name") or "a tool"
    return f"{tool} ({what})" if what else tool
