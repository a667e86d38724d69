"""The shapes of secrets come from the rules of gitleaks, by a script that anybody can run again."""

from __future__ import annotations

import re

from holdfast import secret_shapes
from tests.gitleaks_shapes import TARGET, RuleShape, all_shapes, module_of

RULES = [
    {"id": "one", "regex": r"""\b((?:sk|rk)_live_[a-zA-Z0-9]{10,99})(?:[\x60'"\s;]|\\[nr]|$)"""},
    {"id": "two", "regex": r"abc_(?i)[a-f0-9]{64}"},
    {"id": "three", "regex": r"xo[ab]-[\w.-]{40}"},
    {"id": "near", "regex": r"(?i)[\w.-]{0,50}?(?:acme)(?:[ \t\w.-]{0,20})[\s'\"]{0,3}(?:=)([a-z0-9]{32})"},
    {"id": "file", "regex": "token_[a-z]{40}", "path": r"\.php$"},
]


def test_a_shape_is_a_beginning_with_the_characters_that_follow() -> None:
    """Each spelling of a beginning is a row. Rules that need a file's name or words around the secret are left out."""
    assert all_shapes(RULES) == [
        RuleShape("abc_", 64, "HEX", within_word=True),
        RuleShape("rk_live_", 10, "ALNUM", within_word=False),
        RuleShape("sk_live_", 10, "ALNUM", within_word=False),
        RuleShape("xoa-", 40, "TOKEN", within_word=True),
        RuleShape("xob-", 40, "TOKEN", within_word=True),
    ]


def test_the_module_is_what_the_script_writes_and_says_from_when() -> None:
    """Nobody edits it by hand, and whoever reads it can tell how old it is."""
    text = TARGET.read_text()
    found = re.search(r"commit\n([0-9a-f]{40}) of (\d{4}-\d\d-\d\d)\.", text)
    assert found is not None
    names = {getattr(secret_shapes, name): name for name in ("HEX", "ALNUM", "WORD", "TOKEN")}
    shapes = [
        RuleShape(prefix.decode(), least, names[alphabet], within_word)
        for prefix, least, alphabet, within_word in secret_shapes.SHAPES
    ]
    assert len(shapes) > 100
    assert module_of(shapes, found[1], found[2]) == text
