"""The API in the words of OpenAPI 3.1, made from the table of endpoints and from the types that they answer with."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast import __version__
from holdfast.web.answers import JSON_TYPE, ErrorAnswer
from holdfast.web.dashboard import Endpoint, Parameter
from holdfast.web.event_stream import EVENT_STREAM

_ERRORS = {
    "400": "The request cannot be understood",
    "401": "The token is missing or wrong",
    "403": "Refused: another site, or a server that only shows",
    "404": "There is no such thing",
    "409": "Not possible as things are",
    "413": "The body is too large",
    "503": "The store cannot be reached, or too much is under way",
}
_PLACES = {
    "repository": "the short name of a repository, as the overview has it",
    "run": "the whole id of a run",
    "task": "the whole id of a task",
}
_TEMPLATE = "#/components/schemas/{name}"


def openapi(endpoints: Iterable[Endpoint], base: str) -> dict[str, Any]:
    """Return the description of these endpoints, which are below `base`."""
    rows = list(endpoints)
    types = [kind for row in rows for kind in _types(row)]
    schemas, components = msgspec.json.schema_components([*types, ErrorAnswer], ref_template=_TEMPLATE)
    shapes = iter(schemas)
    paths: dict[str, Any] = {}
    for row in rows:
        found = {id(kind): next(shapes) for kind in _types(row)}
        paths.setdefault(base + row.path, {})[row.method.lower()] = _operation(row, found, schemas[-1])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Holdfast",
            "version": __version__,
            "description": "What the dashboard shows and does. The objects are those that commands print with --json.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _types(row: Endpoint) -> list[Any]:
    said = [kind for _, kind in row.messages]
    return [kind for kind in (row.answer, row.body, *said) if kind is not None]


def _operation(row: Endpoint, shapes: dict[int, Any], error: Any) -> dict[str, Any]:
    places = re.findall(r"{(\w+)}", row.path)
    operation: dict[str, Any] = {
        "operationId": row.handler.__name__,
        "summary": row.summary,
        "parameters": [*map(_place, places), *map(_query, row.query)],
        "responses": {"200": _success(row, shapes)}
        | {
            status: {"description": words, "content": {JSON_TYPE: {"schema": error}}}
            for status, words in _ERRORS.items()
        },
    }
    if row.body is not None:
        content = {JSON_TYPE: {"schema": shapes[id(row.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _success(row: Endpoint, shapes: dict[int, Any]) -> dict[str, Any]:
    if row.answer is not None:
        return {"description": row.summary, "content": {JSON_TYPE: {"schema": shapes[id(row.answer)]}}}
    kinds = {name: shapes[id(kind)] for name, kind in row.messages}
    words = f"Server-sent events: {', '.join(kinds)}"
    shape = {"type": "string", "x-messages": kinds}
    return {"description": words, "content": {EVENT_STREAM: {"schema": shape}}}


def _place(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": _PLACES[name],
        "schema": {"type": "string"},
    }


def _query(parameter: Parameter) -> dict[str, Any]:
    shape: dict[str, Any] = {"type": "integer", "minimum": 0}
    if parameter.choices:
        shape = {"type": "string", "enum": list(parameter.choices)}
    elif parameter.is_text:
        shape = {"type": "string"}
    return {
        "name": parameter.name,
        "in": "query",
        "required": False,
        "description": parameter.summary,
        "schema": shape,
    }
