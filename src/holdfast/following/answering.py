"""How a tool's answer travels: as JSON, with errors that have a type, a message and the way out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, ParamSpec

import msgspec
from mcp.types import CallToolResult, TextContent

from holdfast.errors import HoldfastError

_P = ParamSpec("_P")


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """An error as the agent gets it. `type` is one of Holdfast's own errors, `hint` what to do next."""

    type: str
    message: str
    hint: str


def answered(tool: Callable[_P, Awaitable[Any]]) -> Callable[_P, Awaitable[CallToolResult]]:
    """Let a tool return plain data and raise errors: the client gets both as JSON."""

    @wraps(tool)
    async def answering(*args: _P.args, **kwargs: _P.kwargs) -> CallToolResult:
        try:
            return _result(await tool(*args, **kwargs))
        except HoldfastError as error:
            trouble = Trouble(type=type(error).__name__, message=error.message, hint=error.hint)
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            trouble = Trouble(
                type="OSError", message=f"{where}{error.strerror}", hint="put that right, then ask again"
            )
        return _result({"error": trouble}, is_error=True)

    # The SDK derives what it checks from the annotations: the answer's own, not the tool's.
    answering.__annotations__ = {**tool.__annotations__, "return": CallToolResult}
    return answering


def _result(answer: Any, *, is_error: bool = False) -> CallToolResult:
    content = TextContent(type="text", text=msgspec.json.encode(answer).decode())
    return CallToolResult(
        content=[content], structured_content=msgspec.to_builtins(answer), is_error=is_error
    )
