"""The stream of Claude Code, `--output-format stream-json`. Qwen Code has the same.

An API failure ends in a `result` whose subtype is "success"; `is_error` and the message before it tell. What a result says
was used is the session's in newer versions, earlier runs of it included, unless it is said since the last result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.agents.streams import log_entries as entries
from holdfast.agents.streams.dialect import StreamDialect, at, count, mapping, number, rows, text, wall_time
from holdfast.agents.streams.error_patterns import ErrorPatterns
from holdfast.core import observations as obs
from holdfast.core.projection import Spent

_CACHED = "cache_read_input_tokens"
_TOKENS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", _CACHED)
_MODEL_CACHED = "cacheReadInputTokens"
_MODEL_TOKENS = ("inputTokens", "outputTokens", "cacheCreationInputTokens", _MODEL_CACHED)
_WHOLE = ("", "end_turn", "stop_sequence")
"""The reasons for which a model stops whose answer is whole. Older versions tell none."""
_CONTEXT_REASONS = ("prompt_too_long", "model_context_window_exceeded", "context_window_exceeded")


class ClaudeStream(StreamDialect):
    """A message comes once for each of its parts, always with the same usage, which counts once."""

    def __init__(self, patterns: ErrorPatterns) -> None:
        super().__init__(patterns)
        self._used: dict[str, Spent] = {}
        self._whole = Spent()
        self._api_error: obs.TroubleSeen | None = None

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
            self._api_error = self._trouble_of_request(error, answer or error, event.get("api_error_status"))
            yield self._api_error
            return
        self._api_error = None
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
            error = text(event, "error")
            words = "no answer" if error in ("", "unknown") else error.replace("_", " ")
            message = f"{words}; the request to the model is repeated"
            seen = self._trouble_of_request(error, message, event.get("error_status"))
            yield obs.Activity() if seen.trouble is obs.AgentTrouble.ERROR else seen

    def _trouble_of_request(self, error: str, message: str, status: Any) -> obs.TroubleSeen:
        """Return a failed request by its kind, its message and its HTTP status. An unknown one without a status got no answer."""
        if error == "unknown" and status is None:
            return obs.TroubleSeen(obs.AgentTrouble.OUTAGE, message)
        found = self._patterns.of_error(f"{error} {message}", number({"status": status}, "status"))
        return obs.TroubleSeen(found, message)

    def _result(self, event: dict[str, Any]) -> Iterator[obs.Observation]:
        yield self._result_usage(event)
        for denial in rows(event, "permission_denials"):
            yield obs.PermissionDenied(_denial(denial))
        answer = text(event, "result") or text(event, "error", "message") or text(event, "error")
        status, reason = number(event, "api_error_status"), text(event, "terminal_reason")
        if reason in _CONTEXT_REASONS:
            yield obs.TroubleSeen(obs.AgentTrouble.CONTEXT, answer or reason)
        elif reason == "api_error" and self._api_error is not None:
            yield self._api_error
        elif event.get("is_error") is True or status or text(event, "subtype").startswith("error"):
            yield self._trouble(answer or _errors(event) or text(event, "subtype"), status)
        elif text(event, "stop_reason") in _WHOLE:
            yield obs.AgentFinished(answer)
        else:
            yield obs.TroubleSeen(obs.AgentTrouble.ERROR, f"the model stopped: {text(event, 'stop_reason')}")

    def _result_usage(self, event: dict[str, Any]) -> obs.Usage:
        """Return what this process used: the sum of what its results say since the last one, else what the result counts."""
        usage, models = mapping(event, "usage"), at(event, "model_usage_since_last_result")
        if isinstance(models, dict):
            parts = [part for part in models.values() if isinstance(part, dict)]
            used = Spent(
                tokens=sum(count(part, *_MODEL_TOKENS) for part in parts),
                cost_usd=sum(number(part, "costUSD") for part in parts),
                cache_read=sum(count(part, _MODEL_CACHED) for part in parts),
            )
            self._whole = self._whole.plus(used)
        else:
            cost, cached = number(event, "total_cost_usd"), count(usage, _CACHED)
            self._whole = Spent(tokens=count(usage, *_TOKENS), cost_usd=cost, cache_read=cached)
        whole = self._whole
        return obs.Usage(whole.tokens, whole.cost_usd, whole=True, cache_read=whole.cache_read)


def _rate_limit(info: dict[str, Any]) -> Iterator[obs.Observation]:
    """Only a rejection is a limit; a warning is a sign of life. So is a rejection of one who works on with usage credits."""
    if text(info, "status") != "rejected" or info.get("isUsingOverage") is True:
        yield obs.Activity()
        return
    until = wall_time(info, "resetsAt") or wall_time(info, "resets_at")
    kind = text(info, "rateLimitType") or text(info, "rate_limit_type") or "usage"
    yield obs.TroubleSeen(
        obs.AgentTrouble.LIMIT, f"the {kind.replace('_', ' ')} limit is reached", until or None
    )


def _errors(event: dict[str, Any]) -> str:
    errors = at(event, "errors")
    return "; ".join(error for error in errors if isinstance(error, str)) if isinstance(errors, list) else ""


def _denial(denial: dict[str, Any]) -> str:
    asked = mapping(denial, "tool_input")
    what = text(asked, "command") or text(asked, "file_path") or text(asked, "url")
    tool = text(denial, "tool_name") or "a tool"
    return f"{tool} ({what})" if what else tool
