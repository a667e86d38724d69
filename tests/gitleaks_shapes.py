"""Makes `src/holdfast/secret_shapes.py` from the rules of gitleaks: `python -m tests.gitleaks_shapes FOLDER`.

FOLDER is a clone of github.com/gitleaks/gitleaks. Of its rules those are taken that know a secret by how it begins.
The others need words around the secret, or the name of a file; in a stream they would hide what people must read.
"""

from __future__ import annotations

import json
import re
import string
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from re import _constants as op, _parser as parser  # type: ignore[attr-defined, unused-ignore]
from typing import Any, NamedTuple

RULES = "config/gitleaks.toml"
TARGET = Path(__file__).parents[1] / "src" / "holdfast" / "secret_shapes.py"
LEFT_OUT = {
    "clickhouse-cloud-api-secret-key": "a digest begins so now and then",
    "curl-auth-header": "a command line, not a secret by itself; `redaction.py` knows the header",
    "jwt-base64": "34 spellings of one beginning, which `redaction.py` has",
    "microsoft-teams-webhook": "begins like any address; `redaction.py` knows its path",
    "private-key": "has lines and an end of its own, which `redaction.py` knows",
    "sidekiq-sensitive-url": "a password in an address, which `redaction.py` knows for every host",
}
_PREFIX_MIN = 3
_LONG_PREFIX = 5
_CHOICES_MAX = 8
_REST_MIN, _REST_MAX = 8, 24
"""A rest that is shorter says nothing. One behind a long prefix need not be longer: half a key is a secret too."""
_WHOLE_MIN = 18
"""No secret of a known shape is shorter as a whole, so that shorter words need not be looked at."""
_TERMINATOR = re.compile(r"\(\?:\[\\x60'\"\\s;\]\|\\\\\[nr\]\|\$(?:\|\\b)?\)$")
_ALNUM = string.ascii_letters + string.digits
_REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT)
_ALPHABETS = {
    "HEX": string.hexdigits + "-",
    "ALNUM": _ALNUM,
    "WORD": _ALNUM + "_-",
    "TOKEN": _ALNUM + "_-.+/=",
}


class RuleShape(NamedTuple):
    """How a secret looks: its beginning, and how many characters of which alphabet follow at least.

    `within_word`: it also counts where a letter stands before it.
    """

    prefix: str
    least: int
    alphabet: str
    within_word: bool


def shapes_of(rule: dict[str, Any]) -> Iterator[RuleShape]:
    """Yield the shapes of one rule; none if its secrets have no beginning of their own."""
    if "path" in rule or "regex" not in rule or rule["id"] in LEFT_OUT:
        return
    pattern = _TERMINATOR.sub("", _as_python(rule["regex"]))
    if pattern.startswith(("(?i:[\\w.-]{0,50}", "[\\w.-]{0,50}")):
        return  # any word near the name of a product
    for branch in _branches(list(parser.parse(pattern))):
        within_word = bool(branch) and branch[0][0] is not op.AT
        for prefix, rest in _prefixes(_flat(branch)):
            shape = _shape(prefix, rest, within_word=within_word)
            if shape is not None:
                yield shape


def _as_python(regex: str) -> str:
    """Return a pattern of Go in the spelling of Python. A flag in the middle holds until its group ends."""
    regex = regex.replace("[[:alnum:]]", "[a-zA-Z0-9]").replace(r"\z", r"\Z").replace("(?s:.)", "[\\s\\S]")
    found = re.search(r"\(\?i\)", regex)
    while found:
        end = _group_end(regex, found.end())
        regex = f"{regex[: found.start()]}(?i:{regex[found.end() : end]}){regex[end:]}"
        found = re.search(r"\(\?i\)", regex)
    return regex


def _group_end(regex: str, at: int) -> int:
    """Return where the group ends that `at` is in."""
    depth, in_class = 0, False
    while at < len(regex):
        char = regex[at]
        if char == "\\":
            at += 1
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char in "()":
            depth += 1 if char == "(" else -1
            if depth < 0:
                return at
        at += 1
    return at


def _branches(nodes: list[Any]) -> Iterator[list[Any]]:
    """Yield the alternatives of a pattern, its groups opened."""
    for place, (kind, value) in enumerate(nodes):
        if kind is op.SUBPATTERN:
            for inner in _branches(list(value[3])):
                yield from _branches_after(nodes[:place] + inner, nodes[place + 1 :])
            return
        if kind is op.BRANCH:
            for choice in value[1]:
                for inner in _branches(list(choice)):
                    yield from _branches_after(nodes[:place] + inner, nodes[place + 1 :])
            return
        if kind is not op.LITERAL and kind is not op.AT:
            break
    yield nodes


def _branches_after(done: list[Any], rest: list[Any]) -> Iterator[list[Any]]:
    """Continue with the rest only while all before it is literal: what follows a class need not be opened."""
    if all(kind in (op.LITERAL, op.AT) for kind, _ in done):
        for more in _branches(rest):
            yield done + more
    else:
        yield done + rest


