"""Scripts from a file, TOML or JSON, for those who test an agent without writing Python.

A table for each task, named like it; the prompt says which task it is about (`# Task T1`). With `match`, a pattern in the
prompt chooses the script, whatever its name; `*` is for every prompt that no other script is for.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import HoldfastError
from tests.scripted_model.exchange import task_of
from tests.scripted_model.script import Action, Call, Conversation, ModelFault, Script, Shell, Write

_ANY = "*"
_RESULT = re.compile(r"\{result(?::(.+))?\}", re.DOTALL)


class ScriptFileError(HoldfastError):
    """A file that holds no scripts."""


class StoredAction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of `write` with `content`, `shell`, and `call` with `arguments`.

    An argument `{result}` stands for what the last tool gave back, `{result:PATTERN}` for the group of a pattern in the
    latest result that has it.
    """

    write: str = ""
    content: str = ""
    shell: str = ""
    call: str = ""
    arguments: dict[str, Any] = {}

    def action(self) -> Action:
        """Return what the model has the agent do."""
        if [bool(self.write), bool(self.shell), bool(self.call)].count(True) != 1:
            raise ScriptFileError(
                "an action has one of write, shell and call", "give each its own [[…actions]]"
            )
        if self.write:
            return Write(self.write, self.content)
        return Shell(self.shell) if self.shell else Call(self.call, self._filled_in)

    def _filled_in(self, conversation: Conversation) -> Mapping[str, Any]:
        filled: Mapping[str, Any] = _with_results(self.arguments, conversation.results)
        return filled


def _with_results(value: Any, results: tuple[str, ...]) -> Any:
    if isinstance(value, dict):
        return {key: _with_results(one, results) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_results(one, results) for one in value]
    found = _RESULT.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    if found[1] is None:
        return results[-1] if results else ""
    matches = (re.search(found[1], result) for result in reversed(results))
    return next((one[one.re.groups and 1] for one in matches if one), "")


class StoredScript(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A script as a file has it. The fields are those of `Script`, and `match`."""

    actions: tuple[StoredAction, ...] = ()
    say: str = "Done."
    match: str = ""
    fault: ModelFault | None = None
    times: int | None = None
    after: int = 0
    resets_in_s: int = 3600
    think_s: float = 0.0
    tokens: tuple[int, int] = (1000, 50)
    running_usage: bool = False
    headers: dict[str, str] = {}

    def script(self) -> Script:
        """Return it as the model plays it."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name != "match"}
        return Script(**{**fields, "actions": tuple(one.action() for one in self.actions)})


def read_scripts(path: Path) -> Callable[[str], Script]:
    """Return the function that chooses a script of this file by the prompt. Raises ScriptFileError."""
    try:
        text = path.read_text()
        raw = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
        stored = msgspec.convert(raw, dict[str, StoredScript])
        patterns = {re.compile(one.match): one.script() for one in stored.values() if one.match}
    except (OSError, ValueError, re.error) as error:
        raise ScriptFileError(
            f"{path}: {error}", "docs/scripted-model.md shows what a script looks like"
        ) from error
    scripts = {name: one.script() for name, one in stored.items()}

    def choose(prompt: str) -> Script:
        chosen = next((script for pattern, script in patterns.items() if pattern.search(prompt)), None)
        return chosen or scripts.get(task_of(prompt)) or scripts.get(_ANY) or Script()

    return choose
