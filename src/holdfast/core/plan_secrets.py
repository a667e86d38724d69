"""Finds secrets in a plan. The journal and git keep a plan as long as a run of it exists, so it must hold none.

Every text of every field is looked at: for the shape of a secret, and for a value that is given to a name such as
`API_KEY`. What to write instead depends on the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.core.plan import Plan
from holdfast.redaction import names_a_secret, redact

Place = tuple[str | int, ...]

_LONG, _SHORT = 16, 8
"""A value of the first length is a secret if its name says so; one of the second, if it has a digit as well."""
_ASSIGNED = re.compile(r"(?:^|[\s;&|'\"(])(?:--?)?([A-Za-z][\w-]*?)=(['\"]?)([^\s'\";&|)]+)")
_OPTION = re.compile(r"(?:^|\s)--([A-Za-z][\w-]*)\s+(['\"]?)([^\s'\";&|)-][^\s'\";&|)]*)")
_NAME_ENDS = (
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "API_KEY", "ACCESS_KEY", "SECRET_KEY",
    "PRIVATE_KEY", "AUTH_KEY", "_PAT", "_PWD",
)  # fmt: skip
_NOT_VALUES = ("$", "{", "<", "/", "~", "./", "../", "%", "`")
"""How the name of a variable, a placeholder or a path begins: these name a secret and are none."""
_KEPT = "and plans are kept in git"


def secrets_in(plan: Plan) -> Iterator[tuple[Place, str]]:
    """Yield each place of a plan with a secret in it, and what to write instead."""
    found = list(_texts(msgspec.to_builtins(plan), ()))
    # One look at all of a large plan is much faster than one at each of its texts, and nearly always enough.
    is_clean = not _holds_secret("\n".join(" ".join(texts) for _, texts in found))
    for at, texts in found:
        if (at[:1] == ("agents",) and at[2:3] == ("env",)) or at[:2] == ("workspace", "env"):
            yield from _variable(at, texts)
        elif not is_clean and any(_holds_secret(text) for text in [*texts, " ".join(texts)]):
            yield at, _advice(at)


def _texts(value: Any, at: Place) -> Iterator[tuple[Place, list[str]]]:
    """Yield the texts below a value with their places; the words of a command together, because an option has two."""
    if isinstance(value, str):
        yield at, [value]
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, (*at, key))
    elif value and isinstance(value, list | tuple):
        if all(isinstance(inner, str) for inner in value):
            yield at, list(value)
        else:
            for index, inner in enumerate(value):
                yield from _texts(inner, (*at, index))


def _variable(at: Place, texts: list[str]) -> Iterator[tuple[Place, str]]:
    name, value = str(at[-1]), texts[0]
    if redact(value) != value or (names_a_secret(name) and _is_value(value)):
        yield (
            at,
            f"this looks like a secret, {_KEPT}; export {name} and write `pass_env: [{name}]` instead",
        )


def _holds_secret(text: str) -> bool:
    if redact(text) != text:
        return True
    given = [*_ASSIGNED.findall(text), *_OPTION.findall(text)]
    return any(_is_secret_name(name) and _is_value(value) for name, _, value in given)


def _is_secret_name(name: str) -> bool:
    return name.upper().replace("-", "_").endswith(_NAME_ENDS)


def _is_value(value: str) -> bool:
    """Tell whether a secret's name was given a real value: not a variable, a path, a number or a dummy."""
    if value.startswith(_NOT_VALUES) or value.isdigit() or "(" in value:
        return False
    return len(value) >= _LONG or (len(value) >= _SHORT and any(char.isdigit() for char in value))


def _advice(at: Place) -> str:
    if at == ("notify", "webhook"):
        return (
            f"whoever knows this address can post there, {_KEPT}; export it under a name of yours "
            "and write `webhook: $NAME` instead"
        )
    return (
        f"this holds what looks like a secret, {_KEPT}; export it, name the variable in `pass_env`, "
        "and use `$NAME` here"
    )
