"""Finds, among the tools that an agent offers, the one that does what a script asks for, and fills in its parameters.

Agents are known by their tools alone, so a new agent with the usual names works without a line here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.testing.conversation import Call, Reply, Tool, Turn
from holdfast.testing.script import Action, Script, Shell, Write

_WRITERS = ("write_file", "write", "Write", "create_file")
_SHELLS = ("exec_command", "shell_command", "shell", "run_shell_command", "bash", "Bash", "run_command")
_PATCH = "apply_patch"
_PATH_PARAMETERS = ("file_path", "filePath", "path")
_COMMAND_PARAMETERS = ("cmd", "command")
_FILLERS: Mapping[str, Any] = {"boolean": False, "integer": 0, "number": 0, "array": [], "object": {}}
_FOLDER = re.compile(
    r"(?:<cwd>|currently working in the directory: |Working directory: |Workspace Directories:\*\*\n\s*- )([^\n<]+)"
)


class MissingToolError(HoldfastError):
    """The agent offers no tool that can do what the script asks for."""


def reply_to(turn: Turn, script: Script) -> Reply:
    """Return the script's next step in this conversation: the first action that no tool call was made for, or its end.

    Raises MissingToolError when the agent offers no tool for the action.
    """
    tokens = script.tokens
    if not turn.tools:
        return Reply(_in_words(script), None, *tokens)
    if turn.made >= len(script.actions):
        return Reply(script.say, None, *tokens)
    call = _call(turn, script.actions[turn.made], f"call_{turn.made + 1}")
    return Reply("", call, *tokens)


def _call(turn: Turn, action: Action, name: str) -> Call:
    if isinstance(action, Shell):
        return _shell_call(turn, action.command, name)
    if patch := turn.tools.get(_PATCH):
        text = _patch(action)
        return Call(name, patch.name, {"input": text}, text=text, freeform=patch.freeform)
    if writer := _first(turn, _WRITERS):
        given = {"content": action.content} | {
            key: _inside(turn, action.path) for key in _PATH_PARAMETERS if key in writer.accepts
        }
        return Call(name, writer.name, _filled(writer, given))
    return _shell_call(turn, _write_command(action), name)


def _shell_call(turn: Turn, command: str, name: str) -> Call:
    shell = _first(turn, _SHELLS)
    if shell is None:
        raise MissingToolError(
            f"no shell among the agent's tools: {', '.join(turn.tools)}",
            "let the agent use its tools, or add the name of its shell to holdfast.testing.tools",
        )
    key = next((key for key in _COMMAND_PARAMETERS if key in shell.accepts), "command")
    listed = shell.required.get(key) == "array"
    return Call(name, shell.name, _filled(shell, {key: ["bash", "-lc", command] if listed else command}))


def _first(turn: Turn, names: tuple[str, ...]) -> Tool | None:
    return next((turn.tools[name] for name in names if name in turn.tools), None)


def _filled(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Add what the tool insists on and no script says, such as a description."""
    missing = {
        key: _FILLERS.get(kind, "by the script") for key, kind in tool.required.items() if key not in given
    }
    return {**given, **missing}


def _inside(turn: Turn, path: str) -> str:
    """Return the absolute path, if the agent told the model where it works: some tools take no other."""
    found = _FOLDER.search(turn.prompt) or _FOLDER.search(turn.system)
    return f"{found[1].strip().rstrip('/')}/{path}" if found else path


def _write_command(action: Write) -> str:
    folder = shlex.quote(action.path.rpartition("/")[0] or ".")
    return f"mkdir -p {folder} && printf %s {shlex.quote(action.content)} > {shlex.quote(action.path)}"


def _patch(action: Write) -> str:
    lines = "".join(f"+{line}\n" for line in action.content.splitlines())
    return f"*** Begin Patch\n*** Add File: {action.path}\n{lines}*** End Patch\n"


def _in_words(script: Script) -> str:
    """Return all the actions as text, for an agent without tools: files as fenced blocks below their path.

    A command is only mentioned: fences are for files, and an agent without tools runs nothing.
    """
    blocks = [
        f"{action.path}\n```\n{action.content}```\n"
        if isinstance(action, Write)
        else f"Then run `{action.command}`.\n"
        for action in script.actions
    ]
    return "\n".join([*blocks, script.say])
