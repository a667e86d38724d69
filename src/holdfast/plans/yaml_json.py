"""The two syntaxes of a plan or workflow file: text as plain values, and their lines for errors.

Only the event level of the YAML library is used, so no tag can construct an object, and our own bounds apply
to the values. The library is imported when the first YAML text is read, not before.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from holdfast.errors import PlanError, quoted
from holdfast.plans.source import SourceMarks, SourceText, TreeBuilder

# The tokens of a text that is known to be valid JSON; commas, colons and blanks have no meaning.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|[^\s,:{}\[\]"]+')
_WORDS: dict[str, bool | None] = {
    **{spelled: True for word in ("true", "yes", "on") for spelled in (word, word.title(), word.upper())},
    **{spelled: False for word in ("false", "no", "off") for spelled in (word, word.title(), word.upper())},
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
_NUMBER = re.compile(
    r"[-+]?([0-9][0-9_]*(\.[0-9]*)?([eE][-+]?[0-9]+)?|\.[0-9]+([eE][-+]?[0-9]+)?|\.(inf|Inf|INF|nan|NaN|NAN))"
)
_HEX = re.compile(r"0x[0-9a-fA-F]{1,16}")
# Longer runs of digits are read as floats: Python refuses to turn thousands of digits into an int.
_INT = re.compile(r"[-+]?[0-9]{1,18}")
_PLAIN_TAGS = (None, "!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq")

_UNCLOSED_QUOTE = "found unexpected end of stream"
# What the parser says, and what the author probably has to change.
_FIXES = (
    ("mapping values are not allowed", "put a text that contains `: ` in quotes"),
    (
        "cannot start any token",
        "indent with spaces, and put a text that starts with a special character in quotes",
    ),
    ("expected <block end>", "check the indentation of this line and the ones before it"),
    ("could not find expected ':'", "write `key: value`, or check the indentation"),
    ("tab character", "indent with spaces"),
    ("this quote is", "close it on the line where its text ends"),
)


def load_text(source: SourceText) -> tuple[Any, bool]:
    """Return the plain value of a text, and whether any of its mappings has a key twice."""
    if source.is_json:
        return load_json(source)
    builder = TreeBuilder(source)
    build_yaml(source, builder)
    return builder.root, builder.has_duplicates


def mark_lines(source: SourceText) -> SourceMarks:
    """Return the line of every value in a text that `load_text` accepted."""
    marks = SourceMarks()
    build = build_json if source.is_json else build_yaml
    build(source, TreeBuilder(source, marks))
    return marks


# -- JSON: loaded at once, and walked token by token only for its lines --------------------------------------


def load_json(source: SourceText) -> tuple[Any, bool]:
    """Return the value of a JSON text, and whether any of its objects has a key twice."""
    has_duplicates = False

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_duplicates
        unique = dict(found)
        has_duplicates = has_duplicates or len(unique) != len(found)
        return unique

    try:
        value = json.loads(source.text, object_pairs_hook=pairs, parse_int=_number)
    except json.JSONDecodeError as error:
        fault = f"this is not valid JSON: {error.msg} (column {error.colno})"
        fix = "look for a missing comma or quote, or one too many"
        raise source.error(error.lineno, f"{fault}; {fix}") from None
    except RecursionError:
        raise source.error(1, "nested too deeply; a plan needs seven levels") from None
    return value, has_duplicates


def build_json(source: SourceText, builder: TreeBuilder) -> None:
    """Feed a JSON text that `load_json` accepted to the builder, with its lines."""
    line, end = 1, 0
    for found in _TOKEN.finditer(source.text):
        line += source.text.count("\n", end, found.start())
        end = found.start()
        _add_token(builder, found.group(), line)


def _add_token(builder: TreeBuilder, mark: str, line: int) -> None:
    if mark in ("{", "["):
        builder.open({} if mark == "{" else [], line)
    elif mark in ("}", "]"):
        builder.close()
    elif builder.wants_key:
        builder.key(json.loads(mark), line)
    else:
        text = json.loads(mark) if mark.startswith('"') else mark
        builder.scalar(text, text, line)


def _number(digits: str) -> int | float:
    """Python refuses to turn thousands of digits into an int; a float of them is refused later, by its size."""
    return int(digits) if len(digits) <= 18 else float(digits)


# -- YAML: parse events into plain values ---------------------------------------------------------------------


def c_loader() -> Any:
    """Return the fast loader of the YAML library, or the slow one where it was built without libyaml."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def build_yaml(source: SourceText, builder: TreeBuilder, loader: Any = None) -> None:
    """Feed the one document of a YAML text to the builder."""
    import yaml

    try:
        _feed(source, builder, yaml.parse(source.text, loader or c_loader()))
    except yaml.MarkedYAMLError as error:
        mark, problem = error.problem_mark or error.context_mark, error.problem or str(error)
        if _UNCLOSED_QUOTE in problem and error.context_mark:
            # The parser notices it where the text ends; the author looks for where it began.
            mark, problem = error.context_mark, "this quote is never closed"
        elif mark and (opened := _quote_closed_at(source, mark.line)):
            # One that was forgotten makes the next one close it, and what follows there makes no sense.
            mark, problem = (
                opened,
                f"this quote is closed only on line {mark.line + 1}, by one that opens another text",
            )
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise _syntax_error(source, line, column, problem) from None
    except yaml.reader.ReaderError as error:
        line = source.text.count("\n", 0, error.position) + 1
        raise source.error(line, f"this is not text: {error.reason}") from None


