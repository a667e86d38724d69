"""Telling a file of Auto-Claude from all others: by what is in it, else by where it lies."""

from __future__ import annotations

from holdfast.formats.auto_claude import layout
from holdfast.formats.auto_claude.layout import Kind
from holdfast.formats.loose import BrokenFileError, parse_object

_NOT_STATE = (Kind.QA, Kind.PROGRESS)


def recognises(path: str, data: bytes) -> bool:
    """Tell whether a file tells of a spec. A broken plan in its place counts: what is around it can be saved."""
    named = layout.kind_by_name(path)
    is_at_home = layout.in_specs(path) and named is not None and named not in _NOT_STATE
    if named is Kind.SPEC or not data.lstrip().startswith((b"{", b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return is_at_home or named is Kind.PLAN
    try:
        content = parse_object(path, data)
    except BrokenFileError:
        return is_at_home or named is Kind.PLAN
    return is_at_home or named is Kind.PLAN or layout.kind_by_content(content) is not None
