"""Colours of source code and marks on changed words, as classes of spans: what a page makes of a line of a diff.

Text from agents is only ever cut into pieces here; it is never markup.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import pairwise

from pygments.lexer import Lexer
from pygments.lexers import find_lexer_class_for_filename
from pygments.token import STANDARD_TYPES, _TokenType
from pygments.util import ClassNotFound

TextSpan = tuple[str, str]
"""A class and a text. Classes are Pygments' short names; ` x` after one marks what changed within a line."""
CHANGED = "x"
_LINE_CHARS_MAX = 400
_PLAIN_TYPES = ("", "w", "p", "n", "o")
"""Classes that a page shows as any other text: without them there are far fewer pieces."""
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
_SAME_MIN = 0.4
"""Of two lines that have less than this in common, words are not compared: all of them changed."""


@lru_cache(maxsize=64)
def _lexer_for(name: str) -> Lexer | None:
    try:
        found = find_lexer_class_for_filename(name)
    except (ClassNotFound, ValueError):
        return None
    return None if found is None else found(stripnl=False, ensurenl=False, stripall=False)


def highlighted(path: str, lines: Sequence[str]) -> list[list[TextSpan]]:
    """Return each line of a piece of a file in coloured spans. A file of an unknown kind, or an odd one, stays plain."""
    lexer = _lexer_for(path.rpartition("/")[2])
    plain = [_plain(line) for line in lines]
    if lexer is None or any(len(line) > _LINE_CHARS_MAX for line in lines):
        return plain
    found: list[list[TextSpan]] = [[]]
    for kind, text in lexer.get_tokens("\n".join(lines)):
        first, *others = text.split("\n")
        _add(found[-1], _class_of(kind), first)
        for piece in others:
            found.append([])
            _add(found[-1], _class_of(kind), piece)
    told = ["".join(text for _, text in spans) for spans in found]
    return found if told == list(lines) else plain


def _plain(line: str) -> list[TextSpan]:
    return [("", line)] if line else []


def _add(spans: list[TextSpan], kind: str, text: str) -> None:
    if text and spans and spans[-1][0] == kind:
        spans[-1] = (kind, spans[-1][1] + text)
    elif text:
        spans.append((kind, text))


def _class_of(kind: _TokenType) -> str:
    known = next(one for one in reversed(kind.split()) if one in STANDARD_TYPES)
    name = STANDARD_TYPES[known]
    return "" if name in _PLAIN_TYPES else name


def changed_words(old: str, new: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return which parts of two lines differ, word by word, as ranges of characters. Very different lines have none."""
    if max(len(old), len(new)) > _LINE_CHARS_MAX:
        return [], []
    before, after = _WORD.findall(old), _WORD.findall(new)
    match = SequenceMatcher(None, before, after, autojunk=False)
    if match.ratio() < _SAME_MIN:
        return [], []
    moves = [move for move in match.get_opcodes() if move[0] != "equal"]
    return (
        [_range(before, begin, end) for _, begin, end, _, _ in moves if end > begin],
        [_range(after, begin, end) for _, _, _, begin, end in moves if end > begin],
    )


def _range(words: Sequence[str], begin: int, end: int) -> tuple[int, int]:
    first = sum(len(word) for word in words[:begin])
    return first, first + sum(len(word) for word in words[begin:end])


def marked(spans: Sequence[TextSpan], ranges: Sequence[tuple[int, int]]) -> list[TextSpan]:
    """Return spans with the marks of these ranges on them."""
    found: list[TextSpan] = []
    at = 0
    for kind, text in spans:
        cuts = {0, len(text)}
        for begin, end in ranges:
            cuts |= {cut - at for cut in (begin, end) if 0 < cut - at < len(text)}
        ordered = sorted(cuts)
        for first, last in pairwise(ordered):
            inside = any(begin <= at + first < end for begin, end in ranges)
            _add(found, f"{kind} {CHANGED}".strip() if inside else kind, text[first:last])
        at += len(text)
    return found
