"""One exchange with a model in no provider's words: the turn, the reply to it, and how a script chooses that reply.

The provider APIs translate from and to this; the server sees nothing else. To make a reply, the tool that does what a
script asks is found among the tools that the agent offers. Agents are known by their tools alone, so a new agent with
the usual names works without a line here.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from holdfast.errors import HoldfastError
from tests.scripted_model.script import Action, ModelFault, Script, Shell, Write

_TASK = re.compile(r"^\W*Task ([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)
_WRITERS = ("write_file", "write", "Write", "create_file")
_SHELLS = ("exec_command", "shell_command", "shell", "run_shell_command", "bash", "Bash", "run_command")
_PATCH = "apply_patch"
_PATH_PARAMETERS = ("file_path", "filePath", "path")
_COMMAND_PARAMETERS = ("cmd", "command")
_FILLERS: Mapping[str, Any] = {"boolean": False, "integer": 0, "number": 0, "array": [], "object": {}}
_FOLDER = re.compile(
    r"(?:<cwd>|currently working in the directory: |Working directory: |Workspace Directories:\*\*\n\s*- )([^\n<]+)"
)


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """A tool that the agent offers: the parameters it must be given, each with its JSON type. `freeform` takes text."""

    name: str
    required: Mapping[str, str] = field(default_factory=dict)
    accepts: frozenset[str] = frozenset()
    freeform: bool = False

    @classmethod
    def of_schema(cls, name: str, schema: Mapping[str, Any]) -> OfferedTool:
        """Read a tool from the JSON schema of its parameters."""
        properties = schema.get("properties", {})
        kinds = {key: properties.get(key, {}).get("type", "string") for key in schema.get("required", ())}
        required = {key: (kind[0] if isinstance(kind, list) else kind).lower() for key, kind in kinds.items()}
        return cls(name, required, frozenset(properties))


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """A request as every provider's API means it. `made` counts the tool calls in the conversation so far."""

    prompt: str
    system: str
    tools: Mapping[str, OfferedTool]
    made: int
    stream: bool
    model: str

    @property
    def task(self) -> str:
        """The task that the brief in the prompt is about, or an empty string."""
        found = _TASK.search(self.prompt)
        return found[1] if found else ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call. `arguments` go to a tool with parameters, `text` to a freeform one."""

    id: str
    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    freeform: bool = False


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What the model replies: one tool call, or a text."""

    text: str
    call: ToolCall | None
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class StreamedReply:
    """A streamed reply in two parts. Without `closing` the client cannot know that the reply is complete."""

    opening: tuple[bytes, ...]
    closing: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class HttpReply:
    """What goes back to the agent. `cut` resets the connection after the body instead of closing it."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    media: str = "application/json"
    cut: bool = False


class ProviderApi(Protocol):
    """One provider's API: reads requests and words replies."""

    def read(self, path: str, body: Mapping[str, Any]) -> ModelTurn:
        """Read a request."""

    def stream(self, turn: ModelTurn, reply: ModelReply) -> StreamedReply:
        """Word a reply as server-sent events."""

    def whole(self, turn: ModelTurn, reply: ModelReply) -> bytes:
        """Word a reply as one document."""

    def refuse(self, fault: ModelFault, resets_at: int, resets_in_s: int) -> HttpReply:
        """Word a failure. `resets_at` is in seconds since the epoch."""


class MissingToolError(HoldfastError):
    """The agent offers no tool that can do what the script asks for."""


def reply_to(turn: ModelTurn, script: Script) -> ModelReply:
    """Return the script's next step in this conversation: the first action that no tool call was made for, or its end.

    Raises MissingToolError when the agent offers no tool for the action.
    """
    tokens = script.tokens
    if not turn.tools:
        return ModelReply(_in_words(script), None, *tokens)
    if turn.made >= len(script.actions):
        return ModelReply(script.say, None, *tokens)
    call = _call(turn, script.actions[turn.made], f"call_{turn.made + 1}")
    return ModelReply("", call, *tokens)


def _call(turn: ModelTurn, action: Action, name: str) -> ToolCall:
    if isinstance(action, Shell):
        return _shell_call(turn, action.command, name)
    if patch := turn.tools.get(_PATCH):
        lines = "".join(f"+{line}\n" for line in action.content.splitlines())
        text = f"*** Begin Patch\n*** Add File: {action.path}\n{lines}*** End Patch\n"
        return ToolCall(name, patch.name, {"input": text}, text=text, freeform=patch.freeform)
    if writer := _first(turn, _WRITERS):
        given = {"content": action.content} | {
            key: _inside(turn, action.path) for key in _PATH_PARAMETERS if key in writer.accepts
        }
        return ToolCall(name, writer.name, _filled(writer, given))
    folder, path = (shlex.quote(one) for one in (action.path.rpartition("/")[0] or ".", action.path))
    return _shell_call(turn, f"mkdir -p {folder} && printf %s {shlex.quote(action.content)} > {path}", name)


def _shell_call(turn: ModelTurn, command: str, name: str) -> ToolCall:
    shell = _first(turn, _SHELLS)
    if shell is None:
        raise MissingToolError(
            f"no shell among the agent's tools: {', '.join(turn.tools)}",
            "let the agent use its tools, or add the name of its shell to tests.scripted_model.exchange",
        )
    key = next((key for key in _COMMAND_PARAMETERS if key in shell.accepts), "command")
    listed = shell.required.get(key) == "array"
    return ToolCall(name, shell.name, _filled(shell, {key: ["bash", "-lc", command] if listed else command}))


def _first(turn: ModelTurn, names: tuple[str, ...]) -> OfferedTool | None:
    return next((turn.tools[name] for name in names if name in turn.tools), None)


def _filled(tool: OfferedTool, given: Mapping[str, Any]) -> dict[str, Any]:
    """Add required parameters that no script gives, such as a description."""
    missing = {
        key: _FILLERS.get(kind, "by the script") for key, kind in tool.required.items() if key not in given
    }
    return {**given, **missing}


def _inside(turn: ModelTurn, path: str) -> str:
    """Return the absolute path if the prompt says where the agent works: some tools take no other."""
    found = _FOLDER.search(turn.prompt) or _FOLDER.search(turn.system)
    return f"{found[1].strip().rstrip('/')}/{path}" if found else path


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
