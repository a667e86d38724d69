"""The tables of docs/plan.md, made from the schema of plan files: `python -m tests.plans.reference_page` writes them.

The text and the examples between the tables are written by hand. A table is between `<!-- keys of NAME -->` and
`<!-- end -->`, where NAME is `plan`, a definition of the schema (`task`), or a key whose value has keys (`limits`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.plans.field_types import Schema
from holdfast.plans.schema import plan_schema

PAGE = Path(__file__).parents[2] / "docs" / "plan.md"
WRITE = "python -m tests.plans.reference_page"
TABLE = re.compile(r"<!-- keys of ([\w-]+) -->\n(.*?)<!-- end -->", re.DOTALL)
_HEAD = "| Key | Value | Default | Meaning |\n|---|---|---|---|\n"


def records() -> dict[str, Schema]:
    """Return every mapping with keys of its own, by its name in the page."""
    schema = plan_schema()
    found = {"plan": schema, **schema["$defs"]}
    for part in list(found.values()):
        found |= {key: inner for key, value in part["properties"].items() if (inner := _record_in(value))}
    return found


def _record_in(value: Schema) -> Schema | None:
    """Return the mapping with keys that a value is, or may be."""
    return next((one for one in (value, *value.get("oneOf", ())) if "properties" in one), None)


def table(record: Schema) -> str:
    """Return the table of a mapping's keys."""
    required = record.get("required", ())
    rows = (
        f"| `{key}` | {' or '.join(_words(key, value))} | {_default(value, key in required)} | {_meaning(value)} |\n"
        for key, value in record["properties"].items()
    )
    return _HEAD + "".join(rows)


def _meaning(value: Schema) -> str:
    return str(value.get("description", "")).replace("|", "\\|")


def _default(value: Schema, required: bool) -> str:
    if required:
        return "required"
    default = value.get("default")
    if default is None:
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _words(key: str, value: Schema) -> Iterator[str]:
    """Yield in words what may stand under a key; times and sizes may be written in two ways, which is said once."""
    forms = value.get("oneOf", ())
    patterns = [str(form.get("pattern", "")) for form in forms]
    if any("[dhms]" in one or r"\d+h" in one for one in patterns):
        yield "time: `90s`, `1h30m`, seconds"
    elif any("MB" in one for one in patterns):
        yield "size: `512MB`, bytes"
    elif forms and "properties" not in value:
        yield from dict.fromkeys(_word(key, form) for form in forms)
    else:
        yield _word(key, value)


def _word(key: str, value: Schema) -> str:
    if "properties" in value:
        return f"[keys](#{key.replace('_', '-')})"
    if "$ref" in value:
        return f"[{value['$ref'].rpartition('/')[2]}](#{value['$ref'].rpartition('/')[2]})"
    if "enum" in value:
        return ", ".join(f"`{one}`" for one in value["enum"] if one is not False)
    if "const" in value:
        return f"`{value['const']}`"
    if value.get("type") == "array":
        item = value.get("items", {})
        if "$ref" in item:
            return f"list of [{item['$ref'].rpartition('/')[2]}s](#{item['$ref'].rpartition('/')[2]})"
        kind = (
            "command: list of its words" if value.get("minItems") and item == {"type": "string"} else "list"
        )
        return f"list of {_word(key, item)}" if "enum" in item else kind
    if value.get("type") == "object":
        return f"map of names to {_word(key, value['additionalProperties'])}"
    return {"string": "text", "boolean": "`true`, `false`", "integer": "whole number", "number": "number"}[
        value["type"]
    ]


def with_tables(page: str) -> str:
    """Return the page with every table as the schema has it. A table of nothing that exists is emptied."""
    known = records()

    def current(found: re.Match[str]) -> str:
        rows = table(known[found[1]]) if found[1] in known else ""
        return f"<!-- keys of {found[1]} -->\n{rows}<!-- end -->"

    return TABLE.sub(current, page)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
