"""The simplest value that a JSON schema allows, for the arguments and the decisions that no script gives.

Only what agents were seen to ask for is read. The types of Google's schemas are in capitals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FILLER = "by the script"
_DEPTH_MAX = 20
_SIMPLE: Mapping[str, Any] = {"boolean": False, "null": None, "array": [], "object": {}}


def example_of(schema: Mapping[str, Any]) -> Any:
    """Return a value that fits a schema: one of an enum, what is required of an object, the least of a number."""
    return _example(schema, schema, 0)


def _example(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Any:
    schema = _resolved(schema, root, depth)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return _example(schema[key][0], root, depth + 1)
    kind = kind_of(schema)
    if kind == "object":
        properties = schema.get("properties") or {}
        return {
            key: _example(properties.get(key) or {}, root, depth + 1) for key in schema.get("required") or ()
        }
    if kind == "array":
        return [_example(schema.get("items") or {}, root, depth + 1)] * int(schema.get("minItems") or 0)
    if kind in ("integer", "number"):
        return schema.get("minimum", 0)
    if kind == "string":
        return FILLER.ljust(int(schema.get("minLength") or 0), ".")[: schema.get("maxLength")]
    return _SIMPLE[kind]


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
    """Return the schema with its reference and its parts put in."""
    if depth > _DEPTH_MAX:
        return {"type": "null"}
    if reference := schema.get("$ref"):
        found: Any = root
        for name in str(reference).removeprefix("#").strip("/").split("/"):
            found = found.get(name, {}) if name else found
        return _resolved(found, root, depth + 1)
    whole: dict[str, Any] = dict(schema)
    for part in schema.get("allOf") or ():
        part = _resolved(part, root, depth + 1)
        properties = {**(whole.get("properties") or {}), **(part.get("properties") or {})}
        required = [*(whole.get("required") or ()), *(part.get("required") or ())]
        whole = {**part, **whole, "properties": properties, "required": required}
    return whole


def kind_of(schema: Mapping[str, Any]) -> str:
    """Return the type of a schema in lower case, the first of several; a string where it says nothing."""
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0] if kind else None
    if isinstance(kind, str) and kind.lower() in ("object", "array", "integer", "number", "boolean", "null"):
        return kind.lower()
    return "object" if kind is None and "properties" in schema else "string"
