"""The JSON Schema of a plan file, made from the table the reader uses. Run as a module to write the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from holdfast.plans.fields import AGENT, PLAN, STAGE, TASK, VALIDATOR

SCHEMA_FILE = Path("schema") / "holdfast-plan.schema.json"


def plan_schema() -> dict[str, Any]:
    """Return the schema, with a description of every key for editors to show."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Holdfast plan",
        "description": "A plan of coding tasks: stages in order, tasks in parallel, each verified and landed.",
        **PLAN.schema(),
        "$defs": {record.name: record.schema() for record in (AGENT, STAGE, TASK, VALIDATOR)},
    }


def schema_text() -> str:
    """Return the schema as the file has it."""
    return json.dumps(plan_schema(), indent=2, ensure_ascii=False) + "\n"


def write_schema(root: Path) -> Path:
    """Write the schema below a repository's root; written again, the file is the same."""
    target = root / SCHEMA_FILE
    target.parent.mkdir(exist_ok=True)
    target.write_text(schema_text(), encoding="utf-8")
    return target


if __name__ == "__main__":
    write_schema(Path.cwd())
