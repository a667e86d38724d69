"""What the server answers: views as JSON, errors as JSON with a hint, and what a request may send."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from holdfast.errors import (
    HoldfastError,
    JournalUnavailableError,
    LeaseHeldError,
    MachineError,
    NeedsDecisionError,
)

JSON_TYPE = "application/json"
BODY_BYTES_MAX = 1024 * 1024
_DIGITS_MAX = 15
_STATUSES: tuple[tuple[type[HoldfastError], int], ...] = (
    (JournalUnavailableError, 503),
    (MachineError, 503),
    (LeaseHeldError, 409),
    (NeedsDecisionError, 409),
)
_Body = TypeVar("_Body")


class RefusedRequestError(HoldfastError):
    """A request that is refused, with the status of its answer."""

    def __init__(self, status: int, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.status = status


class ErrorAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What every refused request is answered with: what is wrong, and what to do about it."""

    error: str
    hint: str


def json_answer(view: object, status: int = 200) -> Response:
    """Return a view as JSON. Nobody keeps a copy of it."""
    return Response(msgspec.json.encode(view), status, media_type=JSON_TYPE)


def error_answer(status: int, message: str, hint: str = "") -> Response:
    """Return an error as JSON."""
    return json_answer(ErrorAnswer(error=message, hint=hint), status)


def answer_to(error: HoldfastError) -> Response:
    """Return the answer to a request that failed with one of our own errors."""
    if isinstance(error, RefusedRequestError):
        return error_answer(error.status, error.message, error.hint)
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), 400)
    return error_answer(status, error.message, error.hint)


async def body_of(request: Request, kind: type[_Body]) -> _Body:
    """Return what a request sent, as JSON of this kind. Raises RefusedRequestError if it is anything else, or too much.

    Forms of other pages can send no JSON: they are refused by their type.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON_TYPE:
        raise RefusedRequestError(400, f"the body is not {JSON_TYPE}", f"send `Content-Type: {JSON_TYPE}`")
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > BODY_BYTES_MAX:
            raise RefusedRequestError(413, "the body is too large", f"send at most {BODY_BYTES_MAX:,} bytes")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RefusedRequestError(
            400, f"the body cannot be read: {error}", "see /api/v1/openapi.json"
        ) from error


def whole_number(request: Request, name: str, otherwise: int | None = None) -> int | None:
    """Return a number of the query, from 0 on. Raises RefusedRequestError if it is something else."""
    text = request.query_params.get(name)
    if text is None:
        return otherwise
    if not (text.isascii() and text.isdecimal()) or len(text) > _DIGITS_MAX:
        raise RefusedRequestError(400, f"{name} is not a whole number", "give a number from 0 on")
    return int(text)