def _flat(nodes: list[Any]) -> list[Any]:
    """Return the nodes without places (`\\b`) and without an optional beginning."""
    nodes = [node for node in nodes if node[0] is not op.AT]
    while nodes and nodes[0][0] is op.MAX_REPEAT and nodes[0][1][0] == 0:
        nodes = nodes[1:]
    return nodes


def _prefixes(nodes: list[Any], so_far: str = "") -> Iterator[tuple[str, list[Any]]]:
    """Yield how the secret can begin, each with the nodes that follow."""
    kind, value = nodes[0] if nodes else (None, 0)
    if kind is op.LITERAL:
        yield from _prefixes(nodes[1:], so_far + chr(value))
    elif kind is op.ANY:
        yield from _prefixes(nodes[1:], so_far + ".")  # a dot that somebody forgot to escape
    elif kind is op.IN and so_far and 1 < len(letters := _letters([nodes[0]])) <= _CHOICES_MAX:
        for letter in sorted(letters):
            yield from _prefixes(nodes[1:], so_far + letter)
    else:
        yield so_far, nodes


def _shape(prefix: str, rest: list[Any], *, within_word: bool) -> RuleShape | None:
    least = sum(_width(node) for node in rest)
    if len(prefix) < _PREFIX_MIN or least < _REST_MIN:
        return None
    least = min(least, _REST_MAX) if len(prefix) >= _LONG_PREFIX else least
    least = max(least, _WHOLE_MIN - len(prefix))
    letters = _letters(rest)
    fitting = (name for name, alphabet in _ALPHABETS.items() if letters <= set(alphabet))
    return RuleShape(prefix, least, next(fitting, "TOKEN"), within_word)


def _width(node: Any) -> int:
    """Return how many characters a node matches at least."""
    kind, value = node
    if kind in _REPEATS:
        return int(value[0]) * sum(_width(inner) for inner in value[2])
    if kind is op.SUBPATTERN:
        return sum(_width(inner) for inner in value[3])
    if kind is op.BRANCH:
        return min(sum(_width(inner) for inner in choice) for choice in value[1])
    return 0 if kind is op.AT else 1


def _letters(nodes: list[Any]) -> set[str]:
    """Return every character that may stand in what the nodes match."""
    found: set[str] = set()
    for kind, value in nodes:
        if kind is op.LITERAL:
            found.add(chr(value))
        elif kind is op.IN:
            found |= {one for one in _ALPHABETS["TOKEN"] if _is_in(one, value)}
        elif kind in _REPEATS:
            found |= _letters(list(value[2]))
        elif kind is op.SUBPATTERN:
            found |= _letters(list(value[3]))
        elif kind is op.BRANCH:
            found |= {letter for choice in value[1] for letter in _letters(list(choice))}
    return found


def _is_in(char: str, items: list[Any]) -> bool:
    categories = {op.CATEGORY_WORD: r"\w", op.CATEGORY_DIGIT: r"\d", op.CATEGORY_NOT_SPACE: r"\S"}
    return any(
        (kind is op.LITERAL and ord(char) == value)
        or (kind is op.RANGE and value[0] <= ord(char) <= value[1])
        or (kind is op.CATEGORY and bool(re.match(categories.get(value, "$."), char)))
        for kind, value in items
    )


def all_shapes(rules: list[dict[str, Any]]) -> list[RuleShape]:
    """Return one shape for each prefix, the most tolerant one, in the order of the prefixes."""
    best: dict[str, RuleShape] = {}
    for shape in (shape for rule in rules for shape in shapes_of(rule)):
        known = best.get(shape.prefix, shape)
        widest = max(known.alphabet, shape.alphabet, key=list(_ALPHABETS).index)
        least = min(known.least, shape.least)
        best[shape.prefix] = RuleShape(shape.prefix, least, widest, known.within_word or shape.within_word)
    return [best[prefix] for prefix in sorted(best)]


def module_of(shapes: list[RuleShape], commit: str, date: str) -> str:
    """Return the text of the generated module."""
    rows = "".join(
        f"    (b{json.dumps(one.prefix)}, {one.least}, {one.alphabet}, {one.within_word}),\n"
        for one in shapes
    )
    return _MODULE.format(commit=commit, date=date, rows=rows)


_MODULE = '''\
"""How the secrets of known services begin. Written by `tests/gitleaks_shapes.py`; do not edit.

From the rules of gitleaks (github.com/gitleaks/gitleaks, MIT licence, Copyright (c) 2019 Zachary Rice), commit
{commit} of {date}.
"""

from __future__ import annotations

ALNUM = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
HEX = b"0123456789abcdefABCDEF-"
WORD = ALNUM + b"_-"
TOKEN = WORD + b".+/="

SHAPES: tuple[tuple[bytes, int, bytes, bool], ...] = (
{rows})
"""A beginning, how many characters of which alphabet follow at least, and whether it may stand within a word."""
'''


def _git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", folder, *words], check=True, capture_output=True, text=True).stdout


def main(folder: Path) -> None:
    """Write the module from the newest commit of a clone."""
    rules = tomllib.loads(_git(folder, "show", f"HEAD:{RULES}"))["rules"]
    commit, date = _git(folder, "log", "-1", "--format=%H %cs", "HEAD").split()
    TARGET.write_text(module_of(all_shapes(rules), commit, date))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