def _quote_closed_at(source: SourceText, line: int) -> Any:
    """Return where a text in quotes begins that ends on a line and began before it; None if there is none."""
    import yaml

    found = None
    with suppress(yaml.MarkedYAMLError):
        for token in yaml.scan(source.text, c_loader()):
            if isinstance(token, yaml.ScalarToken) and not token.plain and token.style in ('"', "'"):
                is_it = token.start_mark.line < line == token.end_mark.line
                found = token.start_mark if is_it else found
    return found


def _feed(source: SourceText, builder: TreeBuilder, events: Any) -> None:
    # Local names: this loop runs about twenty times per task.
    from yaml import (
        AliasEvent,
        DocumentStartEvent,
        MappingEndEvent,
        MappingStartEvent,
        ScalarEvent,
        SequenceEndEvent,
        SequenceStartEvent,
    )

    documents = 0
    for event in events:
        kind = type(event)
        if kind is ScalarEvent:  # tested first: most events are scalars
            _scalar(source, builder, event)
        elif kind is MappingStartEvent or kind is SequenceStartEvent:
            line = event.start_mark.line + 1
            _refuse_tag(source, event.tag, line)
            builder.open({} if kind is MappingStartEvent else [], line, event.anchor)
        elif kind is MappingEndEvent or kind is SequenceEndEvent:
            builder.close()
        elif kind is AliasEvent:
            builder.alias(event.anchor, event.start_mark.line + 1)
        elif kind is DocumentStartEvent:
            documents += 1
            if documents > 1:
                raise source.error(
                    event.start_mark.line + 1, "a second document starts here; keep one per file"
                )


def _scalar(source: SourceText, builder: TreeBuilder, event: Any) -> None:
    text, line = event.value, event.start_mark.line + 1
    if event.tag is not None:
        _refuse_tag(source, event.tag, line)
    if builder.wants_key:
        builder.key(text, line)
    else:
        builder.scalar(plain_value(text) if event.implicit[0] else text, text, line, event.anchor)


def _refuse_tag(source: SourceText, tag: str | None, line: int) -> None:
    if tag not in _PLAIN_TAGS:
        spelled = quoted((tag or "").replace("tag:yaml.org,2002:", "!!"))
        raise source.error(line, f"the YAML tag {spelled} is not allowed in a plan; remove it")


def plain_value(text: str) -> Any:
    """Return what an unquoted YAML text means: a number, a boolean, nothing, or itself."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "0123456789.+-":
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _NUMBER.fullmatch(text):
        return float(text.lower().replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _syntax_error(source: SourceText, line: int, column: int, problem: str) -> PlanError:
    fix = next((f"; {fix}" for message, fix in _FIXES if message in problem), "")
    return source.error(line, f"this is not valid YAML: {problem} (column {column}){fix}")
