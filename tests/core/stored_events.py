"""An example of each kind of event, as journals hold it: `python -m tests.core.stored_events` adds those that are missing.

`stored_events.jsonl` has a line for each kind that a release wrote. Lines are added, never changed. A kind that is newer
than the file gets an example on the spot.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import inspect as types

from holdfast.core.event_codec import EVENT_KINDS

FILE = Path(__file__).with_suffix(".jsonl")
_TEXT = 'é"\\\n'
_TEXTS = (_TEXT, "L1-b", "refs/heads/holdfast/L1-b")


def stored_lines() -> list[str]:
    """Return the events that earlier versions stored, one line each."""
    return FILE.read_text().splitlines()


def new_lines() -> list[str]:
    """Return a line for each kind that has none in the file, with every field filled."""
    stored = {msgspec.json.decode(line)["kind"] for line in stored_lines()}
    return [example(kind) for kind in EVENT_KINDS if kind.__struct_config__.tag not in stored]


def example(kind: type[msgspec.Struct]) -> str:
    """Return the line of an event of this kind, with every field filled."""
    info = types.type_info(kind)
    assert isinstance(info, types.StructType)
    filled = {field.encode_name: _value(field.type) for field in info.fields}
    return msgspec.json.encode({"kind": info.tag, **filled}).decode()


def _other_than(default: Any, wanted: types.Type) -> Any:
    """Return a value that is stored because it is not the default."""
    value = _value(wanted)
    if value != default:
        return value
    return wanted.values[0] if isinstance(wanted, types.LiteralType) else not value


def _value(wanted: types.Type) -> Any:
    """Return a value of a type as JSON holds it: never the default, and for a text one that has to be escaped."""
    match wanted:
        case types.UnionType():
            return _value(next(one for one in wanted.types if not isinstance(one, types.NoneType)))
        case types.EnumType():
            return list(wanted.cls)[-1].value
        case types.LiteralType():
            return wanted.values[-1]
        case types.VarTupleType() | types.ListType():
            return [_value(wanted.item_type)] * 2
        case types.DictType():
            return {_value(wanted.key_type): _value(wanted.value_type)}
        case types.StructType():
            return {field.encode_name: _other_than(field.default, field.type) for field in wanted.fields}
        case types.BoolType():
            return True
        case types.IntType():
            return 7
        case types.FloatType():
            return 1.5
        case types.StrType():
            # A codec that checks a name accepts none that has to be escaped.
            return next(text for text in _TEXTS if re.search(wanted.pattern or "", text))
    raise TypeError(f"no example for a {wanted}")


if __name__ == "__main__":
    FILE.write_text("\n".join([*stored_lines(), *new_lines()]) + "\n")
