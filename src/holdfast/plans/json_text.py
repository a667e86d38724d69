"""Plans written in JSON: loaded at once, and walked token by token only when lines are asked for."""

from __future__ import annotations

import json
import re
from typing import Any

from holdfast.plans.source import Source
from holdfast.plans.tree import TreeBuilder

# The tokens of a text that is known to be valid JSON; commas, colons and blanks carry nothing.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|[^\s,:{}\[\]"]+')


def load_json(source: Source) -> tuple[Any, bool]:
    """Return the value of a JSON text, and whether any of its objects has a key twice."""
    twice = False

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        made = dict(found)
        twice = twice or len(made) != len(found)
        return made

    try:
        value = json.loads(source.text, object_pairs_hook=pairs, parse_int=_number)
    except json.JSONDecodeError as error:
        fault = f"this is not valid JSON: {error.msg} (column {error.colno}); look for a missing comma or quote, or one too many"
        raise source.error(error.lineno, fault) from None
    except RecursionError:
        raise source.error(1, "nested too deeply; a plan needs seven levels") from None
    return value, twice


def build_json(source: Source, builder: TreeBuilder) -> None:
    """Feed a JSON text that `load_json` accepted to the builder, with its lines."""
    line, end = 1, 0
    for token in _TOKEN.finditer(source.text):
        line += source.text.count("\n", end, token.start())
        end = token.start()
        _take(builder, token.group(), line)


def _take(builder: TreeBuilder, piece: str, line: int) -> None:
    if piece in ("{", "["):
        builder.open({} if piece == "{" else [], line)
    elif piece in ("}", "]"):
        builder.close()
    elif builder.wants_key:
        builder.key(json.loads(piece), line)
    else:
        text = json.loads(piece) if piece.startswith('"') else piece
        builder.scalar(text, text, line)


def _number(digits: str) -> int | float:
    """Python refuses to turn thousands of digits into an int; a float of them is refused later, by its size."""
    return int(digits) if len(digits) <= 18 else float(digits)
